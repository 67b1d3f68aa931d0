"""Lag out of progress events."""

from __future__ import annotations

import json

from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.progress_listener import LagReport, lag_by_queue
from sprocketmq.wire.message import MessageQueue

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_lag_is_the_head_less_the_end_of_the_batch() -> None:
    end = json.dumps(StreamOffset({A: 10, B: 5}, {A: 1}).to_json())
    head = json.dumps(StreamOffset({A: 12, B: 5}).to_json())
    assert lag_by_queue([(end, head)]) == {A: 2, B: 0}


def test_other_sources_are_left_alone() -> None:
    assert (
        lag_by_queue([('{"kafka":{"0":5}}', '{"kafka":{"0":9}}'), (None, None), ("7", "9"), ("not json", "{}")]) is None
    )


def test_a_report_sums_up() -> None:
    report = LagReport("id", "delays", 3, 100, {A: 2, B: 0})
    assert (report.total_offsets_behind_latest, report.max_offsets_behind_latest) == (2, 2)
    assert (report.min_offsets_behind_latest, report.avg_offsets_behind_latest) == (0, 1.0)

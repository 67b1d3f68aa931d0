# SPDX-License-Identifier: Apache-2.0
"""Lag out of progress events."""

from __future__ import annotations

import json

from sprocketmq.spark.losses import Loss
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.read.lag import LagReport, LatestOffsetReport, SourceLag, source_lag
from sprocketmq.wire.records.message import MessageQueue

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def text(offset: StreamOffset | LatestOffsetReport) -> str:
    return json.dumps(offset.to_json())


def lag_of(*sources: tuple[str | None, str, str]) -> SourceLag:
    lag = source_lag(list(sources))
    assert lag is not None
    return lag


def test_lag_is_the_head_less_the_end_of_the_batch() -> None:
    lag = lag_of(("{}", text(StreamOffset({A: 10, B: 5}, {A: 1})), text(StreamOffset({A: 12, B: 5}))))
    assert (lag.by_queue, lag.ms_by_queue, lag.oldest_unread_ms, lag.losses) == ({A: 2, B: 0}, {}, None, ())


def test_lag_in_time_is_by_the_brokers_clock_and_only_of_queues_with_something_left() -> None:
    head = LatestOffsetReport({A: 12, B: 5}, {A: 1_000}, {A: 4_500, B: 9_999})
    lag = lag_of(("{}", text(StreamOffset({A: 10, B: 5})), text(head)))
    assert (lag.ms_by_queue, lag.oldest_unread_ms) == ({A: 3_500}, 1_000)


def test_a_queue_that_is_not_begun_is_behind_by_what_it_holds() -> None:
    head = LatestOffsetReport({A: 12, B: 1_005}, earliest_offsets={B: 1_000})
    lag = lag_of(("{}", text(StreamOffset({A: 10})), text(head)))
    assert lag.by_queue == {A: 2, B: 5}


def test_losses_of_a_batch_are_reported_with_it_and_not_with_later_idle_events() -> None:
    loss = Loss(A, 2, 5, "deleted")
    end, head = text(StreamOffset({A: 10}, {A: 5}, lost=(loss,))), text(LatestOffsetReport({A: 10}))
    lag = lag_of((text(StreamOffset({A: 2})), end, head))
    assert lag.losses == (loss,)
    idle = lag_of((end, end, head))
    assert idle.losses == ()


def test_a_query_of_two_sources_is_as_late_as_the_later_one() -> None:
    one = (None, text(StreamOffset({A: 10})), text(LatestOffsetReport({A: 12}, {A: 1_000}, {A: 2_000})))
    other = (None, text(StreamOffset({B: 1})), text(LatestOffsetReport({B: 2}, {B: 500}, {B: 600})))
    lag = lag_of(one, other)
    assert (lag.by_queue, lag.ms_by_queue, lag.oldest_unread_ms) == ({A: 2, B: 1}, {A: 1_000, B: 100}, 500)
    read = lag_of(one, (None, text(StreamOffset({B: 2})), text(LatestOffsetReport({B: 2}))))
    assert read.oldest_unread_ms == 1_000


def test_a_queue_that_two_sources_read_is_as_late_as_in_the_later_one() -> None:
    late = (None, text(StreamOffset({A: 2})), text(LatestOffsetReport({A: 12}, {A: 1_000}, {A: 4_000})))
    read = (None, text(StreamOffset({A: 12})), text(LatestOffsetReport({A: 12})))
    for sources in ([late, read], [read, late]):
        lag = lag_of(*sources)
        assert (lag.by_queue, lag.ms_by_queue) == ({A: 10}, {A: 3_000})


def test_other_sources_are_left_alone() -> None:
    kafka = ('{"kafka":{"0":1}}', '{"kafka":{"0":5}}', '{"kafka":{"0":9}}')
    assert source_lag([kafka, (None, None, None), ("6", "7", "9"), ("", "not json", "{}")]) is None


def test_a_report_sums_up() -> None:
    losses = (Loss(A, 2, 5, "deleted"), Loss(B, 7, None, "went back"))
    report = LagReport("id", "delays", 3, 100, {A: 2, B: 0}, {A: 40}, 1_000, losses)
    assert (report.max_ms_behind_latest, report.lost_by_queue) == (40, {A: 3, B: 0})
    assert (report.total_offsets_behind_latest, report.max_offsets_behind_latest) == (2, 2)
    assert (report.min_offsets_behind_latest, report.avg_offsets_behind_latest) == (0, 1.0)

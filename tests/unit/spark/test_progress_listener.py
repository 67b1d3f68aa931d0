# SPDX-License-Identifier: Apache-2.0
"""The listener: what it says to the log, to a callback and to Prometheus."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sprocketmq.spark.losses import Loss
from sprocketmq.spark.observe.progress_listener import RocketMQProgressListener
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.read.lag import LagReport, LatestOffsetReport
from sprocketmq.wire.records.message import MessageQueue

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
LOST = Loss(A, 2, 5, "deleted")


def progress(batch_id: int, start: StreamOffset, end: StreamOffset, head: LatestOffsetReport, rows: int = 100) -> Any:
    """An event as Spark makes it."""
    source = SimpleNamespace(
        startOffset=json.dumps(start.to_json()),
        endOffset=json.dumps(end.to_json()),
        latestOffset=json.dumps(head.to_json()),
    )
    return SimpleNamespace(
        progress=SimpleNamespace(
            id="id-1", runId="run-1", name="delays", batchId=batch_id, numInputRows=rows, sources=[source]
        )
    )


FIRST = progress(
    3,
    StreamOffset({A: 2}),
    StreamOffset({A: 10}, {A: 5}, lost=(LOST,)),
    LatestOffsetReport({A: 12}, {A: 1_000}, {A: 1_250}),
)
SECOND = progress(4, StreamOffset({A: 10}), StreamOffset({A: 12}), LatestOffsetReport({A: 12}))


def test_a_callback_gets_each_batch() -> None:
    reports: list[LagReport] = []
    listener = RocketMQProgressListener(reports.append)
    listener.onQueryProgress(FIRST)
    listener.onQueryProgress(SECOND)
    assert [(report.batch_id, report.by_queue, report.ms_by_queue) for report in reports] == [
        (3, {A: 2}, {A: 250}),
        (4, {A: 0}, {}),
    ]
    assert [report.losses for report in reports] == [(LOST,), ()]


def test_the_log_says_lag_and_names_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sprocketmq.spark"):
        RocketMQProgressListener().onQueryProgress(FIRST)
    assert caplog.messages == [
        "query delays batch 3: 100 rows, 2 messages behind (largest queue 2), 250 ms behind",
        "query delays batch 3 left out: t/b/0: offsets 2 to 5 (3 messages) are missing (deleted by retention)",
    ]


def test_prometheus_has_the_last_lag_and_counts_until_the_query_ends() -> None:
    registry = CollectorRegistry()
    listener = RocketMQProgressListener(lambda report: None, registry=registry)
    queue = {"query": "delays", "topic": "t", "broker": "b", "queue": "0"}
    query = {"query": "delays"}

    def value(name: str, labels: dict[str, str]) -> float | None:
        return registry.get_sample_value(f"sprocketmq_spark_{name}", labels)

    listener.onQueryProgress(FIRST)
    assert (value("offsets_behind_latest", queue), value("ms_behind_latest", queue)) == (2, 250)
    assert value("oldest_unread_timestamp_ms", query) == 1_000
    listener.onQueryProgress(SECOND)
    assert (value("offsets_behind_latest", queue), value("ms_behind_latest", queue)) == (0, 0)
    assert value("oldest_unread_timestamp_ms", query) is None
    assert (value("batch", query), value("rows_total", query)) == (4, 200)
    assert (value("lost_messages_total", queue), value("losses_total", queue)) == (3, 1)
    listener.onQueryTerminated(SimpleNamespace(id="id-1", runId="run-1"))  # type: ignore[arg-type]
    assert value("offsets_behind_latest", queue) is None
    assert value("lost_messages_total", queue) is None

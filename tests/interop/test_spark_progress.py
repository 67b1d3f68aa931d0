# SPDX-License-Identifier: Apache-2.0
"""P7 and P8 through a real Spark at Apache's brokers, both generations: what Apache's tools see of a stream, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable

import prometheus_client
import pytest

from interop.child import poll_until
from interop.mqadmin_session import MqadminSession
from interop.spark_flow import PATIENCE_S, Flow, progress_by_mqadmin
from sprocketmq.spark import LagReport, RocketMQProgressListener
from sprocketmq.wire.records.message import MessageQueue

pytestmark = pytest.mark.spark


def test_mqadmin_sees_an_idle_stream_online_and_without_lag(flow: Flow, tools: Callable[[str], MqadminSession]) -> None:
    topic, group = flow.topic(2), flow.name()
    flow.send(topic, range(10), 0)
    mqadmin = tools(flow.apache.version)
    with flow.stream(topic, startingOffsets="earliest", group=group) as stream:
        stream.until_read(range(10))
        flow.send(topic, range(10, 15), 1)
        stream.until_read(range(15))
        shown = stream.until(
            lambda: (
                (rows := progress_by_mqadmin(mqadmin, flow, group))
                and rows.keys() >= {(topic, 0), (topic, 1)}
                and all(row[2] == 0 for row in rows.values())
                and rows
            ),
            "mqadmin sees no lag",
        )
        assert {place: shown[place] for place in ((topic, 0), (topic, 1))} == {
            (topic, 0): (10, 10, 0),
            (topic, 1): (5, 5, 0),
        }
        online = mqadmin.run("consumerConnection", "-n", flow.namesrv_addr, "-g", group)
        assert "@spark-" in online, online
        assert [line.split() for line in online.splitlines() if line.startswith(topic)] == [[topic, "*"]]
        assert "ConsumeType: CONSUME_ACTIVELY" in online
        (member,) = [line.split()[0] for line in online.splitlines() if "@spark-" in line]
        status = mqadmin.run("consumerStatus", "-n", flow.namesrv_addr, "-g", group, "-i", member)
        assert "CONSUME_ACTIVELY" in status, status
        assert "SprocketMQ" in status
        rows = [line.split() for line in status.splitlines() if line.startswith(topic)]
        told = {tuple(row) for row in rows if len(row) == 4 and row[3].isdigit()}
        assert told == {(topic, "broker-a", "0", "10"), (topic, "broker-a", "1", "5")}

    def offline() -> bool:
        return "@spark-" not in mqadmin.run("consumerConnection", "-n", flow.namesrv_addr, "-g", group)

    poll_until(offline, "the group is offline when the stream is stopped", PATIENCE_S)


def test_a_stream_tells_its_lag_in_messages_and_in_time(flow: Flow) -> None:
    topic = flow.topic(2)
    flow.send(topic, range(30), 0)
    flow.moment_ms()
    flow.send(topic, range(30, 50), 0)
    flow.send(topic, range(100, 110), 1)
    reports: list[LagReport] = []
    scraped: list[float] = []
    registry = prometheus_client.CollectorRegistry()
    queue = MessageQueue(topic, "broker-a", 0)
    where = {"topic": topic, "broker": "broker-a", "queue": "0"}

    def take(report: LagReport) -> None:
        if queue in report.by_queue:
            reports.append(report)
            labels = {"query": report.query_id, **where}
            scraped.append(registry.get_sample_value("sprocketmq_spark_offsets_behind_latest", labels) or 0.0)

    listener = RocketMQProgressListener(take, registry=registry)
    flow.spark.streams.addListener(listener)
    try:
        stream = flow.bounded(topic, startingOffsets="earliest", maxOffsetsPerTrigger=24)
        stream.until_over()
        poll_until(lambda: len(reports) >= 3, "the reports of three batches", PATIENCE_S)
    finally:
        flow.spark.streams.removeListener(listener)
    assert [report.input_rows for report in reports] == [24, 24, 12]
    assert [report.total_offsets_behind_latest for report in reports] == [36, 12, 0]
    assert [report.by_queue[queue] for report in reports] == [31, 11, 0]
    assert scraped == [31, 11, 0]
    behind_ms = [report.ms_by_queue.get(queue, 0) for report in reports]
    assert behind_ms[0] >= 30, "its oldest unread message was stored before the pause, its newest after it"
    assert behind_ms[2] == 0
    assert reports[2].oldest_unread_timestamp_ms is None

# SPDX-License-Identifier: Apache-2.0
"""P7 and P8 through a real Spark at Apache's brokers, both generations: what Apache's tools see of a stream, and what it says of itself."""

from __future__ import annotations

import pytest

from interop.child import poll_until
from interop.spark_flow import progress_by_mqadmin

pytestmark = pytest.mark.spark


def test_mqadmin_sees_an_idle_stream_online_and_without_lag(flow, tools):
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

    poll_until(offline, "the group is offline when the stream is stopped")

# SPDX-License-Identifier: Apache-2.0
"""An SQL92 expression that Apache's servers cannot parse: a pull with it brings everything, so a read with it is refused before."""

from __future__ import annotations

import time

import pytest

import sprocketmq as rmq
from interop.child import poll_until
from sprocketmq.client.consume.queue_reader import QueueReader
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read.queue_bounds import queue_bounds
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.wire.records.record import decode_records


def test_an_expression_that_apache_would_read_as_all_is_refused_while_a_read_is_planned(apache):
    topic = f"filtered-{time.time_ns()}"
    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(topic, queues=1)
        (queue,) = admin.queues(topic)
        for number in range(4):
            producer.send(rmq.Message(topic, b"x", properties={"n": str(number)}))
        cluster = Cluster.at(apache.namesrv_addr)
        poll_until(lambda: queue_bounds(cluster, [queue])[queue].max == 4, "four messages")

    def pulled(expression: str) -> int:
        with QueueReader(
            apache.namesrv_addr, "ours", [(queue, 0, 4)], expression=expression, expression_type="SQL92"
        ) as reader:
            return sum(len(decode_records(chunk.body, queue.broker_name)) for chunk in reader)

    assert pulled("n > 1") == 2
    with pytest.raises(rmq.RemoteError, match="code 23"):  # a pull alone would deliver all four
        pulled("n >")
    source = RocketMQDataSource({"namesrvaddr": apache.namesrv_addr, "topic": topic, "sql92": "n >"})
    refused = f"^sql92 is 'n >', which broker {queue.broker_name} refuses: Encountered .+ at line 1, column 3; correct the expression"
    with pytest.raises(ConfigurationError, match=refused):
        source.reader(source.schema()).partitions()
    stream = source.streamReader(source.schema())
    with pytest.raises(ConfigurationError, match=refused):
        stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())

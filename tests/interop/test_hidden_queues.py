# SPDX-License-Identifier: Apache-2.0
"""A topic of Apache's broker gets fewer queues. Its tools say that nothing waits; ours find the messages of the queues that it hides."""

from __future__ import annotations

import json
import time

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from inproc.spark.as_spark import ask, first_batch
from interop.child import poll_until
from interop.peers import ApacheCluster
from sprocketmq.core.doctor.group_doctor import GroupVerdict
from sprocketmq.spark.read.lag import source_lag
from sprocketmq.spark.source import RocketMQDataSource

# Of the hidden queues the group has progress in the last one alone, and nobody in the one before.
COUNTS = {0: 1, 2: 3, 5: 4}


@pytest.fixture
def hiding(apache: ApacheCluster) -> str:
    """A topic, and a group of the same name, that has read one message of queue 5."""
    name = f"hiding-{time.time_ns()}"
    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr, mq_client_api_timeout_ms=10_000) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(name, queues=6)
        admin.create_group(name)
        for queue_id, count in COUNTS.items():
            for number in range(count):
                producer.send(rmq.Message(name, b"%d" % number), queue=rmq.MessageQueue(name, "broker-a", queue_id))
        for queue_id, offset in ((0, 1), (1, 0), (5, 1)):
            admin.reset_offset(name, rmq.MessageQueue(name, "broker-a", queue_id), offset)
        admin.create_topic(name, queues=2)
        poll_until(lambda: len(admin.queues(name)) == 2, "the route has fewer queues")
    return name


@pytest.mark.nightly
def test_what_a_topic_hides_is_found_by_each_tool(apache, hiding):
    line = CommandLine(apache.namesrv_addr)
    waiting = {rmq.MessageQueue(hiding, "broker-a", 2): 3, rmq.MessageQueue(hiding, "broker-a", 5): 3}
    with rmq.Admin(namesrv_addr=apache.namesrv_addr, mq_client_api_timeout_ms=10_000) as admin:
        progress = admin.consumer_progress(hiding)
        assert {queue: at.lag for queue, at in progress.items() if at.lag} == waiting
        assert sorted(queue.queue_id for queue in progress) == [0, 1, 2, 5]
    assert line.ok(f"lag {hiding} --json --timeout 10s").json["lag"] == 6
    assert f"7 messages of {hiding}/broker-a/2, {hiding}/broker-a/5" in line.ok(f"tail {hiding} --timeout 10s").err

    consumer = rmq.PushConsumer(hiding, namesrv_addr=apache.namesrv_addr)
    consumer.subscribe(hiding)
    consumer.on_message(lambda message: None)
    with consumer, rmq.Admin(namesrv_addr=apache.namesrv_addr, mq_client_api_timeout_ms=10_000) as admin:
        poll_until(lambda: bool(admin.consumer_ids(hiding)), "the member is online")
        found = admin.diagnose_group(hiding, watch_ms=0)
        assert found.verdict is GroupVerdict.SWITCHED_OFF, found
        assert found.evidence == ("waiting there: 6 messages",)
        line.ok(f"{found.advice.removeprefix('sprocketmq ')} --timeout 10s")
        poll_until(lambda: admin.lag(hiding) == 0, "the member reads them")


def test_a_stream_of_spark_tells_what_its_topic_hides(apache, hiding, caplog):
    source = RocketMQDataSource(
        {"namesrvaddr": apache.namesrv_addr, "topic": hiding, "startingoffsets": "earliest", "group": hiding}
    )
    reader = source.streamReader(source.schema())
    try:
        end, numbers = first_batch(reader)
        assert numbers == [0]
        assert ask(reader, end) == end
        lag = source_lag([(None, json.dumps(end), json.dumps(reader.reportLatestOffset()))])
    finally:
        if reader._membership is not None:
            reader._membership.stop()
    assert lag is not None
    assert {queue.queue_id: count for queue, count in lag.by_queue.items()} == {0: 0, 1: 0, 2: 3, 5: 3}
    assert f"{hiding}/broker-a/5: 3" in caplog.text

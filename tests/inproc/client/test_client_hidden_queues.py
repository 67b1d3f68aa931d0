# SPDX-License-Identifier: Apache-2.0
"""Queues with messages that a topic does not let read any more: each tool counts them, at our broker and at one that does not list them."""

from __future__ import annotations

import asyncio
import functools

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from embedded_proxy import second_broker_of
from java_broker import as_java
from sprocketmq.client.admin import AsyncAdmin
from sprocketmq.console.cluster import Cluster
from sprocketmq.console.safety.mask import Mask
from sprocketmq.console.watch.group_state import GroupState
from sprocketmq.console.watch.watcher import Watcher
from sprocketmq.core.doctor.group_doctor import GroupVerdict
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode

HIDDEN = rmq.MessageQueue("flights", "broker-a", 3)
FAR = rmq.MessageQueue("flights", "broker-a", 30)


@pytest.fixture(params=["ours", "Java"])
def mq(request: pytest.FixtureRequest, rocketmq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> EmbeddedRocketMQ:
    """Seven messages in a hidden queue of which the group has read two, two in one that can be read, and one far behind."""
    if request.param == "Java":
        as_java(monkeypatch)
    with rocketmq.admin() as admin:
        admin.create_topic("flights", queues=31)
        admin.create_group("delays")
        with rocketmq.producer("ops") as producer:
            for queue_id, count in ((1, 2), (3, 7), (30, 1)):
                for number in range(count):
                    queue = rmq.MessageQueue("flights", "broker-a", queue_id)
                    producer.send(rmq.Message("flights", b"%d" % number), queue=queue)
        for queue_id, offset in ((0, 0), (1, 0), (3, 2), (30, 0)):
            admin.reset_offset("delays", rmq.MessageQueue("flights", "broker-a", queue_id), offset)
        admin.create_topic("flights", queues=2)
    return rocketmq


def test_what_a_topic_hides_is_in_every_sum(mq):
    line = CommandLine(mq.namesrv_addr)
    with mq.admin() as admin:
        assert admin.lag("delays") == admin.lag("delays", "flights") == 8
        assert admin.consumer_progress("delays")[HIDDEN].consumer_offset == 2
        assert sum(at.max_offset for at in admin.topic_stats("flights").values()) == 10
        assert {one.topic: one.messages for one in admin.topic_summaries()} == {"flights": 10}
        assert [one.accumulation for one in admin.topic_traffic("flights")] == [8]
        admin.create_topic("%RETRY%delays", queues=1)
        assert {one.group: one.lag for one in admin.group_summaries()}["delays"] == 8
    drained = line.run("broker drain broker-a --yes --wait 1ms")
    assert "left to consume: delays 8" in drained.out
    assert f"8 messages of {HIDDEN}, {FAR}" in line.ok("tail flights").err
    asked = line.run("topic alter flights --queues 1")
    assert (asked.code, "delays (2 messages)" in asked.err) == (2, True), "the others are hidden already"
    line.ok("topic alter flights --read-queues 3")


def test_the_doctor_says_what_is_hidden_and_how_it_can_be_read(mq):
    consumer = mq.push_consumer("delays")
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    with consumer, mq.admin() as admin:
        mq.advance_until(lambda: admin.lag("delays") == 6)
        found = admin.diagnose_group("delays", watch_ms=0)
        assert found.verdict is GroupVerdict.SWITCHED_OFF, found
        assert str(HIDDEN) in found.sentence
        assert found.evidence == ("waiting there: 6 messages",)
        CommandLine(mq.namesrv_addr).ok(found.advice.removeprefix("sprocketmq "))
        mq.advance_until(lambda: admin.lag("delays") == 0)
        assert admin.diagnose_group("delays", watch_ms=0).verdict is GroupVerdict.NOTHING_WAITS


def _seen_by_a_console(mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> GroupState:
    """The group after its first verdict and another look at the cluster."""
    monkeypatch.setattr(AsyncAdmin, "diagnose_group", functools.partialmethod(AsyncAdmin.diagnose_group, watch_ms=0))

    async def look() -> GroupState:
        watcher = Watcher(Cluster({"namesrv_addr": mq.namesrv_addr}, 5_000), mq.clock.now_ms, 5_000, Mask())
        try:
            await watcher.update()
            await watcher.diagnose("delays")
            await watcher.update()
        finally:
            await watcher._cluster.shutdown()
        return watcher.view.groups["delays"]

    return asyncio.run(look())


def test_the_console_counts_a_broker_where_the_group_has_no_progress(rocketmq, monkeypatch):
    with second_broker_of(rocketmq), rocketmq.admin() as admin:
        admin.create_topic("flights", queues=1)
        admin.create_group("delays", broker="broker-a")
        admin.reset_offset("delays", rmq.MessageQueue("flights", "broker-a", 0), 0)
        with rocketmq.producer("ops") as producer:
            producer.send(rmq.Message("flights", b"x"), queue=rmq.MessageQueue("flights", "broker-b", 0))
        state = _seen_by_a_console(rocketmq, monkeypatch)
        assert state.lag == admin.lag("delays") == 1


def test_a_broker_that_refuses_to_tell_is_not_counted_as_nothing(rocketmq, producer, admin):
    admin.create_topic("flights", queues=1)
    admin.create_group("delays")
    producer.send(rmq.Message("flights", b"x"))
    admin.create_topic("%RETRY%delays", queues=1)
    admin.reset_offset("delays", rmq.MessageQueue("flights", "broker-a", 0), 0)
    rocketmq.faults.fail(RequestCode.GET_CONSUME_STATS, ResponseCode.SYSTEM_ERROR, times=None)
    assert [one.accumulation for one in admin.topic_traffic("flights")] == [None]
    assert {one.group: one.lag for one in admin.group_summaries()}["delays"] is None
    with pytest.raises(rmq.RemoteError):
        admin.lag("delays")

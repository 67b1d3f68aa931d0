# SPDX-License-Identifier: Apache-2.0
"""Messages that a group does not get: at brokers that do not know it, in queues that its topic lost, and twice with one client id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from recorder import Recorder

import sprocketmq as rmq
from embedded_proxy import second_broker_of
from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.client.consume import rebalancer
from sprocketmq.core.doctor.group_doctor import GroupVerdict
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture
def strict_broker(rocketmq: EmbeddedRocketMQ) -> Iterator[Broker]:
    """broker-b, which creates no groups."""
    with second_broker_of(rocketmq, BrokerConfig(auto_create_subscription_group=False)) as broker:
        yield broker


def _send(rocketmq: EmbeddedRocketMQ, broker: str, count: int, queue_id: int = 0) -> None:
    with rocketmq.producer("ops") as producer:
        for number in range(count):
            producer.send(rmq.Message("flights", b"%d" % number), queue=rmq.MessageQueue("flights", broker, queue_id))


def test_what_waits_at_a_broker_that_does_not_know_the_group_is_counted_and_said(
    rocketmq, admin, strict_broker, consumers
):
    admin.create_topic("flights", queues=1)
    admin.create_group("delays", broker="broker-a")
    admin.reset_offset("delays", rmq.MessageQueue("flights", "broker-a", 0), 0)
    _send(rocketmq, "broker-a", 3)
    _send(rocketmq, "broker-b", 5)
    seen = Recorder()
    consumer = consumers(seen)
    rocketmq.advance_until(lambda: bool(consumer.health().warnings))
    assert consumer.health().is_healthy, "a restart does not help"
    waiting = {queue.broker_name: at.lag for queue, at in admin.consumer_progress("delays").items() if at.lag}
    assert waiting["broker-b"] == 5
    assert admin.lag("delays", "flights") == sum(waiting.values())
    found = admin.diagnose_group("delays", watch_ms=0)
    assert found.verdict is GroupVerdict.SWITCHED_OFF, found
    assert found.evidence[0] == "waiting there: 5 messages"

    admin.create_group("delays", broker="broker-b")
    rocketmq.advance_until(lambda: len(seen) == 8)
    rocketmq.advance_until(lambda: not consumer.health().warnings)


@pytest.mark.rocketmq(autoCreateSubscriptionGroup=False)
def test_a_group_that_no_broker_knows_is_a_warning(rocketmq, admin, consumers):
    consumer = consumers(Recorder())
    rocketmq.advance_until(lambda: bool(consumer.health().warnings))
    (warning,) = consumer.health().warnings
    assert "autoCreateSubscriptionGroup" in warning
    admin.create_group("delays")
    rocketmq.advance_until(lambda: bool(consumer.assigned_queues))
    assert consumer.health().warnings == ()


def test_a_client_id_that_a_broker_lists_twice_for_long_is_a_warning(rocketmq, consumers, monkeypatch):
    """Apache's broker lists each connection (ConsumerGroupInfo.getAllClientId)."""
    listed, times = rebalancer.consumer_ids, 2

    async def as_apache(cluster: Any, address: str, group: str) -> list[str]:
        return await listed(cluster, address, group) * times

    monkeypatch.setattr(rebalancer, "consumer_ids", as_apache)
    rocketmq.create_topic("flights", queues=2)
    consumer = consumers(Recorder())
    rocketmq.advance(60_000)
    assert consumer.health().warnings == (), "its connection may have broken, and the broker has not noticed yet"
    rocketmq.advance_until(lambda: bool(consumer.health().warnings))
    assert consumer.client_id in consumer.health().warnings[0]
    times = 1
    rocketmq.advance_until(lambda: not consumer.health().warnings)

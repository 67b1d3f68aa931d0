# SPDX-License-Identifier: Apache-2.0
"""A topic that a producer is just creating, at one broker after the other: all kinds of consumer read all of it soon."""

from __future__ import annotations

import pytest

import sprocketmq as rmq
from sprocketmq.broker import Broker
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SOON_MS = 4_000


@pytest.fixture
def young(rocketmq: EmbeddedRocketMQ, second_broker: Broker) -> rmq.Admin:
    """The topic "trains" is at one of two brokers."""
    with rocketmq.admin() as admin:
        admin.create_topic("trains", queues=1, broker=rocketmq.broker.address)
        yield admin


def _grow(rocketmq: EmbeddedRocketMQ, admin: rmq.Admin, second_broker: Broker) -> None:
    admin.create_topic("trains", queues=1, broker=second_broker.address)
    with rocketmq.producer("ops") as producer:
        for name in ("broker-a", "broker-b"):
            producer.send(rmq.Message("trains", name.encode()), queue=rmq.MessageQueue("trains", name, 0))


@pytest.mark.parametrize("kind", ["message", "orderly"])
def test_a_push_consumer_reads_the_brokers_that_came_after_its_start(rocketmq, second_broker, consumers, young, kind):
    got = []

    def listener(messages, context=None):
        got.extend(one.body for one in (messages if context is not None else [messages]))
        return rmq.ConsumeOrderlyStatus.SUCCESS if context is not None else None

    consumers(listener, topic="trains", kind=kind)
    _grow(rocketmq, young, second_broker)
    rocketmq.advance_until(lambda: sorted(got) == [b"broker-a", b"broker-b"], limit_ms=SOON_MS)


def test_a_retry_comes_from_the_broker_that_came_after_the_start(rocketmq, second_broker, consumers, young):
    tries = []

    def fails_once(message):
        tries.append((message.body, message.reconsume_times))
        if not message.reconsume_times:
            raise ValueError

    consumers(fails_once, topic="trains")
    _grow(rocketmq, young, second_broker)
    # 10 s is the first delay; the retry topic is made by the first heartbeat, after the topic's route has grown.
    rocketmq.advance_until(lambda: (b"broker-b", 1) in tries, limit_ms=SOON_MS + 10_000 + SOON_MS)


def test_a_pull_consumer_reads_the_brokers_that_came_after_its_start(rocketmq, second_broker, young):
    with rocketmq.pull_consumer("delays", consume_from_where=FIRST) as consumer:
        consumer.subscribe("trains")
        _grow(rocketmq, young, second_broker)
        got = []

        def polled():
            got.extend(one.body for one in consumer.poll(timeout_ms=0))
            return sorted(got) == [b"broker-a", b"broker-b"]

        rocketmq.advance_until(polled, limit_ms=SOON_MS)


def test_new_queues_of_an_old_topic_are_read_as_soon_as_its_route_is(rocketmq, consumers):
    got = []
    consumers(lambda message: got.append(message.body))
    for _ in range(25):  # it is not young any more then; its route is read at 30 s, and rebalances are at 20 s and 40 s
        rocketmq.advance(1_000)
    with rocketmq.admin() as admin, rocketmq.producer("ops") as producer:
        admin.create_topic("flights", queues=2)
        producer.send(rmq.Message("flights", b"far"), queue=rmq.MessageQueue("flights", "broker-a", 1))
    rocketmq.advance_until(lambda: got == [b"far"], limit_ms=9_000)

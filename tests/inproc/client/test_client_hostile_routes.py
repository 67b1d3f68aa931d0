# SPDX-License-Identifier: Apache-2.0
"""A name server that tells numbers of queues no broker has: they become lists in clients, so such a route is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import sprocketmq as rmq
from sprocketmq.core.resource_names import MAX_QUEUES
from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command

MANY = 2**31 - 1
BROKERS = 5  # of as many queues as one may have: together too many


def _of_one_broker(reading: int, writing: int) -> Callable[[TopicRouteData], TopicRouteData]:
    def spoil(route: TopicRouteData) -> TopicRouteData:
        data = msgspec.structs.replace(route.queue_datas[0], read_queue_nums=reading, write_queue_nums=writing)
        return msgspec.structs.replace(route, queue_datas=[data])

    return spoil


def _of_many_brokers(route: TopicRouteData) -> TopicRouteData:
    names = [f"b{number}" for number in range(BROKERS)]
    return TopicRouteData(
        queue_datas=[
            QueueData(name, read_queue_nums=MAX_QUEUES, write_queue_nums=MAX_QUEUES, perm=6) for name in names
        ],
        broker_datas=[BrokerData("c", name, {0: "127.0.0.1:1"}) for name in names],
    )


def _in_an_order(conf: str) -> Callable[[TopicRouteData], TopicRouteData]:
    return lambda route: msgspec.structs.replace(route, order_topic_conf=conf)


SPOILT: dict[str, Callable[[TopicRouteData], TopicRouteData]] = {
    "2^31 to read": _of_one_broker(MANY, 1),
    "2^31 to write": _of_one_broker(1, MANY),
    "less than none": _of_one_broker(-1, 1),
    "on many brokers": _of_many_brokers,
}
ORDERS = {
    "2^31 in an order": _in_an_order(f"broker-a:{MANY}"),
    "by and by": _in_an_order("broker-a:200000;" * 50 + "broker-a:1"),
    "thousands of digits": _in_an_order("broker-a:" + "9" * 5_000),
}


def tell(rocketmq: EmbeddedRocketMQ, spoil: Callable[[TopicRouteData], TopicRouteData], topic: str) -> None:
    """The name server's routes of ``topic`` are spoilt from now on."""
    dispatch = rocketmq.faults.intercept

    def intercept(connection: Any, command: Command, handler: Any) -> Command | None:
        answer = dispatch(connection, command, handler)
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and command.ext_fields.get("topic") == topic:
            assert answer is not None
            answer.body = spoil(TopicRouteData.decode(answer.body)).encode()
        return answer

    rocketmq.namesrv.intercept = intercept


@pytest.mark.parametrize("kind", [*SPOILT, *ORDERS], ids=lambda kind: kind.replace(" ", "-"))
def test_a_route_of_too_many_queues_is_refused_in_a_sentence(rocketmq, producer, kind):
    rocketmq.create_topic("flights", queues=2)
    tell(rocketmq, {**SPOILT, **ORDERS}[kind], "flights")
    error = ProtocolError if kind in SPOILT else ConfigurationError
    with pytest.raises(error, match="topic flights .* allowed|with at most"):
        producer.send(rmq.Message("flights", b"1"))
    with rocketmq.pull_consumer("readers") as consumer, pytest.raises(error, match="topic flights"):
        consumer.fetch_message_queues("flights")


@pytest.mark.parametrize("kind", ["2^31 to read", "2^31 in an order"])
def test_a_topic_whose_route_is_refused_does_not_keep_those_behind_it_from_being_refreshed(rocketmq, producer, kind):
    for topic in ("a", "b"):
        rocketmq.create_topic(topic, queues=2)
        producer.send(rmq.Message(topic, b"1"))
    tell(rocketmq, {**SPOILT, **ORDERS}[kind], "a")
    rocketmq.create_topic("b", queues=4)
    rocketmq.clock.advance(60_000)
    rocketmq.wait_until(lambda: producer.send(rmq.Message("b", b"2")).message_queue.queue_id >= 2)
    assert producer.send(rmq.Message("a", b"2")).message_queue.queue_id < 2, "what is known stays"

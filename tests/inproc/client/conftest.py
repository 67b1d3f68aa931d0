# SPDX-License-Identifier: Apache-2.0
"""Shared by the client's tests: started consumers and producers, and a second broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.broker import Broker
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.fixture
def rocketmq(rocketmq: EmbeddedRocketMQ) -> EmbeddedRocketMQ:
    """With a topic "flights" of one queue, as most tests want it."""
    rocketmq.create_topic("flights", queues=1)
    return rocketmq


@pytest.fixture
def consumers(rocketmq: EmbeddedRocketMQ) -> Iterator[Callable[..., rmq.PushConsumer]]:
    """Makes started consumers: ``consumers(listener, topic="flights", kind="message", **options)``; shut down after the test."""
    made: list[rmq.PushConsumer] = []

    def make(
        listener: Callable[..., Any],
        *,
        topic: str = "flights",
        expression: str = "*",
        kind: str = "message",
        batch_size: int | None = None,
        group: str = "delays",
        start: bool = True,
        **options: Any,
    ) -> rmq.PushConsumer:
        options.setdefault("consume_from_where", FIRST)
        consumer = rocketmq.push_consumer(group, **options)
        consumer.subscribe(topic, expression)
        if kind == "message":
            consumer.on_message(listener)
        elif kind == "concurrent":
            consumer.concurrent_listener(batch_size=batch_size)(listener)
        else:
            consumer.orderly_listener(batch_size=batch_size)(listener)
        made.append(consumer)
        if start:
            consumer.start()
        return consumer

    yield make
    for consumer in made:
        consumer.shutdown()


@pytest.fixture
def producer(rocketmq: EmbeddedRocketMQ) -> Iterator[rmq.Producer]:
    with rocketmq.producer("ops") as started:
        yield started


@pytest.fixture
def admin(rocketmq: EmbeddedRocketMQ) -> Iterator[rmq.Admin]:
    with rocketmq.admin() as made:
        yield made


@pytest.fixture
def second_broker(rocketmq: EmbeddedRocketMQ) -> Iterator[Broker]:
    """broker-b beside the fixture's broker-a, on the same name server and clock."""
    broker = Broker(
        namesrv_addr=rocketmq.namesrv_addr, host="127.0.0.1", port=0, broker_name="broker-b", clock=rocketmq.clock
    )
    broker.intercept = rocketmq.faults.intercept
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRocketMQ]:
    """For ``public_verbs``."""
    with EmbeddedRocketMQ() as started:
        started.create_topic("flights", queues=1)
        yield started


@pytest.fixture(scope="module")
def clients(server: EmbeddedRocketMQ) -> Iterator[dict[str, Any]]:
    """A started client of each class, by the owner of a verb."""
    options: dict[str, Any] = {"namesrv_addr": server.namesrv_addr, "clock": server.clock}
    push = server.push_consumer("push", await_termination_ms=0)
    push.subscribe("flights")
    push.on_message(lambda message: None)
    with (
        server.producer("ops", value_serializer=rmq.json_serializer) as producer,
        rmq.TransactionProducer(
            "t",
            check=lambda message: rmq.LocalTransactionState.UNKNOWN,
            value_serializer=rmq.json_serializer,
            **options,
        ) as transactions,
        push,
        server.pull_consumer("pull", poll_timeout_ms=0) as pull,
        rmq.DeadLetters("pull", **options) as dead_letters,
        server.admin() as admin,
    ):
        pull.subscribe("flights")
        yield {
            "producer": producer,
            "transactions": transactions,
            "push": push,
            "pull": pull,
            "dead letters": dead_letters,
            "admin": admin,
        }

# SPDX-License-Identifier: Apache-2.0
"""Sends of one queue that nobody waits for are stored in the order of the calls, also while a first route is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command

FIRST = rmq.MessageQueue("flights", "broker-a", 0)
WAYS: dict[str, Callable[[rmq.AsyncProducer, rmq.Message], Any]] = {
    "sharding-key": lambda producer, message: producer.send(message, sharding_key="SPR-1"),
    "selector": lambda producer, message: producer.send(message, selector=lambda queues, _: queues[0]),
    "queue": lambda producer, message: producer.send(message, queue=FIRST),
    "one-way": lambda producer, message: producer.send_oneway(message, sharding_key="SPR-1"),
    "batch": lambda producer, message: producer.send_batch([message], sharding_key="SPR-1"),
}


def _of_flights(command: Command) -> bool:
    return command.ext_fields.get("topic") == "flights"


def stored(rocketmq: EmbeddedRocketMQ) -> list[int]:
    return [int(message.body) for message in rocketmq.messages("flights")]


@pytest.mark.parametrize("way", WAYS)
def test_sends_that_wait_for_a_first_route_are_not_overtaken(rocketmq, admin, way):
    """One begins in each turn of the loop: before the question, while it is under way, when the answer is there and after it."""
    admin.create_topic("flights", queues=1)

    async def run() -> int:
        async with rmq.AsyncProducer("ops", namesrv_addr=rocketmq.namesrv_addr) as producer:
            sender = producer._sender
            assert isinstance(sender, Sender)
            sends: list[asyncio.Future[Any]] = []
            answered, turns_after = None, 50
            while turns_after:
                if answered is None and len(sends) >= 50 and late.hits:
                    answered = asyncio.create_task(asyncio.to_thread(rocketmq.clock.advance, 20))
                message = rmq.Message("flights", b"%d" % len(sends))
                sends.append(asyncio.create_task(WAYS[way](producer, message)))
                turns_after -= sender.queue_choice.has_route("flights")
                await asyncio.sleep(0)
            assert answered is not None
            await asyncio.gather(answered, *sends)
            await producer.send(rmq.Message("flights", b"%d" % len(sends)), queue=FIRST)  # one-ways are there before it
            return len(sends) + 1

    late = rocketmq.faults.delay(RequestCode.GET_ROUTEINFO_BY_TOPIC, 20, when=_of_flights)
    count = asyncio.run(run())
    assert count > 60, "some began before the answer"
    assert stored(rocketmq) == list(range(count))


def test_a_send_that_waits_for_an_address_waits_for_the_route_of_its_own_topic(rocketmq, admin):
    """A broker has one address, and each topic an answer of its own: that one is gone says nothing about the other."""
    admin.create_topic("flights", queues=1)

    async def run() -> list[Any]:
        async with rmq.AsyncProducer("ops", namesrv_addr=rocketmq.namesrv_addr) as producer:
            gone = producer.send(rmq.Message("gone", b"1"), queue=rmq.MessageQueue("gone", "broker-a", 0))
            here = producer.send(rmq.Message("flights", b"2"), queue=FIRST)
            return await asyncio.gather(gone, here, return_exceptions=True)

    _, here = asyncio.run(run())
    assert here.status == rmq.SendStatus.SEND_OK
    assert stored(rocketmq) == [2]

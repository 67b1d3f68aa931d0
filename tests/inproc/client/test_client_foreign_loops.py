# SPDX-License-Identifier: Apache-2.0
"""Async clients in odd company: awaited on a second event loop, and beside code that cancels their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.net.process.engine import Engine

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MESSAGE = rmq.Message("flights", b"x")
CALLS: dict[str, tuple[type[Any], Callable[[Any], Awaitable[object]]]] = {
    "send": (rmq.AsyncProducer, lambda client: client.send(MESSAGE)),
    "send_batch": (rmq.AsyncProducer, lambda client: client.send_batch([MESSAGE])),
    "flush": (rmq.AsyncProducer, lambda client: client.flush()),
    "poll": (rmq.AsyncPullConsumer, lambda client: client.poll(timeout_ms=0)),
    "commit": (rmq.AsyncPullConsumer, lambda client: client.commit()),
    "rebalance_now": (rmq.AsyncPushConsumer, lambda client: client.rebalance_now()),
    "topics": (rmq.AsyncAdmin, lambda client: client.topics()),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_client_on_a_second_loop_says_so_in_one_sentence(rocketmq, call):
    cls, use = CALLS[call]
    engine = Engine("its own")

    async def start() -> Any:
        group = () if cls is rmq.AsyncAdmin else ("g",)
        client = cls(*group, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock)
        if cls is rmq.AsyncPushConsumer:
            client.on_message(lambda message: None)
            client.subscribe("flights")
        await client.start()
        if cls is rmq.AsyncAdmin:
            await client.topics()
        return client

    client = engine.run(start())
    try:

        async def elsewhere() -> None:
            await use(client)

        with pytest.raises(rmq.ConfigurationError, match="belongs to another event loop; .* make one for each loop$"):
            asyncio.run(elsewhere())
    finally:
        engine.run(client.shutdown())
        engine.close()


@pytest.mark.parametrize("kind", ["async listener", "thread", "orderly", "pull"])
def test_a_consumer_goes_on_after_other_code_cancelled_all_tasks(rocketmq, kind):
    rocketmq.create_topic("flights", queues=2)
    seen: list[str] = []
    engine = Engine("its own")

    async def listen(message: rmq.MessageExt) -> None:
        seen.append(message.body.decode())

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        seen.extend(message.body.decode() for message in messages)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    async def start() -> Any:
        if kind == "pull":
            pull = rocketmq.async_pull_consumer("g", consume_from_where=FIRST)
            await pull.subscribe("flights")
            await pull.start()
            return pull
        push = rocketmq.async_push_consumer("g", consume_from_where=FIRST)
        push.subscribe("flights")
        if kind == "orderly":
            push.orderly_listener(in_order)
        elif kind == "thread":
            push.on_message(lambda message: seen.append(message.body.decode()))
        else:
            push.on_message(listen)
        await push.start()
        return push

    async def cancel_all() -> None:
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()

    async def poll() -> None:
        seen.extend(message.body.decode() for message in await consumer.poll(timeout_ms=0))

    def has(body: str) -> bool:
        if kind == "pull":
            engine.run(poll())
        return body in seen

    consumer = engine.run(start())
    try:
        with rocketmq.producer() as producer:
            for number in range(4):
                for queue_id in range(2):
                    queue = rmq.MessageQueue("flights", "broker-a", queue_id)
                    producer.send(rmq.Message("flights", f"{number}-{queue_id}".encode()), queue=queue)
                # In less than the 120 s after which a rebalance finds a queue that nobody pulls.
                rocketmq.advance_until(
                    lambda number=number: has(f"{number}-0") and has(f"{number}-1"), step_ms=100, limit_ms=20_000
                )
                engine.run(cancel_all())
                engine.run(cancel_all())  # those that were begun to make up for it, too
        # What is done each few seconds is done again.
        rocketmq.advance_until(
            lambda: rocketmq.consumer_offset("g", "flights") == {0: 4, 1: 4} or (has("") and False), limit_ms=60_000
        )
    finally:
        engine.run(consumer.shutdown())
        engine.close()

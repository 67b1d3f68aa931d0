# SPDX-License-Identifier: Apache-2.0
"""Every call of a client's life beside every other, for each client class: what a client takes it gives back, whoever interrupts whom.

A keeper stays in the client instance, so that its connection to the broker stays open: only who says that it leaves is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest
from recorder import by_kind, open_sockets

import sprocketmq as rmq
from sprocketmq.client import async_client
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = pytest.mark.slow

LIMIT_S = 30.0
TOPIC = "flights"
ALLOWED = (rmq.RocketMQError, asyncio.CancelledError)


class Holder:
    """Holds the client, so that a test can let go of it."""

    def __init__(self, client: Any) -> None:
        self.client = client


# -- the client classes -------------------------------------------------------------------------------------------------------------------


async def _listen(message: rmq.MessageExt) -> None:
    await asyncio.sleep(0)


def _push(group: str, kind: str = "async", **options: Any) -> rmq.AsyncPushConsumer:
    consumer = rmq.AsyncPushConsumer(group, consume_from_where="CONSUME_FROM_FIRST_OFFSET", **options)
    consumer.subscribe(TOPIC)
    if kind == "orderly":
        consumer.orderly_listener(by_kind("async", lambda messages, context: rmq.ConsumeOrderlyStatus.SUCCESS))
    else:
        consumer.on_message(_listen if kind == "async" else lambda message: None)
    return consumer


def _transactional(group: str, **options: Any) -> rmq.AsyncTransactionProducer:
    return rmq.AsyncTransactionProducer(
        group, check=lambda message: rmq.LocalTransactionState.UNKNOWN, topics=[TOPIC], **options
    )


KINDS: dict[str, Callable[..., Any]] = {
    "producer": partial(rmq.AsyncProducer, topics=[TOPIC]),
    "batching producer": partial(rmq.AsyncProducer, topics=[TOPIC], auto_batch=True),
    "transactional producer": _transactional,
    "push consumer": _push,
    "push consumer with threads": partial(_push, kind="plain"),
    "orderly consumer": partial(_push, kind="orderly"),
    "pull consumer": partial(rmq.AsyncPullConsumer, consume_from_where="CONSUME_FROM_FIRST_OFFSET"),
    "admin": lambda group, **options: rmq.AsyncAdmin(**options),
    "dead letters": rmq.AsyncDeadLetters,
}


# -- the calls ----------------------------------------------------------------------------------------------------------------------------


async def _use(client: Any) -> None:
    """What this client is for: send, poll, ask."""
    if hasattr(client, "send_async"):
        sent = client.send_async(rmq.Message(TOPIC, b"x"))
        await asyncio.gather(client.flush(), sent)
    elif hasattr(client, "poll"):
        await client.poll(timeout_ms=20)
    elif hasattr(client, "rebalance_now"):
        await client.rebalance_now()
    elif hasattr(client, "count"):
        await client.count()
    else:
        await client.topics()


async def _subscribe(client: Any) -> None:
    if hasattr(client, "subscribe"):
        if (subscribed := client.subscribe(TOPIC, "A || B")) is not None:
            await subscribed
    else:
        await _use(client)


async def _cancelled(work: Awaitable[Any], turns: int) -> None:
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _end_kept() -> None:
    """A push consumer that runs goes on when it is forgotten."""
    for client in list(async_client._kept):
        await client.shutdown()


async def _collect(holder: Holder) -> None:
    holder.client = None
    gc.collect()


Call = Callable[[Holder, int], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "start": lambda holder, turns: holder.client.start(),
    "shutdown": lambda holder, turns: holder.client.shutdown(),
    "subscribe": lambda holder, turns: _subscribe(holder.client),
    "use": lambda holder, turns: _use(holder.client),
    "a cancelled start": lambda holder, turns: _cancelled(holder.client.start(), turns),
    "a cancelled shutdown": lambda holder, turns: _cancelled(holder.client.shutdown(), turns),
    "being forgotten": lambda holder, turns: _collect(holder),
}


# -- what may be left: nothing ------------------------------------------------------------------------------------------------------------


async def _tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> bool:
    end_s = asyncio.get_running_loop().time() + LIMIT_S
    while not await condition():
        if asyncio.get_running_loop().time() > end_s:
            return False
        await asyncio.sleep(0.002)
    return True


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine("client-under-test")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _forgetting_is_on_purpose() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # a collection looks at what the test makes only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
    gc.unfreeze()


class Stage:
    """A keeper's instance, and what stands there beside the client under test. Belongs to the engine's loop."""

    def __init__(self, rocketmq: EmbeddedRocketMQ) -> None:
        self.options: dict[str, Any] = {
            "namesrv_addr": rocketmq.namesrv_addr,
            "clock": rocketmq.clock,
            "instance_name": "shared",
        }
        self.groups: set[str] = set()
        self.keeper = rmq.AsyncProducer("keeper", topics=[TOPIC], **self.options)
        self.asker = rmq.AsyncAdmin(namesrv_addr=rocketmq.namesrv_addr)
        self.before: set[asyncio.Task[Any]] = set()

    async def set_up(self) -> None:
        await self.keeper.start()
        await self.asker.topics()
        instance = self.keeper._instance
        assert instance is not None
        await _eventually(self._is_still)
        self.before = await _tasks()

    async def _is_still(self) -> bool:
        before = await _tasks()
        await asyncio.sleep(0.02)
        return before == await _tasks()

    async def pair(self, kind: str, was_started: bool, first: str, second: str, turns: int) -> None:
        group = f"g{len(self.groups)}"
        self.groups.add(group)
        holder = Holder(KINDS[kind](group, **self.options))
        if was_started:
            await holder.client.start()
        one = asyncio.ensure_future(CALLS[first](holder, turns))
        for _ in range(turns):
            await asyncio.sleep(0)
        works = [one]
        if holder.client is not None:
            works.append(asyncio.ensure_future(CALLS[second](holder, turns)))
        done, late = await asyncio.wait(works, timeout=LIMIT_S)
        assert not late, f"{kind}: {first} beside {second} hangs: {late}"
        for work in works:
            failure = None if work.cancelled() else work.exception()
            if failure is not None and not isinstance(failure, ALLOWED):
                raise failure
        del works, done, one, work, failure  # a traceback holds the client
        if holder.client is not None:
            await asyncio.wait_for(holder.client.shutdown(), LIMIT_S)
            assert not await self.members(group), f"{kind}: {first} beside {second}: a shutdown left a ghost"
            await holder.client.shutdown()
        await _collect(holder)
        await _end_kept()
        assert await _eventually(self._only_the_keeper), f"{kind}: {first} beside {second} left {await self.left()}"
        assert not await self.members(group), f"{kind}: {first} beside {second} left a ghost"

    async def members(self, group: str) -> list[str]:
        """As the broker has them."""
        producers = await self.asker.producer_connection(group, TOPIC)
        consumers: list[str] = []
        with contextlib.suppress(rmq.GroupNotExist):  # nobody of it was ever here
            consumers = await self.asker.consumer_ids(group)
        return [*consumers, *(producer.client_id for producer in producers)]

    async def left(self) -> list[Any]:
        instance = self.keeper._instance
        assert instance is not None
        return [*instance._consumers, *(instance._senders.keys() - {"keeper", "CLIENT_INNER_PRODUCER"}),
                *(await _tasks() - self.before)]  # fmt: skip

    async def _only_the_keeper(self) -> bool:
        return not await self.left()

    async def tear_down(self) -> None:
        for group in self.groups:
            assert not await self.members(group), f"{group} came back"
        await self.keeper.shutdown()
        await self.asker.shutdown()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts sockets in /proc")
@pytest.mark.parametrize("was_started", [False, True], ids=["new", "running"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_two_concurrent_calls_leave_no_member_no_thread_no_socket_and_no_task(rocketmq, engine, kind, was_started):
    rocketmq.create_topic(TOPIC, queues=2)
    assert rocketmq._engine is not None
    rocketmq._engine.run(
        asyncio.to_thread(int)
    )  # the broker's own thread for libraries, which it may need at any moment
    engine.run(asyncio.to_thread(int))
    threads, sockets = set(threading.enumerate()), open_sockets()

    async def run() -> None:
        stage = Stage(rocketmq)
        await stage.set_up()
        for number, (first, second) in enumerate(itertools.product(CALLS, CALLS)):
            await stage.pair(kind, was_started, first, second, turns=(0, 1, 3, 10, 40)[number % 5])
        await stage.tear_down()
        assert await _eventually(_no_task), await _tasks()

    async def _no_task() -> bool:
        return not await _tasks()

    engine.run(run())
    rocketmq.wait_until(lambda: set(threading.enumerate()) <= threads)
    rocketmq.wait_until(lambda: open_sockets() <= sockets)


# -- the blocking faces -------------------------------------------------------------------------------------------------------------------

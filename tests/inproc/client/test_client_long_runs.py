# SPDX-License-Identifier: Apache-2.0
"""Long lives in short time: many rebalances under load, and days of the manual clock. Order and at-least-once hold, and nothing piles up.

A little of it by default; `make soak` runs 1,000 rebalances and 24 hours (SPROCKETMQ_REBALANCES, SPROCKETMQ_SIMULATED_HOURS).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import itertools
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from interop.group_history import History
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import EmbeddedRocketMQ, ManualClock

REBALANCES = int(os.environ.get("SPROCKETMQ_REBALANCES", "12"))
HOURS = float(os.environ.get("SPROCKETMQ_SIMULATED_HOURS", "0.25"))
SEED = int(os.environ.get("SPROCKETMQ_STORM_SEED", "3"))
FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 if REBALANCES < 100 and HOURS < 2 else 7200)]


@pytest.fixture
def engine() -> Iterator[Engine]:
    """The clients' own, so that what is on it can be counted."""
    started = Engine("long-run")
    yield started
    started.close()


def _tasks(engine: Engine) -> int:
    async def count() -> int:
        return len(asyncio.all_tasks()) - 1

    return engine.run(count())


def _sockets() -> int:
    if not os.path.isdir("/proc/self/fd"):
        return 0
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed between the two looks
            found += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return found


def _living(rocketmq: EmbeddedRocketMQ) -> Counter[str]:
    """Objects by class, of ours and of asyncio's."""
    clock = rocketmq.clock
    assert isinstance(clock, ManualClock)
    with clock._lock:  # it keeps a cancelled timer, and what hangs on it, until it would have been due
        clock._timers[:] = [timer for timer in clock._timers if not timer.cancelled]
        heapq.heapify(clock._timers)
    gc.collect()
    kinds = (type(found) for found in gc.get_objects())
    return Counter(
        kind.__qualname__ for kind in kinds if str(kind.__module__).startswith(("sprocketmq", "asyncio", "_asyncio"))
    )


def _grown(before: Counter[str], after: Counter[str], allowance: int) -> dict[str, int]:
    return {kind: count - before[kind] for kind, count in after.items() if count - before[kind] > allowance}


class _Group:
    """Members of one group that come and go; all they do is in ``history``, by a clock that counts."""

    def __init__(self, rocketmq: EmbeddedRocketMQ, engine: Engine, *, queues: int, orderly: bool) -> None:
        self.rocketmq, self.engine = rocketmq, engine
        self.queues = queues
        self.history = History(queues=queues, orderly=orderly)
        self.members: list[rmq.PushConsumer] = []
        self._ticks, self._numbers = itertools.count(1), itertools.count(1)
        self._lock = threading.Lock()

    def join(self) -> None:
        name = f"member-{next(self._numbers)}"
        consumer = self.rocketmq.push_consumer(
            "delays", engine=self.engine, instance_name=name, consume_from_where=FIRST, consume_thread_count=2
        )
        consumer.subscribe("flights")
        if self.history.orderly:

            def in_order(
                messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext
            ) -> rmq.ConsumeOrderlyStatus:
                self._work(name, messages[0])
                return rmq.ConsumeOrderlyStatus.SUCCESS

            consumer.orderly_listener(in_order)
        else:
            consumer.on_message(lambda message: self._work(name, message))
        consumer.start()
        self.members.append(consumer)

    def leave(self, dice: random.Random) -> None:
        self.members.pop(dice.randrange(len(self.members))).shutdown()

    def _work(self, name: str, message: rmq.MessageExt) -> None:
        place = message.queue_id, message.queue_offset
        with self._lock:
            self.history.began(name, place, message.body.decode(), next(self._ticks))
        time.sleep(0.001)
        with self._lock:
            self.history.ended(name, place, next(self._ticks))

    @property
    def is_shared_out(self) -> bool:
        parts = [[q.queue_id for q in member.assigned_queues if q.topic == "flights"] for member in self.members]
        return all(parts) and sorted(itertools.chain(*parts)) == list(range(self.queues))

    @property
    def is_done(self) -> bool:
        with self._lock:
            return self.history.sent.keys() <= self.history.finished


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_rebalances_under_load_lose_nothing_keep_order_and_leave_nothing_behind(
    rocketmq, admin, producer, engine, orderly
):
    dice = random.Random(SEED)
    rocketmq.create_topic("flights", queues=6)
    group = _Group(rocketmq, engine, queues=6, orderly=orderly)
    instances, looks = len(ClientInstance._instances), []
    for number in range(REBALANCES):
        for _ in range(6):
            body = f"{len(group.history.sent)}"
            result = producer.send(rmq.Message("flights", body.encode()))
            group.history.sent[result.message_queue.queue_id, result.queue_offset] = body
        event = dice.choice(("join", "join", "leave", "queues"))
        if event == "queues" and group.members:
            group.queues = group.history.queues = group.queues + 1 if group.queues < 12 else group.queues
            admin.create_topic("flights", queues=group.queues)
        if len(group.members) < 2 or (event == "join" and len(group.members) < 5):
            group.join()
        elif event != "queues":
            group.leave(dice)
        rocketmq.advance_until(lambda: group.is_shared_out, step_ms=1_000, limit_ms=120_000)
        if number in (REBALANCES // 2, REBALANCES - 1):
            rocketmq.advance_until(lambda: group.is_done, step_ms=1_000, limit_ms=120_000)
            group.history.settled = {
                member.client_id: [q.queue_id for q in member.assigned_queues if q.topic == "flights"]
                for member in group.members
            }
            assert group.history.problems() == []
            while group.members:
                group.leave(dice)
            rocketmq.wait_until(lambda: _tasks(engine) == 0)
            rocketmq.advance(20_000)  # the broker holds a pull for 15 s, also of one who has left
            looks.append((_sockets(), threading.active_count(), _living(rocketmq)))
    assert len(ClientInstance._instances) == instances
    (sockets, threads, living), (sockets_later, threads_later, living_later) = looks
    # The shared engine's and the servers' idle threads and sockets may vary by a few; what each rebalance left would be hundreds.
    allowance = max(16, REBALANCES // 8)
    assert sockets_later - sockets <= 2
    assert threads_later - threads <= 2
    assert _grown(living, living_later, allowance) == {}


def _listeners(seen: dict[str, Counter[str]], order: list[str]) -> dict[str, Callable[..., Any]]:
    def concurrent(message: rmq.MessageExt) -> None:
        text = message.body.decode()
        seen["concurrent"][text] += 1
        if int(text) % 10 == 3 and message.reconsume_times < 2:
            raise ValueError("not yet")

    def orderly(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        text = messages[0].body.decode()
        seen["orderly"][text] += 1
        if int(text) % 10 == 7 and seen["orderly"][text] == 1:
            return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        order.append(text)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    def broadcasting(message: rmq.MessageExt) -> None:
        seen["broadcasting"][message.body.decode()] += 1

    return {"concurrent": concurrent, "orderly": orderly, "broadcasting": broadcasting}


def test_days_go_by_and_nothing_piles_up(tmp_path, engine, caplog):
    # pytest keeps every record, and a listener's exception in it keeps its message.
    caplog.set_level(logging.CRITICAL, logger="sprocketmq.client")
    seen: dict[str, Counter[str]] = {"concurrent": Counter(), "orderly": Counter(), "broadcasting": Counter()}
    order: list[str] = []
    with EmbeddedRocketMQ(store_dir=tmp_path / "store") as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        consumers = []
        for name, listener in _listeners(seen, order).items():
            consumer = rocketmq.push_consumer(
                name,
                engine=engine,
                consume_from_where=FIRST,
                consume_thread_count=2,
                local_offset_store_dir=str(tmp_path / "offsets"),
                message_model="BROADCASTING" if name == "broadcasting" else "CLUSTERING",
            )
            consumer.subscribe("flights")
            (consumer.orderly_listener if name == "orderly" else consumer.on_message)(listener)
            consumer.start()
            consumers.append(consumer)
        sent, looks = 0, []
        minutes = max(8, int(HOURS * 60))
        with rocketmq.producer("ops", engine=engine) as producer:
            for minute in range(minutes):
                for _ in range(3):
                    producer.send(rmq.Message("flights", str(sent).encode()))
                    sent += 1
                rocketmq.advance(60_000)
                if minute == minutes // 2:
                    rocketmq.restart_broker()
                if minute in (minutes // 4, minutes - 1):
                    tries = {str(number): 3 if number % 10 == 3 else 1 for number in range(sent)}
                    rocketmq.advance_until(
                        lambda tries=tries: all(seen["concurrent"][text] >= count for text, count in tries.items()),
                        step_ms=5_000,
                    )
                    rocketmq.advance_until(
                        lambda sent=sent: len(set(order)) == sent == len(seen["broadcasting"]), step_ms=1_000
                    )
                    # Two rounds of everything periodic: what was for the moment only is gone.
                    rocketmq.advance(120_000)
                    rocketmq.wait_until(lambda: _tasks(engine) < 60)
                    looks.append((_tasks(engine), _sockets(), threading.active_count(), _living(rocketmq)))
        for consumer in consumers:
            consumer.shutdown()
        assert rocketmq.consumer_offset("orderly", "flights") == {0: sent}
        assert rocketmq.consumer_offset("concurrent", "flights") == {0: sent}
    first_times = list(dict.fromkeys(order))
    assert first_times == [str(number) for number in range(sent)], "in order"
    (tasks, sockets, threads, living), (tasks_later, sockets_later, threads_later, living_later) = looks
    assert abs(tasks_later - tasks) <= 3
    assert sockets_later - sockets <= 3
    assert threads_later - threads <= 3
    assert _grown(living, living_later, allowance=30) == {}
    assert _tasks(engine) == 0

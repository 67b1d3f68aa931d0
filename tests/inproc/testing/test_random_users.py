# SPDX-License-Identifier: Apache-2.0
"""Each rule of the random users is broken once, by a fault of the product that is planted here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from sprocketmq.broker import Broker
from sprocketmq.broker.delivery.filters import FilterTable
from sprocketmq.broker.delivery.schedule import ScheduleMessageService
from sprocketmq.broker.delivery.timer_messages import TimerMessages
from sprocketmq.broker.delivery.transactions import Transactions
from sprocketmq.broker.tables.consumers import ProducerTable
from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer
from sprocketmq.client.consume.rebalancer import Rebalancer
from sprocketmq.client.listen.concurrent_service import OneAtATimeService
from sprocketmq.client.produce import request_reply
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.queue_lock import QueueLockTable
from sprocketmq.core.transactions.transaction_check import Outcome
from sprocketmq.store import StoredMessage
from sprocketmq.testing.simulation import SimulationError, Weather, World, simulate
from sprocketmq.testing.simulation.users import FEATURES, RandomUsers
from sprocketmq.testing.simulation.users.ledger import Ledger
from sprocketmq.wire.records.message import MessageExt


class Fault(NamedTuple):
    """``make``: of what the attribute is, what it becomes. ``says``: how the rule complains."""

    features: str
    says: str
    owner: Any
    name: str
    make: Callable[[Any], Any]
    weather: tuple[str, ...] = ()
    messages: int = 100


def async_before(seconds: float) -> Callable[[Any], Any]:
    def make(before: Any) -> Any:
        async def slow(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(seconds)
            return await before(*args, **named)

        return slow

    return make


def stores_some_twice(put: Any) -> Any:
    def broken(self: Broker, message: Any, *more: Any) -> Any:
        if message.topic.startswith("topic-") and self.store.max_offset(message.topic, message.queue_id) == 2:
            put(self, message, *more)
        return put(self, message, *more)

    return broken


def loses_one_in_the_cache(put: Any) -> Any:
    return lambda self, messages: put(self, [one for one in messages if one.queue_offset != 3])


def calls_twice(call: Any) -> Any:
    async def broken(self: OneAtATimeService, message: MessageExt, process_queue: ProcessQueue) -> Any:
        await call(self, message, process_queue)
        return await call(self, message, process_queue)

    return broken


def replies_other_bytes(reply_message: Any) -> Any:
    return lambda request, body, properties=None: reply_message(request, body[:-1], properties)


def always(result: Any) -> Callable[[Any], Any]:
    return lambda before: lambda *args, **named: result


def forgets_recalls(deliver: Any) -> Any:
    return lambda self, record, unit, keys, now_ms: deliver(self, record, unit, None, now_ms)


def commits_all(end: Any) -> Any:
    return lambda self, half, outcome, now_ms: end(self, half, Outcome.COMMIT, now_ms)


def asks_for_routes_again_and_again(every: Any) -> Any:
    def broken(self: ClientInstance, name: str, first_ms: int, period_ms: int, work: Any) -> None:
        every(self, name, first_ms, 150 if name == "routes" else period_ms, work)

    return broken


FAULTS = {
    "stored twice": Fault("assigned", "was sent once and is stored", Broker, "put", stores_some_twice),
    "a message is lost in a member": Fault(
        "concurrent", "is not finished", ProcessQueue, "put", loses_one_in_the_cache
    ),
    "a member of several misses one": Fault("broadcasting", "lacks m", ProcessQueue, "put", loses_one_in_the_cache),
    "delivered again": Fault("concurrent", "without a cause", OneAtATimeService, "_call_async", calls_twice),
    "no filter": Fault("filters concurrent", "does not want", FilterTable, "compiled", always(lambda record: True)),
    "rolled back is visible": Fault("transactions", "rolled back or recalled", Transactions, "end", commits_all),
    "too early": Fault("delays", "before its time", ScheduleMessageService, "_latest_due_ms", always(0)),
    "a recall does nothing": Fault(
        "timers recalls", "rolled back or recalled", TimerMessages, "_deliver_one", forgets_recalls
    ),
    "too long": Fault("", "is its limit", Sender, "send", async_before(8.0)),
    "no pause": Fault("pauses concurrent", "is paused since", AsyncPushConsumer, "pause", always(None), messages=400),
    "other bytes come back": Fault(
        "requests concurrent", "got the reply", request_reply, "reply_message", replies_other_bytes
    ),
    "two owners of a lock": Fault(
        "orderly", "two listeners at|both hold the lock", QueueLockTable, "try_lock", always(True), ("walls",)
    ),
    "a seek goes too far": Fault(
        "assigned seeks",
        "has sought",
        Rebalancer,
        "seek",
        lambda seek: lambda self, queue, offset: seek(self, queue, offset + 1),
    ),
    "a storm of requests": Fault(
        "concurrent", "has written", ClientInstance, "_every", asks_for_routes_again_and_again, messages=10
    ),
    "who has left is remembered": Fault(
        "", "brokers and processes forget", ProducerTable, "connection_closed", always(None)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_rule_finds_its_fault(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    features = fault.features.split()
    assert set(features) <= set(FEATURES)
    monkeypatch.setattr(RandomUsers, "AFTER_MS", 300_000)
    monkeypatch.setattr(fault.owner, fault.name, fault.make(getattr(fault.owner, fault.name)))

    def search() -> None:
        for seed in range(1, 6):
            simulate(
                RandomUsers(fault.messages, features), seed=seed, weather=Weather(fault.weather), **RandomUsers.CONFIG
            )

    with pytest.raises(SimulationError) as caught:
        search()
    assert re.search(fault.says, "\n".join([str(caught.value), *caught.value.__notes__]))


def test_what_a_broker_had_before_it_lost_its_power_is_looked_for_again() -> None:
    async def main(world: World) -> None:
        await world.topic("orders", 1)
        ledger, (host,) = Ledger(world), world.brokers
        ledger.topics.append("orders")
        sent, message = ledger.attempt("orders", world.rng)
        sent.is_acknowledged = sent.is_durable = True
        broker = world.running(host)
        assert isinstance(broker, Broker)
        broker.put(StoredMessage("orders", 0, message.body), 0)
        ledger.look()
        assert ledger.is_stored(sent)
        world.kill(host, power=True)
        world.restart(host)
        await world.all_up()
        restarted = world.running(host)
        assert isinstance(restarted, Broker)
        assert restarted.store.max_offset("orders", 0) == 0, "this seed loses the message"
        ledger.note_lives()
        ledger.look()
        assert not ledger.is_stored(sent)

    simulate(main, seed=2, flushDiskType="ASYNC_FLUSH")

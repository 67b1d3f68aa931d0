# SPDX-License-Identifier: Apache-2.0
"""The clients of the outage drill, and what they saw: senders of all kinds, a concurrent group, an orderly group whose queues move.

senders --took, acked--> Ledger <--consumed, in_order, rounds, lives-- consumers
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import sprocketmq as rmq
from interop.child import HANG_S, poll_until
from interop.withheld import withheld_s
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.errors import RocketMQError

TIMEOUT_MS: Final = 1_500
PERIOD_MS: Final = 1_500  # two of them are less than the time of one request, and the pause after it
POLL_MS: Final = 1_000
# What a promise may be late by where the machine withholds nothing: threads hand Python's lock on each 5 ms, and clocks are read apart.
GRAIN_S: Final = 0.15
_AWAY_S: Final = 2.0
_STAYS_S: Final = 10.0
_KEYS: Final = tuple(f"N{number}" for number in range(12))
_QUICK: Final[dict[str, Any]] = {
    "poll_name_server_interval_ms": POLL_MS,
    "heartbeat_broker_interval_ms": PERIOD_MS,
    "persist_consumer_offset_interval_ms": 1_000,
    "pull_time_delay_when_exception_ms": 500,
}
_SENDING: Final[dict[str, Any]] = {
    "send_msg_timeout_ms": TIMEOUT_MS,
    "poll_name_server_interval_ms": POLL_MS,
    "heartbeat_broker_interval_ms": PERIOD_MS,
}


def engine_thread() -> tuple[int, int]:
    """The thread of all clients of this process, for ``withheld_s``."""
    (thread,) = (one for one in threading.enumerate() if one.name == "sprocketmq-engine")
    assert thread.native_id is not None
    return os.getpid(), thread.native_id


class Ledger:
    """What was promised to the clients, and what they saw. Times are of ``time.monotonic()``.

    Attributes: ``lives`` has each client that was up: its id, since when, until when. ``moves`` counts ordered queues that changed hands.
    """

    def __init__(self) -> None:
        self.acked: set[str] = set()
        self.refused = 0
        self.ended: Counter[str] = Counter()  # sends, by kind
        self.longest: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))  # took, and was withheld
        self.late: list[str] = []
        self.consumed: set[str] = set()
        self.ordered: defaultdict[rmq.MessageQueue, list[int]] = defaultdict(list)
        self.ordered_bodies: set[str] = set()
        self._readers: dict[rmq.MessageQueue, str] = {}
        self.moves = 0
        self.rounds: defaultdict[str, list[float]] = defaultdict(list)
        self.lives: list[tuple[str, float, float]] = []

    def took(self, kind: str, spent_s: float, machine_s: float) -> None:
        """A send has ended: law 1."""
        self.ended[kind] += 1
        self.longest[kind] = max(self.longest[kind], (spent_s, machine_s))
        if spent_s > TIMEOUT_MS / 1000 + machine_s + GRAIN_S:
            self.late.append(
                f"a send ({kind}) took {spent_s:.2f} s, {TIMEOUT_MS} ms are its timeout, the machine withheld {machine_s:.2f} s of it"
            )

    def in_order(self, member: str, messages: list[rmq.MessageExt]) -> None:
        """A member of the orderly group has them in hand."""
        queue = messages[0].message_queue
        if self._readers.setdefault(queue, member) != member:
            self._readers[queue] = member
            self.moves += 1
        self.ordered[queue] += [message.queue_offset for message in messages]
        self.ordered_bodies.update(message.body.decode() for message in messages)


class Clients:
    """Use ``start``, and ``stop_sending`` before anything is judged.

    Args:
        life: ends them.
    """

    def __init__(self, namesrv_addr: str, topic: str, ledger: Ledger, life: contextlib.ExitStack) -> None:
        self._namesrv_addr, self._topic, self._ledger, self._life = namesrv_addr, topic, ledger, life
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []
        self._engine = (0, 0)

    def start(self) -> None:
        """Everything flows when this returns."""
        self._count_rounds()
        replier = self._producer(rmq.Producer("repliers", **self._options("replier", _SENDING)))
        self._engine = engine_thread()
        self._live(self._concurrent(replier))
        for number in range(2):
            self._live(self._orderly(f"orderly-{number}"))
        senders = {f"keyed-{part}": self._keyed(part) for part in range(3)} | self._kinds()
        self._life.callback(self.stop_sending)
        self._begin(self._come_and_go)
        for kind, send in senders.items():
            self._begin(partial(self._send, kind, send))
        seen = self._ledger
        poll_until(lambda: len(seen.consumed) > 100 and len(seen.ordered_bodies) > 100, "messages flow")

    def stop_sending(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(HANG_S)

    def _begin(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, name="outage"))
        self._threads[-1].start()

    def _options(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """A client of its own for each: heartbeats are judged by client."""
        return {"namesrv_addr": self._namesrv_addr, "instance_name": name, **options}

    # -- consumers -------------------------------------------------------------------------------------------------------------

    def _concurrent(self, replier: rmq.Producer) -> rmq.PushConsumer:
        consumer = self._consumer("concurrent", "concurrent")

        def take(message: rmq.MessageExt) -> None:
            self._ledger.consumed.add(message.body.decode())
            if message.properties.get("CORRELATION_ID"):
                with contextlib.suppress(RocketMQError):  # who asked gets its timeout, and that is what is judged
                    replier.reply(message, b"yes")

        consumer.on_message(take)
        return consumer

    def _orderly(self, name: str) -> rmq.PushConsumer:
        consumer = self._consumer("orderly", name)

        @consumer.orderly_listener
        def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
            self._ledger.in_order(name, messages)
            return rmq.ConsumeOrderlyStatus.SUCCESS

        return consumer

    def _consumer(self, group: str, name: str) -> rmq.PushConsumer:
        first = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = rmq.PushConsumer(group, consume_from_where=first, **self._options(name, _QUICK))
        consumer.subscribe(self._topic)
        return consumer

    def _live(self, consumer: rmq.PushConsumer) -> None:
        consumer.start()
        self._life.callback(consumer.shutdown)
        self._life.callback(self._has_lived, consumer.client_id, time.monotonic())

    def _has_lived(self, client_id: str, began_s: float) -> None:
        self._ledger.lives.append((client_id, began_s, time.monotonic()))

    def _come_and_go(self) -> None:
        """A third member of the orderly group, whatever the weather: queues move to it and back."""
        while not self._ends.is_set():
            consumer = self._orderly("orderly-2")
            try:
                consumer.start()
            except RocketMQError:  # no name server answers: it says so, and the next one tries again
                self._ends.wait(_AWAY_S)
                continue
            began_s = time.monotonic()
            self._ends.wait(_STAYS_S)
            self._has_lived(consumer.client_id, began_s)
            consumer.shutdown()
            self._ends.wait(_AWAY_S)

    def _count_rounds(self) -> None:
        rebalance, rounds = RunningConsumer.rebalance, self._ledger.rounds

        async def counted(self: RunningConsumer) -> bool:
            rounds[f"{self.name} {self.instance.client_id}"].append(time.monotonic())
            return await rebalance(self)

        RunningConsumer.rebalance = counted  # type: ignore[method-assign]
        self._life.callback(setattr, RunningConsumer, "rebalance", rebalance)

    # -- senders ---------------------------------------------------------------------------------------------------------------

    def _producer(self, producer: Any) -> Any:
        self._life.enter_context(producer)
        self._life.callback(self._has_lived, producer.client_id, time.monotonic())
        return producer

    def _send(self, kind: str, send: Callable[[int], list[str]]) -> None:
        me = (os.getpid(), threading.get_native_id())
        for number in itertools.count():
            if self._ends.is_set():
                return
            before_s, begin_s = withheld_s(self._engine, me), time.monotonic()
            try:
                self._ledger.acked.update(send(number))
            except RocketMQError:
                self._ledger.refused += 1
            end_s = time.monotonic()
            self._ledger.took(kind, end_s - begin_s, withheld_s(self._engine, me) - before_s)
            self._ends.wait(0.02 if kind.startswith("keyed") else 0.1)

    def _message(self, body: str) -> rmq.Message:
        return rmq.Message(self._topic, body.encode())

    def _keyed(self, part: int) -> Callable[[int], list[str]]:
        """A third of the keys, one message after the other: their queue is never replaced."""
        producer = self._producer(rmq.Producer(f"keyed-{part}", **self._options(f"keyed-{part}", _SENDING)))
        keys = _KEYS[part::3]

        def send(number: int) -> list[str]:
            key = keys[number % len(keys)]
            body = f"{key} {number:09}"
            producer.send(self._message(body), sharding_key=key)
            return [body]

        return send

    def _kinds(self) -> dict[str, Callable[[int], list[str]]]:
        """Each other verb; each gives the bodies that were acknowledged."""
        plain = self._producer(rmq.Producer("plain", **self._options("plain", _SENDING)))
        batching = self._producer(rmq.Producer("batching", auto_batch=True, **self._options("batching", _SENDING)))
        transactions = self._producer(
            rmq.TransactionProducer("transactions", check=_commit, **self._options("transactions", _SENDING))
        )

        def any_queue(number: int) -> list[str]:
            plain.send(self._message(f"any {number}"))
            return [f"any {number}"]

        def later(number: int) -> list[str]:
            plain.send_async(self._message(f"later {number}")).result()
            return [f"later {number}"]

        def batch(number: int) -> list[str]:
            bodies = [f"batch {number} {part}" for part in range(3)]
            plain.send_batch([self._message(body) for body in bodies])
            return bodies

        def gathered(number: int) -> list[str]:
            bodies = [f"gathered {number} {part}" for part in range(5)]
            futures = [batching.send_async(self._message(body), sharding_key=body[-1]) for body in bodies]
            failures = [future.exception() for future in futures]
            return [body for body, failure in zip(bodies, failures, strict=True) if failure is None]

        def oneway(number: int) -> list[str]:
            plain.send_oneway(self._message(f"oneway {number}"))
            return []  # nobody said that it is stored

        def half(number: int) -> list[str]:
            transactions.send_in_transaction(self._message(f"half {number}"), execute=_commit)
            return [f"half {number}"]

        def request(number: int) -> list[str]:
            plain.request(self._message(f"request {number}"), timeout_ms=TIMEOUT_MS)
            return [f"request {number}"]

        kinds = (any_queue, later, batch, gathered, oneway, half, request)
        return {kind.__name__: kind for kind in kinds}


def _commit(message: rmq.Message) -> rmq.LocalTransactionState:
    return rmq.LocalTransactionState.COMMIT_MESSAGE

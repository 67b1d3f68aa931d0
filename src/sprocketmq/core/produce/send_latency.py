# SPDX-License-Identifier: Apache-2.0
"""Which queue a producer sends to. Java: TopicPublishInfo, MQFaultStrategy, LatencyFaultToleranceImpl, SelectMessageQueueByHash.

    no key:        round robin over all publish queues, from a random start;  a retry avoids the broker that just failed
    latency on:    also avoid brokers that were slow lately, while others are available; when none is, those that could not be reached
    detector on:   ask brokers that could not be reached whether they can be again (each ``detect_interval_ms``)
    sharding key:  queue = |hash(key) mod n|                                   the same key, the same queue, as in Java

    latency of a send >=   50   100    550    1800    3000    5000   15000 ms
    broker is avoided for   0     0   2 s     5 s     6 s    10 s    30 s          (an exception counts as 10 s)

Rules
    1. With k queues, any k consecutive choices without failures hit every queue once.
    2. A retry goes to another broker if there is one.
    3. Avoiding never means refusing: if all brokers are avoided, a queue is chosen all the same.
    4. Of brokers that are all avoided, one that answered its last send (or the detector) comes before one that did not.
    5. A penalty is never shortened: a fast answer does not end the penalty of a slow one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records.message import MessageQueue

ISOLATED_LATENCY_MS = 10_000
_PENALTIES_MS = ((15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000))


def queue_of_sharding_key(sharding_key: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Java's hash of the text, remainder by the number of queues, sign dropped. ``queues``: in publish order, not empty."""
    value = java_hash(sharding_key)
    # Java's % keeps the sign of the dividend, and SelectMessageQueueByHash then takes abs.
    return queues[abs(value) % len(queues)]


class QueueRoundRobin:
    """The turn of one producer on one topic. ``start`` is random, so that producers started together do not all begin at queue 0."""

    __slots__ = ("_index",)

    def __init__(self, start: int = 0) -> None:
        self._index = start

    def choose(
        self,
        queues: Sequence[MessageQueue],
        last_broker: str | None = None,
        is_available: Callable[[str], bool] | None = None,
        is_reachable: Callable[[str], bool] | None = None,
    ) -> MessageQueue:
        """The next queue of ``queues``, which are not empty. ``last_broker``: the one that the try before failed on. ``is_reachable`` is
        asked when ``is_available`` accepts none."""
        for is_usable in (is_available, is_reachable):
            if is_usable is not None and (queue := self._first(queues, last_broker, is_usable)):
                return queue
        if last_broker is not None and (queue := self._first(queues, last_broker, None)):
            return queue
        return self.next(queues)

    def _first(
        self, queues: Sequence[MessageQueue], last_broker: str | None, is_available: Callable[[str], bool] | None
    ) -> MessageQueue | None:
        for _ in range(len(queues)):
            queue = self.next(queues)
            name = queue.broker_name
            if name != last_broker and (is_available is None or is_available(name)):
                return queue
        return None

    def next(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        queue = queues[self._index % len(queues)]
        self._index += 1
        return queue


class _Fault(msgspec.Struct):
    latency_ms: int
    available_from_ms: int
    reachable: bool
    detect_from_ms: int = 0


class LatencyFaultTable:
    """Recent send latencies and failures of brokers (``send_latency_fault_enable``)."""

    __slots__ = ("_faults",)

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}

    def update(
        self, broker_name: str, latency_ms: int, now_ms: int, *, isolated: bool = False, reachable: bool = True
    ) -> None:
        """Record one send. ``isolated``: it raised, and counts as 10 s. ``reachable``: False when no connection could be had."""
        penalty_ms = self.penalty_ms(ISOLATED_LATENCY_MS if isolated else latency_ms)
        fault = self._faults.get(broker_name)
        if fault is None:
            self._faults[broker_name] = _Fault(latency_ms, now_ms + penalty_ms if penalty_ms else 0, reachable)
            return
        fault.latency_ms, fault.reachable = latency_ms, reachable
        if penalty_ms:
            fault.available_from_ms = max(fault.available_from_ms, now_ms + penalty_ms)

    @staticmethod
    def penalty_ms(latency_ms: int) -> int:
        return next((penalty for least, penalty in _PENALTIES_MS if latency_ms >= least), 0)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or now_ms >= fault.available_from_ms

    def is_reachable(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or fault.reachable

    def to_detect(self, now_ms: int, interval_ms: int) -> list[str]:
        """Brokers that could not be reached and were not asked for ``interval_ms``; they count as asked now."""
        due = [
            (name, fault)
            for name, fault in self._faults.items()
            if not fault.reachable and now_ms >= fault.detect_from_ms
        ]
        for _, fault in due:
            fault.detect_from_ms = now_ms + interval_ms
        return [name for name, _ in due]

    def detected(self, broker_name: str) -> None:
        fault = self._faults.get(broker_name)
        if fault is not None:
            fault.reachable = True

    def remove(self, broker_name: str) -> None:
        self._faults.pop(broker_name, None)

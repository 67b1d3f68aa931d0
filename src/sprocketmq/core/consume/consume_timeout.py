# SPDX-License-Identifier: Apache-2.0
"""Stuck messages: a consume timeout per message, precise and changeable while running.

While a listener does not return, its queue's progress cannot move. So its message is sent back for a later retry, and progress passes it.
Java (ConsumeMessageConcurrentlyService.cleanExpireMsg) scans each consumeTimeout minutes, so a message waits up to twice the limit.

    started --> RUNNING --deadline--> EXPIRED: send-back under way --sent_back--> gone      a late listener result: IGNORE
                   |                        `--send_back_failed--> RUNNING, next try later  (or SETTLE with the result that came)
                   `--finished--> gone: SETTLE (the result counts)

Rules
    1. Each start ends in exactly one of: SETTLE (once), or sent_back. So one delivery makes at most one retry copy.
    2. A message is not expired before start + limit, and the first ``expired(now)`` at or after it yields it: no scan interval.
    3. ``limit_ms`` may change at any time and holds at once for messages that already run.
    4. A result that comes while a send-back is under way waits for the send-back: sent -> ignored, failed -> settled.

All messages share one limit, so deadlines are in the order of starts, and an ordered dict does for a heap."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

DEFAULT_CONSUME_TIMEOUT_MS = 15 * 60_000
SEND_BACK_RETRY_MS = 5_000
"""Pause before an expired message whose send-back failed is tried again, as for any failed send-back."""

K = TypeVar("K", bound=Hashable)


class Settlement(Enum):
    SETTLE = "settle"
    """It counts: acknowledge or send back."""
    WAIT = "wait"
    """A send-back by timeout is under way; its outcome decides (rule 4)."""
    IGNORE = "ignore"
    """The message was sent back already."""


class ConsumeTimeout(Generic[K]):
    """Deadlines of the messages that listeners are working on. ``limit_ms``: 0 or below switches the timeout off; after a change ask
    ``next_deadline_ms`` again. ``K`` names one delivery: the MessageExt object itself (it compares by identity)."""

    __slots__ = ("_expired", "_last_ms", "_retrying", "_running", "limit_ms")

    def __init__(self, limit_ms: int = DEFAULT_CONSUME_TIMEOUT_MS) -> None:
        self.limit_ms = limit_ms
        self._running: OrderedDict[K, int] = OrderedDict()  # -> start, rising
        self._retrying: OrderedDict[K, int] = OrderedDict()  # running, but was expired once -> next due time, rising
        self._expired: dict[K, bool] = {}  # send-back under way -> whether a listener result came meanwhile
        self._last_ms = 0

    def started(self, key: K, now_ms: int) -> None:
        if key in self:
            raise ValueError("this delivery is running already")
        self._running[key] = self._advance(now_ms)

    def finished(self, key: K) -> Settlement:
        """The listener returned (or raised) for this message: whether its result counts."""
        if self._running.pop(key, None) is not None or self._retrying.pop(key, None) is not None:
            return Settlement.SETTLE
        if key in self._expired:
            self._expired[key] = True
            return Settlement.WAIT
        return Settlement.IGNORE

    def expired(self, now_ms: int) -> list[K]:
        """Messages over their limit, oldest first, each once: send each back, then call ``sent_back`` or ``send_back_failed``."""
        result = _pop_until(self._running, now_ms - self.limit_ms) if self.limit_ms > 0 else []
        result += _pop_until(self._retrying, now_ms)
        for key in result:
            self._expired[key] = False
        return result

    def sent_back(self, key: K) -> None:
        """The retry copy is stored: the delivery is over; the caller forgets the message in its process queue and moves progress."""
        if self._expired.pop(key, None) is None:
            raise ValueError("only an expired delivery can have been sent back")

    def send_back_failed(self, key: K, now_ms: int) -> Settlement:
        """SETTLE: the listener's result came meanwhile and counts now. WAIT: the message expires again in 5 s."""
        finished = self._expired.pop(key, None)
        if finished is None:
            raise ValueError("only an expired delivery can have failed to be sent back")
        if finished:
            return Settlement.SETTLE
        self._retrying[key] = self._advance(now_ms) + SEND_BACK_RETRY_MS
        return Settlement.WAIT

    def forget(self, key: K) -> None:
        """The queue was dropped: no deadline, and a late result is ignored."""
        self._running.pop(key, None)
        self._retrying.pop(key, None)
        self._expired.pop(key, None)

    def next_deadline_ms(self) -> int | None:
        due = [next(iter(self._retrying.values()))] if self._retrying else []
        if self._running and self.limit_ms > 0:
            due.append(next(iter(self._running.values())) + self.limit_ms)
        return min(due, default=None)

    def __len__(self) -> int:
        return len(self._running) + len(self._retrying) + len(self._expired)

    def __contains__(self, key: object) -> bool:
        return key in self._running or key in self._retrying or key in self._expired

    def _advance(self, now_ms: int) -> int:
        # A wall clock may step back; the order of starts must not.
        self._last_ms = max(self._last_ms, now_ms)
        return self._last_ms

    def check_invariants(self) -> None:
        names = [*self._running, *self._retrying, *self._expired]
        assert len(set(names)) == len(names), "a delivery is in two states"
        for times in (self._running, self._retrying):
            assert list(times.values()) == sorted(times.values()), "times out of order"


def _pop_until(times: OrderedDict[K, int], limit_ms: int) -> list[K]:
    result: list[K] = []
    while times and next(iter(times.values())) <= limit_ms:
        result.append(times.popitem(last=False)[0])
    return result

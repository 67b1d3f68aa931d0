"""Stuck messages: a consume timeout per message, precise and changeable while running.

A listener that never returns holds the group's progress in its queue for ever (the lowest unfinished offset). The way out: send the
message back for a later retry, then let progress pass it. Java (ConsumeMessageConcurrentlyService.cleanExpireMsg) scans each
consumeTimeout minutes, so a message waits up to twice the limit, and a changed limit never reaches the scanner. Here every message has
its own deadline, and the limit may change at any time.

    started --> RUNNING --deadline--> EXPIRED: send-back under way --sent_back--> gone      a late listener result: IGNORE
                   |                        |
                   |                        `--send_back_failed--> RUNNING, next try later  (or SETTLE with the result that came)
                   `--finished--> gone: SETTLE (the result counts)

Laws
    1. Each start ends in exactly one of: SETTLE (once), or sent_back. So one delivery makes at most one retry copy.
    2. A message is not expired before start + limit, and the first ``expired(now)`` at or after it yields it: no scan interval.
    3. ``limit_ms`` may change at any time and holds at once for messages that already run.
    4. A result that comes while a send-back is under way waits for the send-back: sent -> ignored, failed -> settled.

All messages share one limit, so deadlines are in the order of starts and a queue of starts is the heap: O(1) per message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

from sprocketmq.errors import ConfigurationError

__all__ = ["DEFAULT_CONSUME_TIMEOUT_MS", "SEND_BACK_RETRY_MS", "ConsumeTimeout", "Settlement"]

DEFAULT_CONSUME_TIMEOUT_MS = 15 * 60_000
SEND_BACK_RETRY_MS = 5_000
"""Pause before an expired message whose send-back failed is tried again, as for any failed send-back."""

K = TypeVar("K", bound=Hashable)


class Settlement(Enum):
    """What to do with a listener's result for a message."""

    SETTLE = "settle"
    """It counts: acknowledge or send back."""
    WAIT = "wait"
    """A send-back by timeout is under way; its outcome decides (law 4)."""
    IGNORE = "ignore"
    """The message was sent back already."""


class _Entry:
    __slots__ = ("due_offset_ms", "expired", "finished", "start_ms")

    def __init__(self, start_ms: int, due_offset_ms: int | None = None) -> None:
        self.start_ms = start_ms
        self.due_offset_ms = due_offset_ms  # set for a second try: due at start + this, whatever the limit is
        self.expired = False
        self.finished = False


class ConsumeTimeout(Generic[K]):
    """Deadlines of the messages that listeners are working on.

    Args:
        limit_ms: how long one delivery may take; 0 or below switches the timeout off.

    ``K`` names one delivery: the MessageExt object itself will do (it compares by identity).
    """

    __slots__ = ("_entries", "_last_start_ms", "_limit_ms", "_retries", "_starts")

    def __init__(self, limit_ms: int = DEFAULT_CONSUME_TIMEOUT_MS) -> None:
        self._limit_ms = limit_ms
        self._entries: dict[K, _Entry] = {}
        self._starts: deque[tuple[K, _Entry]] = deque()  # by start; finished ones are cleaned off at the head
        self._retries: deque[tuple[K, _Entry]] = deque()  # second tries, by their due time
        self._last_start_ms = 0

    @property
    def limit_ms(self) -> int:
        return self._limit_ms

    @limit_ms.setter
    def limit_ms(self, limit_ms: int) -> None:
        """Law 3. After a change ask ``next_deadline_ms`` again."""
        if not isinstance(limit_ms, int):
            raise ConfigurationError(f"consume_timeout_ms is {limit_ms!r}, a whole number of milliseconds is allowed")
        self._limit_ms = limit_ms

    def started(self, key: K, now_ms: int) -> None:
        """A listener begins with this message."""
        if key in self._entries:
            raise ValueError("this delivery is running already")
        # A wall clock may step back; the order of starts must not.
        self._last_start_ms = max(self._last_start_ms, now_ms)
        entry = _Entry(self._last_start_ms)
        self._entries[key] = entry
        self._clean(self._starts)
        self._starts.append((key, entry))

    def finished(self, key: K) -> Settlement:
        """The listener returned (or raised) for this message: whether its result counts."""
        entry = self._entries.get(key)
        if entry is None:
            return Settlement.IGNORE
        if entry.expired:
            entry.finished = True
            return Settlement.WAIT
        del self._entries[key]
        return Settlement.SETTLE

    def expired(self, now_ms: int) -> list[K]:
        """Messages over their limit, oldest first, each once: send each back, then say ``sent_back`` or ``send_back_failed``."""
        result: list[K] = []
        self._clean(self._starts)
        self._clean(self._retries)
        if self._limit_ms > 0:
            starts = self._starts
            while starts and starts[0][1].start_ms + self._limit_ms <= now_ms:
                key, entry = starts.popleft()
                if self._entries.get(key) is entry:
                    entry.expired = True
                    result.append(key)
                self._clean(starts)
        retries = self._retries
        while retries and _due(retries[0][1]) <= now_ms:
            key, entry = retries.popleft()
            entry.expired = True
            result.append(key)
            self._clean(retries)
        return result

    def sent_back(self, key: K) -> None:
        """The retry copy is stored: the delivery is over; the caller forgets the message in its process queue and moves progress."""
        entry = self._entries.get(key)
        if entry is None or not entry.expired:
            raise ValueError("only an expired delivery can have been sent back")
        del self._entries[key]

    def send_back_failed(self, key: K, now_ms: int) -> Settlement:
        """No retry copy was stored.

        Returns:
            SETTLE when the listener's result came meanwhile (it counts now), else WAIT (the message expires again in 5 s).
        """
        entry = self._entries.get(key)
        if entry is None or not entry.expired:
            raise ValueError("only an expired delivery can have failed to be sent back")
        if entry.finished:
            del self._entries[key]
            return Settlement.SETTLE
        entry.expired = False
        self._last_start_ms = max(self._last_start_ms, now_ms)
        entry.due_offset_ms = self._last_start_ms + SEND_BACK_RETRY_MS - entry.start_ms
        self._retries.append((key, entry))
        return Settlement.WAIT

    def forget(self, key: K) -> None:
        """The queue was dropped: no deadline, and a late result is ignored."""
        self._entries.pop(key, None)

    def next_deadline_ms(self) -> int | None:
        """When ``expired`` will next yield something; None when nothing runs."""
        self._clean(self._starts)
        self._clean(self._retries)
        due = []
        if self._starts and self._limit_ms > 0:
            due.append(self._starts[0][1].start_ms + self._limit_ms)
        if self._retries:
            due.append(_due(self._retries[0][1]))
        return min(due, default=None)

    def __len__(self) -> int:
        return len(self._entries)

    def _clean(self, queue: deque[tuple[K, _Entry]]) -> None:
        entries = self._entries
        while queue and entries.get(queue[0][0]) is not queue[0][1]:
            queue.popleft()

    def check_invariants(self) -> None:
        waiting = [entry for key, entry in [*self._starts, *self._retries] if self._entries.get(key) is entry]
        assert len({id(entry) for entry in waiting}) == len(waiting), "a delivery waits twice"
        for entry in self._entries.values():
            assert entry.expired != any(entry is other for other in waiting), "a delivery neither waits nor is expired"
            assert entry.expired or not entry.finished, "a finished delivery stayed"
        starts = [entry.start_ms for _, entry in self._starts]
        assert starts == sorted(starts), "starts out of order"


def _due(entry: _Entry) -> int:
    return entry.start_ms + (entry.due_offset_ms or 0)

# SPDX-License-Identifier: Apache-2.0
"""The messages of one queue between pull and progress. Java: ProcessQueue.

    put --> pending --take--> in flight --done--> gone          commit offset = lowest message not gone,
               ^                  |                                              else highest ever put + 1
               `---- put_back ----'     (orderly rollback, local retry)

Rules
    1. cached = pending + in flight, disjoint; ``count`` and ``size_bytes`` are those of the cached messages. The size of a message is
       stored when it is put, because a listener may replace its body.
    2. The commit offset is the lowest cached queue offset, or the highest seen + 1 when nothing is cached. It only goes back when an
       offset below all others is put (a broker with a rewound queue), or a poll is taken back.
    3. An offset is cached at most once: a second copy of the same offset is ignored while the first is here.
    4. Messages are taken in the order of their offsets; put-back messages come first again.
    5. After ``restart`` nothing from before it counts, and a late answer of a listener settles nothing.
    6. After drop, which is for good, nothing is taken and no commit offset is given: the next owner starts from what was committed
       before, so a message may come twice and never be lost.

Offsets arrive in rising order, so a dict and a deque, whose head is cleaned lazily, do for Java's TreeMap: O(1) per message, amortised."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from sprocketmq.core.consume.queue_lock import LocalQueueLock
from sprocketmq.wire.records.message import MessageExt, MessageQueue

PULL_MAX_IDLE_MS = 120_000
"""``rocketmq.client.pull.pullMaxIdleTime``: a queue not pulled for so long has lost its pull loop and is dropped by rebalance."""


class QueueSnapshot(msgspec.Struct, frozen=True):
    """A process queue as it was at one moment, for any thread.

    ``count`` and ``size_bytes`` of the cached messages, ``pending_count`` of them not taken yet; ``min_offset``, ``max_offset``: the lowest
    and the highest (None: nothing is cached); ``span`` between them; ``commit_offset``: the lowest unfinished, None before the first
    message; ``max_offset_seen``: the highest that ever came, -1 before; ``broker_backlog``: messages at the broker behind those;
    ``consuming``: an orderly listener runs; ``locked``, ``last_lock_ms``: the broker granted the lock, and when that was asked for;
    ``last_pull_ms``, ``last_consume_ms``; ``try_unlock_times``: how often a running listener kept it from being given up."""

    count: int
    pending_count: int
    size_bytes: int
    min_offset: int | None
    max_offset: int | None
    span: int
    commit_offset: int | None
    max_offset_seen: int
    broker_backlog: int
    consuming: bool
    dropped: bool
    locked: bool
    last_lock_ms: int
    last_pull_ms: int
    last_consume_ms: int
    try_unlock_times: int


class ProcessQueue:
    """The cached messages of one assigned queue. Not thread-safe: it belongs to the consumer's loop. ``now_ms``: time of assignment.
    ``tenure``: of the lock under which they came. ``try_unlock_times``: removals that found the queue busy."""

    __slots__ = (
        "_cached",
        "_in_flight",
        "_offsets",
        "_pending",
        "broker_backlog",
        "consuming",
        "dropped",
        "last_consume_ms",
        "last_pull_ms",
        "lock",
        "max_offset_seen",
        "queue",
        "size_bytes",
        "tenure",
        "try_unlock_times",
    )

    def __init__(self, queue: MessageQueue | None = None, now_ms: int = 0) -> None:
        self.queue = queue
        self.dropped = False
        self.consuming = False  # an orderly listener runs, so rebalance must not unlock the queue (Java: consumeLock)
        self.lock = LocalQueueLock()
        self.tenure = 1
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms
        self.try_unlock_times = 0
        self.broker_backlog = 0
        self.size_bytes = 0
        self.max_offset_seen = -1
        self._cached: dict[int, int] = {}  # -> size of the body when it came
        self._in_flight: dict[int, MessageExt] = {}
        self._pending: deque[MessageExt] = deque()
        self._offsets: deque[int] = deque()  # every cached offset in order, plus gone ones not yet cleaned off

    # --- in ------------------------------------------------------------------------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> int:
        """Caches pulled messages, which come in rising offset order, and returns how many were new (rule 3)."""
        cached, pending, offsets = self._cached, self._pending, self._offsets
        highest, size, before = self.max_offset_seen, 0, len(cached)
        late: list[MessageExt] = []
        for message in messages:
            offset = message.queue_offset
            if offset > highest:
                highest = offset
            elif offset in cached:
                continue
            else:
                late.append(message)
                cached[offset] = length = len(message.body)
                size += length
                continue
            cached[offset] = length = len(message.body)
            size += length
            offsets.append(offset)
            pending.append(message)
        self.max_offset_seen = highest
        self.size_bytes += size
        if late:
            self._insert_late(late)
        return len(cached) - before

    def _insert_late(self, late: list[MessageExt]) -> None:
        # Only after a rewind on the broker: rebuild in order. This costs O(n), but the common case needs no sorting.
        self._pending = deque(sorted([*self._pending, *late], key=_offset))
        self._offsets = deque(sorted(self._cached))

    # --- out -----------------------------------------------------------------------------------------------------------------------

    def take(self, batch_size: int, now_ms: int) -> list[MessageExt]:
        """The next messages to consume, in order, at most ``batch_size``; they are in flight until done or put back."""
        if self.dropped:
            return []
        self.last_consume_ms = now_ms
        pending, in_flight = self._pending, self._in_flight
        if batch_size >= len(pending):
            batch = list(pending)
            pending.clear()
        else:
            batch = [pending.popleft() for _ in range(batch_size)]
        for message in batch:
            in_flight[message.queue_offset] = message
        return batch

    def done(self, messages: Iterable[MessageExt]) -> int | None:
        """Messages are settled (consumed, or sent back): forgets them. Returns the commit offset, or None when the queue was
        dropped (rule 6) or none of the messages was in flight (they were settled before, by the consume timeout)."""
        cached, in_flight, size, known = self._cached, self._in_flight, 0, False
        for message in messages:
            offset = message.queue_offset
            if in_flight.pop(offset, None) is None:
                continue
            known = True
            size += cached.pop(offset)
        self.size_bytes -= size
        if not known or self.dropped:
            return None
        offsets = self._offsets  # min_offset inlined: with batches of one message this runs once for each message
        while offsets and offsets[0] not in cached:
            offsets.popleft()
        return offsets[0] if offsets else self.max_offset_seen + 1

    def commit(self, before: int | None = None) -> int | None:
        """Settles everything in flight, or what lies before the offset ``before``: the orderly SUCCESS and COMMIT. Returns as ``done``."""
        in_flight = self._in_flight.values()
        return self.done([one for one in in_flight if before is None or one.queue_offset < before])

    def put_back(self, messages: Iterable[MessageExt]) -> None:
        """Those in flight go back to their places and are taken again. Java: makeMessageToConsumeAgain."""
        back = [message for message in messages if self._in_flight.pop(message.queue_offset, None) is not None]
        if not back:
            return
        for message in back:
            message.forget_value()
        back.sort(key=_offset)
        pending = self._pending
        if not pending or back[-1].queue_offset < pending[0].queue_offset:
            pending.extendleft(reversed(back))
        else:
            self._pending = deque(sorted([*pending, *back], key=_offset))

    def rollback(self) -> None:
        self.put_back(list(self._in_flight.values()))

    def drop(self) -> None:
        """The queue belongs to another member now, or its offset was illegal. Rule 6 applies from now on."""
        self.dropped = True

    def clear(self) -> None:
        self._cached.clear()
        self._in_flight.clear()
        self._pending.clear()
        self._offsets.clear()
        self.size_bytes = 0

    def restart(self, tenure: int) -> None:
        """Orderly consumption: another member consumed this queue meanwhile, and reading starts again where it ended."""
        self.clear()
        self.max_offset_seen = -1
        self.tenure = tenure

    # --- derived -------------------------------------------------------------------------------------------------------------------

    @property
    def min_offset(self) -> int | None:
        offsets, cached = self._offsets, self._cached
        while offsets and offsets[0] not in cached:
            offsets.popleft()
        return offsets[0] if offsets else None

    @property
    def max_offset(self) -> int | None:
        offsets, cached = self._offsets, self._cached
        while offsets and offsets[-1] not in cached:
            offsets.pop()
        return offsets[-1] if offsets else None

    @property
    def commit_offset(self) -> int | None:
        """The lowest offset that is not finished (rule 2); None before the first message."""
        lowest = self.min_offset
        if lowest is not None:
            return lowest
        return self.max_offset_seen + 1 if self.max_offset_seen >= 0 else None

    @property
    def count(self) -> int:
        """Those in flight included."""
        return len(self._cached)

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def in_flight(self) -> list[MessageExt]:
        return list(self._in_flight.values())

    def is_in_flight(self, message: MessageExt) -> bool:
        return message.queue_offset in self._in_flight

    @property
    def awaits_offset(self) -> bool:
        """The lock came back and the pull loop has not yet looked where another member ended (orderly consumption)."""
        return self.tenure != self.lock.tenure

    @property
    def span(self) -> int:
        """Distance between the highest and the lowest cached offset; a crash may repeat so many messages."""
        lowest, highest = self.min_offset, self.max_offset
        return 0 if lowest is None or highest is None else highest - lowest

    def snapshot(self) -> QueueSnapshot:
        """Only the owner may call it, because the properties above clean up lazily."""
        return QueueSnapshot(
            count=self.count,
            pending_count=self.pending_count,
            size_bytes=self.size_bytes,
            min_offset=self.min_offset,
            max_offset=self.max_offset,
            span=self.span,
            commit_offset=self.commit_offset,
            max_offset_seen=self.max_offset_seen,
            broker_backlog=self.broker_backlog,
            consuming=self.consuming,
            dropped=self.dropped,
            locked=self.lock.locked,
            last_lock_ms=self.lock.last_lock_ms,
            last_pull_ms=self.last_pull_ms,
            last_consume_ms=self.last_consume_ms,
            try_unlock_times=self.try_unlock_times,
        )

    def is_pull_expired(self, now_ms: int) -> bool:
        return now_ms - self.last_pull_ms > PULL_MAX_IDLE_MS

    def __repr__(self) -> str:
        return (
            f"ProcessQueue({self.queue}, pending={len(self._pending)}, in_flight={len(self._in_flight)}, "
            f"commit_offset={self.commit_offset}, dropped={self.dropped})"
        )

    def check_invariants(self) -> None:
        """Rules 1 to 4; for tests."""
        pending = [message.queue_offset for message in self._pending]
        assert pending == sorted(set(pending)), "pending is not in order"
        assert not set(pending) & self._in_flight.keys(), "pending and in flight overlap"
        assert set(pending) | self._in_flight.keys() == self._cached.keys(), "cached is not pending plus in flight"
        assert self.size_bytes == sum(self._cached.values()), "size is off"
        assert self.min_offset == min(self._cached, default=None), "min_offset is off"
        assert self.max_offset == max(self._cached, default=None), "max_offset is off"
        assert all(offset <= self.max_offset_seen for offset in self._cached), "an offset above the highest seen"


def _offset(message: MessageExt) -> int:
    return message.queue_offset

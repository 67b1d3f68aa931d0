# SPDX-License-Identifier: Apache-2.0
"""Which messages travel together when a producer batches by itself (Java: ProduceAccumulator, 5.x).

    add --> lane's open batch --full, or lingered long enough--> ready --driver sends--> answered
                                                                   ^                        |
            ordered lane: later batches wait behind -----closed----+------- one is out -----+

A lane is a sequence of messages: those for one queue (``ordered``, because the caller chose the queue), or those of a topic that may go to
any queue. Only messages of one ``kind`` (whether to wait for flush and replica) share a batch.

Laws
1. Every item is in exactly one batch, and the items of a lane leave in the order in which they came.
2. Of an ordered lane at most one batch is out: an Apache broker serves sends of one connection in several threads, and would mix two.
3. A batch is closed when it reaches ``max_bytes`` or ``max_items``, when its first item has lingered ``max_delay_ms``, or when the next
   item is of another kind or would make it larger than ``limit_bytes``; a batch larger than that has one item.
4. While ``total_max_bytes`` or more are held, nothing lingers. Held is what was not answered yet.
5. An empty lane takes no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

__all__ = ["Batch", "SendBatches"]

T = TypeVar("T")


class Batch(Generic[T]):
    """Items that travel together; compares by identity."""

    __slots__ = ("due_ms", "is_closed", "items", "kind", "lane", "ordered", "size_bytes")

    def __init__(self, lane: Hashable, kind: Hashable, ordered: bool, due_ms: float) -> None:
        self.lane, self.kind, self.ordered, self.due_ms = lane, kind, ordered, due_ms
        self.items: list[T] = []
        self.size_bytes = 0
        self.is_closed = False


class SendBatches(Generic[T]):
    """The batches of one producer.

    Args:
        max_bytes: a batch of this size lingers no longer.
        max_delay_ms: how long a batch's first item lingers.
        total_max_bytes: when so much is held, nothing lingers.
        limit_bytes: what a batch may not exceed.
        max_items: a batch of so many lingers no longer, and takes no more.

    ``ready`` has the batches to be sent now, in order: the driver takes them out after each call, and says ``answered`` for each.
    """

    __slots__ = (
        "_lanes",
        "_limit",
        "_lingering",
        "_max",
        "_max_delay_ms",
        "_max_items",
        "_out",
        "_total_max",
        "held_bytes",
        "ready",
    )

    def __init__(
        self, max_bytes: int, max_delay_ms: float, total_max_bytes: int, limit_bytes: int, max_items: int
    ) -> None:
        self._max, self._max_delay_ms, self._max_items = max_bytes, max_delay_ms, max_items
        self._total_max, self._limit = total_max_bytes, limit_bytes
        # Batches that were not sent; of an ordered lane several may wait, only the last one is open.
        self._lanes: dict[Hashable, deque[Batch[T]]] = {}
        self._out: dict[Hashable, Batch[T]] = {}  # ordered lanes with a batch under way
        self._lingering: deque[Batch[T]] = deque()  # by due time, which is the order of their making
        self.held_bytes = 0
        self.ready: list[Batch[T]] = []

    def add(
        self, lane: Hashable, kind: Hashable, item: T, size_bytes: int, now_ms: float, *, ordered: bool
    ) -> Batch[T]:
        """Put ``item`` behind those of its lane. ``ordered`` must be the same for all items of a lane.

        Returns:
            Its batch; ``join`` takes the next item of this lane and kind.
        """
        waiting = self._lanes.get(lane)
        if waiting is None:
            waiting = self._lanes[lane] = deque()
        batch = waiting[-1] if waiting else None
        if batch is not None and batch.kind != kind:
            self._close(batch)
        if batch is None or not self.join(batch, item, size_bytes):
            batch = Batch(lane, kind, ordered, now_ms + self._max_delay_ms)
            # Closing the one before may have emptied the lane and forgotten it.
            self._lanes.setdefault(lane, waiting).append(batch)
            self._lingering.append(batch)
            self.join(batch, item, size_bytes)
        return batch

    def join(self, batch: Batch[T], item: T, size_bytes: int) -> bool:
        """Put ``item`` behind those of ``batch``, whose lane and kind are its own.

        Returns:
            False when the batch is closed, or would grow too large and is closed now: ``add`` begins the next one.
        """
        if batch.is_closed:
            return False
        items, whole_bytes = batch.items, batch.size_bytes + size_bytes
        if whole_bytes > self._limit and items:
            self._close(batch)
            return False
        items.append(item)
        batch.size_bytes = whole_bytes
        self.held_bytes = held_bytes = self.held_bytes + size_bytes
        if whole_bytes >= self._max or len(items) >= self._max_items:
            self._close(batch)
        if held_bytes >= self._total_max:
            self.flush()
        return True

    @property
    def next_due_ms(self) -> float | None:
        """When ``tick`` has something to do; None when nothing lingers."""
        lingering = self._lingering
        while lingering and lingering[0].is_closed:
            lingering.popleft()
        return lingering[0].due_ms if lingering else None

    def tick(self, now_ms: float) -> None:
        """Close what has lingered long enough."""
        while (due_ms := self.next_due_ms) is not None and due_ms <= now_ms:
            self._close(self._lingering.popleft())

    def flush(self) -> None:
        """Close everything."""
        lingering, self._lingering = self._lingering, deque()
        for batch in lingering:
            if not batch.is_closed:
                self._close(batch)

    def answered(self, batch: Batch[T]) -> None:
        """The broker has it, or it failed for good."""
        self.held_bytes -= batch.size_bytes
        if batch.ordered:
            del self._out[batch.lane]
            waiting = self._lanes.get(batch.lane)
            if waiting and waiting[0].is_closed:
                self._send(waiting)

    def is_busy(self, lane: Hashable) -> bool:
        """Whether anything of this lane waits or, of an ordered one, is out."""
        return lane in self._lanes or lane in self._out

    def waiting(self) -> Iterator[T]:
        """The items that were not sent."""
        return (item for batches in self._lanes.values() for batch in batches for item in batch.items)

    @property
    def is_empty(self) -> bool:
        """Nothing waits and no ordered batch is out; unordered ones may be."""
        return not self._lanes and not self._out

    def _close(self, batch: Batch[T]) -> None:
        batch.is_closed = True
        waiting = self._lanes[batch.lane]
        if waiting[0] is batch and batch.lane not in self._out:
            self._send(waiting)

    def _send(self, waiting: deque[Batch[T]]) -> None:
        batch = waiting.popleft()
        if not waiting:
            del self._lanes[batch.lane]
        if batch.ordered:
            self._out[batch.lane] = batch
        self.ready.append(batch)

    def check_invariants(self) -> None:
        """Check laws 2, 3 and 5; for tests."""
        for lane, waiting in self._lanes.items():
            assert waiting, f"lane {lane} is empty"
            assert all(batch.is_closed for batch in list(waiting)[:-1])
            assert lane in self._out or not waiting[0].is_closed, "a closed batch waits for nothing"
            for batch in waiting:
                assert 0 < len(batch.items) <= self._max_items
                assert batch.size_bytes <= self._limit or len(batch.items) == 1
                assert batch.is_closed or batch in self._lingering
        assert all(batch.ordered for batch in self._out.values())

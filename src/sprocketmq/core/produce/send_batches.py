# SPDX-License-Identifier: Apache-2.0
"""Which messages travel together when a producer batches by itself (Java: ProduceAccumulator, 5.x).

    add --> open batch of the destination --full, or lingered long enough--> ready --driver sends--> answered
                                                                               ^                        |
                   ordered destination: later batches wait behind -----closed--+------- one is out -----+

The destination of a message is a queue (``ordered``, because the caller chose it), or a topic, to any of whose queues it may go. Only
messages of one ``kind`` (whether to wait for flush and replica) share a batch. ``SendBatches`` decides which batch has room and counts;
the caller puts the message into it.

Rules
1. Every message is counted in exactly one batch, and the messages to a destination leave in the order in which they came.
2. Of an ordered destination at most one batch is out: an Apache broker serves sends of one connection in several threads, and would mix
   two.
3. A batch is closed when it reaches ``max_bytes`` or ``max_messages``, when its first message has lingered ``max_delay_ms``, or when the
   next message is of another kind or would make it larger than ``limit_bytes``; a batch larger than that has one message.
4. While ``total_max_bytes`` or more are held, nothing lingers. Held is what was not answered yet.
5. A destination without messages takes no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar


class Batch:
    """Messages that travel together; compares by identity. A subclass holds the messages, and ``count`` says how many these are."""

    __slots__ = ("count", "destination", "due_ms", "is_closed", "kind", "ordered", "size_bytes")

    def __init__(self, destination: Hashable, kind: Hashable, ordered: bool, due_ms: float) -> None:
        self.destination, self.kind, self.ordered, self.due_ms = destination, kind, ordered, due_ms
        self.count = self.size_bytes = 0
        self.is_closed = False


B = TypeVar("B", bound=Batch)


class SendBatches(Generic[B]):
    """The batches of one producer. ``max_bytes``, ``max_messages``: a batch of so many lingers no longer. ``max_delay_ms``: how long its
    first message lingers. ``total_max_bytes``: when so much is held, nothing lingers. ``limit_bytes``: what a batch may not exceed.

    ``ready`` has the batches to be sent now, in order: the driver takes them out after each call, and says ``answered`` for each.
    """

    __slots__ = (
        "_batch_type",
        "_limit_bytes",
        "_lingering",
        "_max_bytes",
        "_max_delay_ms",
        "_max_messages",
        "_out",
        "_total_max_bytes",
        "_unsent",
        "held_bytes",
        "ready",
    )

    def __init__(
        self,
        batch_type: type[B],
        max_bytes: int,
        max_delay_ms: float,
        total_max_bytes: int,
        limit_bytes: int,
        max_messages: int,
    ) -> None:
        self._batch_type = batch_type
        self._max_bytes, self._max_delay_ms, self._max_messages = max_bytes, max_delay_ms, max_messages
        self._total_max_bytes, self._limit_bytes = total_max_bytes, limit_bytes
        # By destination. Of an ordered one several may wait, only the last one is open.
        self._unsent: dict[Hashable, deque[B]] = {}
        self._out: dict[Hashable, B] = {}  # by ordered destination: the batch that is under way
        self._lingering: deque[B] = deque()  # by due time, which is the order of their making
        self.held_bytes = 0
        self.ready: list[B] = []

    def add(self, destination: Hashable, kind: Hashable, size_bytes: int, now_ms: float, *, ordered: bool) -> B:
        """Count one more message behind those to its destination. ``ordered``: the same for all messages to a destination. Returns its
        batch. Put the message into it before taking from ``ready``."""
        unsent = self._unsent.get(destination)
        if unsent is None:
            unsent = self._unsent[destination] = deque()
        batch = unsent[-1] if unsent else None
        if batch is not None and batch.kind != kind:
            self._close(batch)
        if batch is None or not self.join(batch, size_bytes):
            batch = self._batch_type(destination, kind, ordered, now_ms + self._max_delay_ms)
            # Closing the one before may have removed the destination.
            self._unsent.setdefault(destination, unsent).append(batch)
            self._lingering.append(batch)
            self.join(batch, size_bytes)
        return batch

    def join(self, batch: B, size_bytes: int) -> bool:
        """Count one more message in ``batch``, whose destination and kind are its own; the caller puts it there. False: the batch is
        closed; ``add`` begins the next one."""
        if batch.is_closed:
            return False
        count, whole_bytes = batch.count + 1, batch.size_bytes + size_bytes
        if whole_bytes > self._limit_bytes and count > 1:
            self._close(batch)
            return False
        batch.count, batch.size_bytes = count, whole_bytes
        self.held_bytes = held_bytes = self.held_bytes + size_bytes
        if whole_bytes >= self._max_bytes or count >= self._max_messages:
            self._close(batch)
        if held_bytes >= self._total_max_bytes:
            self.flush()
        return True

    @property
    def next_due_ms(self) -> float | None:
        """When ``tick`` has something to do."""
        lingering = self._lingering
        while lingering and lingering[0].is_closed:
            lingering.popleft()
        return lingering[0].due_ms if lingering else None

    def tick(self, now_ms: float) -> None:
        while (due_ms := self.next_due_ms) is not None and due_ms <= now_ms:
            self._close(self._lingering.popleft())

    def flush(self) -> None:
        lingering, self._lingering = self._lingering, deque()
        for batch in lingering:
            if not batch.is_closed:
                self._close(batch)

    def answered(self, batch: B) -> None:
        """The broker has it, or it failed for good."""
        self.held_bytes -= batch.size_bytes
        if batch.ordered:
            del self._out[batch.destination]
            unsent = self._unsent.get(batch.destination)
            if unsent and unsent[0].is_closed:
                self._send(unsent)

    def is_busy(self, destination: Hashable) -> bool:
        """Whether a message to this destination was not sent or, if it is an ordered one, not answered."""
        return destination in self._unsent or destination in self._out

    def unsent(self) -> Iterator[B]:
        return (batch for batches in self._unsent.values() for batch in batches)

    @property
    def is_empty(self) -> bool:
        """Nothing waits and no ordered batch is out; unordered ones may be."""
        return not self._unsent and not self._out

    def _close(self, batch: B) -> None:
        batch.is_closed = True
        unsent = self._unsent[batch.destination]
        if unsent[0] is batch and batch.destination not in self._out:
            self._send(unsent)

    def _send(self, unsent: deque[B]) -> None:
        batch = unsent.popleft()
        if not unsent:
            del self._unsent[batch.destination]
        if batch.ordered:
            self._out[batch.destination] = batch
        self.ready.append(batch)

    def check_invariants(self) -> None:
        for destination, unsent in self._unsent.items():
            assert unsent, f"{destination} has no batch"
            assert all(batch.is_closed for batch in list(unsent)[:-1])
            assert destination in self._out or not unsent[0].is_closed, "a closed batch waits for nothing"
            for batch in unsent:
                assert 0 < batch.count <= self._max_messages
                assert batch.size_bytes <= self._limit_bytes or batch.count == 1
                assert batch.is_closed or batch in self._lingering
        assert all(batch.ordered for batch in self._out.values())

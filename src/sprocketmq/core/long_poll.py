# SPDX-License-Identifier: Apache-2.0
"""Pulls that wait for a message at the broker. Java: PullRequestHoldService, ManyPullRequest, NotifyMessageArrivingListener.

    PULL_MESSAGE finds nothing, may suspend --> park(topic, queue, offset, deadline) --+-- wake: a message arrived and matches --> re-run
                                                                                       +-- expire: the deadline passed       --> re-run
                                                                                       +-- take: its group was moved         --> re-run
                                                                                       `-- discard: its connection closed    --> gone

A re-run pull may not park again; it answers with what there is, or PULL_NOT_FOUND.

Java sweeps all parked pulls each 5 s. Here deadlines are in a heap and waiters are found by (topic, queue), so an idle broker with
thousands of parked pulls does nothing, and an append costs one dict look-up when nobody waits on its queue.

Rules
    1. Every parked pull leaves exactly once: woken, expired, taken or discarded.
    2. A pull is woken only when max_offset > its offset, and its filter accepts the code of an arrived message (no filter, or no code
       known, means yes).
    3. ``expire(now)`` yields exactly those with deadline <= now, earliest first.
    4. Cost of wake: the waiters of that one queue; of expire: log n per expired pull. Nothing depends on the number of topics.
    5. Both are iterators that handle one waiter at each step, so that the driver may do other work between two steps. A waiter that has
       left meanwhile is skipped; one that was parked meanwhile has seen the new messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class ParkedPull(Generic[R]):
    """One waiting pull. ``match`` is the tag code filter (None: all)."""

    topic: str
    queue_id: int
    offset: int
    deadline_ms: int
    request: R
    match: Callable[[int], bool] | None = None
    owner: object = None
    size_bytes: int = 0
    parked: bool = field(default=True, init=False)


class LongPoll(Generic[R]):
    __slots__ = ("_heap", "_owned", "_owned_bytes", "_sequence", "_size", "queues", "total_bytes")

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], dict[ParkedPull[R], None]] = {}
        """The parked pulls by topic and queue id; read only. Each append checks whether its queue is in it."""
        self._heap: list[tuple[int, int, ParkedPull[R]]] = []
        self._owned: dict[object, dict[ParkedPull[R], None]] = {}
        self._owned_bytes: dict[object, int] = {}
        self.total_bytes = 0
        """The memory of all waiters: the sum of the ``size_bytes`` with which they were parked."""
        self._sequence = 0
        self._size = 0

    def park(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        deadline_ms: int,
        request: R,
        *,
        match: Callable[[int], bool] | None = None,
        owner: object = None,
        size_bytes: int = 0,
    ) -> ParkedPull[R]:
        """Add a waiter. It is woken once the queue's max offset is above ``offset``; ``deadline_ms``: when it gives up, absolute;
        ``request`` comes back with it; ``match`` accepts the tag code of a message, None all; ``owner``: its connection; ``size_bytes``:
        what it takes in memory."""
        pull = ParkedPull(topic, queue_id, offset, deadline_ms, request, match, owner, size_bytes)
        self.queues.setdefault((topic, queue_id), {})[pull] = None
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, pull))
        self._size += 1
        self._owned.setdefault(owner, {})[pull] = None
        self._owned_bytes[owner] = self._owned_bytes.get(owner, 0) + size_bytes
        self.total_bytes += size_bytes
        return pull

    def wake(
        self, topic: str, queue_id: int, max_offset: int, tags_codes: Collection[int] | None = None
    ) -> Iterator[ParkedPull[R] | None]:
        """Messages arrived: takes out those waiters that one of them satisfies, in the order in which they came; None for one that stays.
        ``tags_codes``: of the messages; None when not known, which wakes regardless of filters."""
        for pull in list(self.queues.get((topic, queue_id), ())):
            if max_offset <= pull.offset or not pull.parked:
                continue
            match = pull.match
            if tags_codes is None or match is None or any(map(match, tags_codes)):
                self._leave(pull)
                yield pull
            else:
                yield None
        self._compact()

    def expire(self, now_ms: int) -> Iterator[ParkedPull[R]]:
        """Take out those whose deadline has come."""
        while self._heap and (self._heap[0][0] <= now_ms or not self._heap[0][2].parked):
            pull = heappop(self._heap)[2]
            if pull.parked:
                self._leave(pull)
                yield pull

    def next_deadline_ms(self) -> int | None:
        """When ``expire`` will next yield something."""
        heap = self._heap
        while heap and not heap[0][2].parked:
            heappop(heap)
        return heap[0][0] if heap else None

    def take(self, topic: str, queue_id: int, is_wanted: Callable[[R], bool]) -> list[R]:
        """Take out those requests of a queue, whatever has arrived there."""
        taken = [pull for pull in self.queues.get((topic, queue_id), ()) if is_wanted(pull.request)]
        for pull in taken:
            self._leave(pull)
        self._compact()
        return [pull.request for pull in taken]

    def discard_owner(self, owner: object) -> int:
        """Remove all waiters of a closed connection; thousands may close at once."""
        gone = list(self._owned.get(owner, ()))
        for pull in gone:
            self._leave(pull)
        self._compact()
        return len(gone)

    def drain(self) -> list[ParkedPull[R]]:
        pulls = [pull for waiting in self.queues.values() for pull in waiting]
        for pull in pulls:
            self._leave(pull)
        self._heap.clear()
        return pulls

    def count_of(self, owner: object) -> int:
        return len(self._owned.get(owner, ()))

    def bytes_of(self, owner: object) -> int:
        return self._owned_bytes.get(owner, 0)

    def __len__(self) -> int:
        return self._size

    def _leave(self, pull: ParkedPull[R]) -> None:
        key = (pull.topic, pull.queue_id)
        waiting = self.queues[key]
        del waiting[pull]
        if not waiting:
            del self.queues[key]
        pull.parked = False
        self._size -= 1
        self.total_bytes -= pull.size_bytes
        owned = self._owned[pull.owner]
        del owned[pull]
        if owned:
            self._owned_bytes[pull.owner] -= pull.size_bytes
        else:
            del self._owned[pull.owner], self._owned_bytes[pull.owner]

    def _compact(self) -> None:
        # Woken pulls stay in the heap until their deadline. On a busy queue that would be thousands, each holding its request.
        if len(self._heap) > 64 and len(self._heap) > 2 * self._size:
            self._heap = [item for item in self._heap if item[2].parked]
            heapify(self._heap)

    def check_invariants(self) -> None:
        pulls = [pull for waiting in self.queues.values() for pull in waiting]
        assert len(pulls) == self._size, "size is off"
        assert all(pull.parked for pull in pulls), "a pull that left still waits"
        assert all(self.queues.values()), "an empty queue stays"
        owned = {owner: len(theirs) for owner, theirs in self._owned.items()}
        assert owned == Counter(pull.owner for pull in pulls), "the waiters of an owner are miscounted"
        assert set(self._owned_bytes) == set(self._owned), "the bytes of an owner are miscounted"
        assert sum(self._owned_bytes.values()) == self.total_bytes == sum(pull.size_bytes for pull in pulls), (
            "so are all"
        )
        in_heap = {id(pull) for _, _, pull in self._heap if pull.parked}
        assert in_heap == {id(pull) for pull in pulls}, "the heap and the queues disagree"

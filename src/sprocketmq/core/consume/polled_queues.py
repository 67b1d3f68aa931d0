# SPDX-License-Identifier: Apache-2.0
"""What a pull consumer has handed out to ``poll``, and what of that is done. Java: AssignedMessageQueue, DefaultLitePullConsumerImpl.

    pull loop --arrived--> waiting --take--> the caller of poll            position = one behind what was handed out
                           progress table <-- to_commit, committed -----------'   the next poll (auto commit), or commit()

Messages leave their process queue when they are handed out, so flow control does not stop a caller that never commits.

Rules
    1. The position of a queue is where reading began or a seek moved it, later one behind the last message handed out (and not put back).
       Messages behind it that the filter left out are passed over when nothing waits.
    2. A commit takes positions as they are before the poll that makes it: never a message that this poll hands out.
    3. Only the current process queue of a queue has a position. Messages of a dropped one are neither handed out nor counted; the next
       reader of the queue starts from what was committed (apache/rocketmq#2732).
    4. Progress follows a passed-over position by itself only if everything before it is committed.
    5. Queues take turns, so a busy one does not delay the others.
    6. While ``waiting_count`` is above ``max_waiting`` nothing more is pulled (Java: pullThresholdForAll)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt, MessageQueue


@dataclass(slots=True)
class _Reading:
    """``waiting``: pending messages as counted last; ``committed``: progress holds ``position``; ``done``: all before it is committed, or
    was so when reading began; ``persisted``: a broker has it."""

    process_queue: ProcessQueue
    position: int
    committed: bool
    done: int
    waiting: int = 0
    persisted: int = -1


class PolledQueues:
    """Not thread-safe: one owner. ``max_waiting``: messages waiting for a poll, over all queues, above which pulling stops."""

    def __init__(self, max_waiting: int = 10_000) -> None:
        self.max_waiting = max_waiting
        self.waiting_count = 0
        self._readings: dict[MessageQueue, _Reading] = {}
        self._ready: dict[MessageQueue, None] = {}  # in turn (rule 5)
        self._withheld: set[MessageQueue] = set()

    # --- queues come and go -----------------------------------------------------------------------------------------------------------

    def queue_added(self, process_queue: ProcessQueue, offset: int, *, withheld: bool = False) -> None:
        """Reading begins at ``offset``, where progress is. With ``withheld`` nothing is handed out until :meth:`release`."""
        queue = process_queue.queue
        assert queue is not None
        self._forget(queue)
        self._readings[queue] = _Reading(process_queue, offset, committed=True, done=offset)
        if withheld:
            self._withheld.add(queue)

    def release(self, queues: Iterable[MessageQueue]) -> None:
        self._withheld.difference_update(queues)

    def remove_dropped(self) -> list[MessageQueue]:
        gone = [queue for queue, reading in self._readings.items() if reading.process_queue.dropped]
        for queue in gone:
            self._forget(queue)
        return gone

    def _forget(self, queue: MessageQueue) -> None:
        reading = self._readings.pop(queue, None)
        if reading is not None:
            self.waiting_count -= reading.waiting
        self._ready.pop(queue, None)
        self._withheld.discard(queue)

    # --- messages -----------------------------------------------------------------------------------------------------------------------

    def arrived(self, process_queue: ProcessQueue) -> bool:
        """Messages wait in ``process_queue``; False when it is not the one that reads its queue now (rule 3)."""
        reading = self._reading(process_queue)
        if reading is None:
            return False
        self._count(reading)
        if process_queue.pending_count:
            assert process_queue.queue is not None
            self._ready.setdefault(process_queue.queue)
        return True

    def take(self, max_messages: int, now_ms: int) -> list[tuple[ProcessQueue, list[MessageExt]]]:
        """At most ``max_messages`` of the queues in turn, handed out from now on: each queue's messages in order."""
        taken: list[tuple[ProcessQueue, list[MessageExt]]] = []
        left = max_messages
        for queue in list(self._ready):
            if left <= 0:
                break
            if queue in self._withheld:
                continue
            reading = self._readings[queue]
            process_queue = reading.process_queue
            messages = process_queue.take(left, now_ms)
            position = process_queue.done(messages)
            self._count(reading)
            del self._ready[queue]
            if process_queue.pending_count:
                self._ready[queue] = None
            if position is not None:
                reading.position, reading.committed = position, False
                taken.append((process_queue, messages))
                left -= len(messages)
        return taken

    def put_back(self, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        """The caller did not get what ``take`` returned: it comes again, unless the process queue is not the current one (rule 3)."""
        reading = self._reading(process_queue)
        if reading is None or not messages:
            return
        process_queue.put(messages)
        reading.position, reading.committed = min(reading.position, messages[0].queue_offset), False
        self.arrived(process_queue)

    def skipped(self, process_queue: ProcessQueue, offset: int) -> bool:
        """Nothing waits, and the filter left out everything before ``offset``. True: progress has to follow at once (rule 4)."""
        reading = self._reading(process_queue)
        if reading is None or offset <= reading.position or process_queue.count:
            return False
        reading.position = offset
        if reading.committed:
            reading.done, reading.persisted = offset, -1
        return reading.committed

    # --- progress -----------------------------------------------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int | None:
        """The lowest offset that the next message of ``queue`` can have; None when it is not read now."""
        reading = self._readings.get(queue)
        return None if reading is None or reading.process_queue.dropped else reading.position

    def positions(self) -> dict[MessageQueue, int]:
        return {
            queue: reading.position for queue, reading in self._readings.items() if not reading.process_queue.dropped
        }

    def to_commit(self) -> dict[MessageQueue, int]:
        return {
            queue: reading.position
            for queue, reading in self._readings.items()
            if not reading.committed and not reading.process_queue.dropped
        }

    def done(self, queue: MessageQueue, otherwise: int) -> int:
        """The offset before which nothing is in hand that is not committed; ``otherwise``: if the queue is not read."""
        reading = self._readings.get(queue)
        return otherwise if reading is None else reading.done

    def sought(self, queue: MessageQueue, done: int) -> None:
        """After a seek progress does not have the position. ``done``: as it was before."""
        reading = self._readings[queue]
        reading.committed, reading.done = False, min(done, reading.position)

    def committed(self, queue: MessageQueue, offset: int) -> None:
        reading = self._readings.get(queue)
        if reading is not None:
            reading.committed, reading.done = offset == reading.position, offset
            if offset != reading.persisted:
                reading.persisted = -1

    def is_persisted(self, queue: MessageQueue, offset: int) -> bool:
        reading = self._readings.get(queue)
        return reading is not None and reading.persisted == offset

    def persisted(self, queue: MessageQueue, offset: int) -> None:
        reading = self._readings.get(queue)
        if reading is not None:
            reading.persisted = offset

    # --- queries --------------------------------------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether nothing more is pulled now (rule 6)."""
        return self.waiting_count > self.max_waiting

    def _reading(self, process_queue: ProcessQueue) -> _Reading | None:
        if process_queue.queue is None or process_queue.dropped:
            return None
        reading = self._readings.get(process_queue.queue)
        return reading if reading is not None and reading.process_queue is process_queue else None

    def _count(self, reading: _Reading) -> None:
        waiting = reading.process_queue.pending_count
        self.waiting_count += waiting - reading.waiting
        reading.waiting = waiting

    def check_invariants(self) -> None:
        assert self.waiting_count == sum(reading.waiting for reading in self._readings.values()), "the count is off"
        assert self._ready.keys() <= self._readings.keys(), "a queue is ready that is not read"
        assert self._withheld <= self._readings.keys(), "a queue is withheld that is not read"
        for queue, reading in self._readings.items():
            process_queue = reading.process_queue
            assert process_queue.queue == queue, "a reading under a wrong name"
            assert process_queue.in_flight_count == 0, "a message is neither waiting nor handed out"
            if process_queue.dropped:
                continue
            assert reading.waiting == process_queue.pending_count, "messages arrived uncounted"
            assert (queue in self._ready) == (process_queue.pending_count > 0), "a queue is ready without messages"
            lowest = process_queue.min_offset
            assert lowest is None or lowest >= reading.position, "a message waits behind the position"

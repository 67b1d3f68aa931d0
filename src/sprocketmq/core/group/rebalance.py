# SPDX-License-Identifier: Apache-2.0
"""From "my queues by allocation" to "queues I read": the table of process queues. Java: RebalanceImpl.updateProcessQueueTableInRebalance.

Dropping and adding take the network's time (persist and unlock; lock and read the start offset), and the next rebalance may come
meanwhile. So each queue of the table has a life:

          Add                 added(offset >= 0)                 Drop
    (none) --> ADDING ---------------------------> ACTIVE ---------------> DROPPING --removed--> (none), and Add again if wanted
                 |  add_failed (no lock, no offset)                            `-- removal_refused (a listener still runs in order):
                 `--> (none), until the next round                                 stays dropped, Drop again next round

Rules
    1. A queue is in the table at most once, so it has at most one pull loop.
    2. Add only for a queue that is not in the table; Drop only for one that is ADDING or ACTIVE, or DROPPING and refused before.
    3. A dropped queue never becomes active again: it leaves, and comes back as a new process queue.
    4. Without events under way, the table holds exactly the allocated queues.
    5. A topic no longer subscribed is dropped whole.
    6. Drops come before Adds, so that dropped queues are free for other members as soon as possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum

import msgspec

from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.group.allocation import queue_order
from sprocketmq.wire.records.message import MessageQueue

REBALANCE_INTERVAL_MS = 20_000
"""``rocketmq.client.rebalance.waitInterval``."""
REBALANCE_MIN_INTERVAL_MS = 1_000
"""``rocketmq.client.rebalance.minInterval``: also how soon an unbalanced group tries again."""


class DropReason(Enum):
    REASSIGNED = "reassigned"
    """The allocation gave it to another member."""
    PULL_EXPIRED = "pull expired"
    """Still ours, but its pull loop died 120 s ago: dropped and added again."""
    UNSUBSCRIBED = "unsubscribed"
    OFFSET_ILLEGAL = "offset illegal"
    """The pull cursor asked for it; the corrected offset is frozen."""
    SEEK = "seek"
    """A pull consumer goes on elsewhere: progress stays as it is."""
    SHUTDOWN = "shutdown"


class Drop(msgspec.Struct, frozen=True):
    """The queue was marked dropped. Persist and forget its progress, unlock it (orderly), then call ``removed`` or ``removal_refused``."""

    queue: MessageQueue
    reason: DropReason


class Add(msgspec.Struct, frozen=True):
    """Lock the queue (orderly), forget stale progress, find its start offset, then call ``added`` or ``add_failed``."""

    queue: MessageQueue


class QueueLife(Enum):
    ADDING = "adding"
    ACTIVE = "active"
    DROPPING = "dropping"


class _Entry(msgspec.Struct):
    process_queue: ProcessQueue
    life: QueueLife = QueueLife.ADDING
    reason: DropReason = DropReason.REASSIGNED
    removal_under_way: bool = False


class RebalanceTable:
    """Not thread-safe: one owner. ``new_process_queue`` makes a process queue, at a time; another where decisions are recorded."""

    def __init__(
        self,
        new_process_queue: Callable[[MessageQueue, int], ProcessQueue] = ProcessQueue,
    ) -> None:
        self.new_process_queue = new_process_queue
        self._entries: dict[MessageQueue, _Entry] = {}
        self._by_topic: dict[str, set[MessageQueue]] = {}  # the queues of the entries
        self._wanted: dict[str, set[MessageQueue]] = {}

    # --- events: each returns the effects to run -------------------------------------------------------------------------------------

    def assigned(self, topic: str, allocated: Iterable[MessageQueue], now_ms: int) -> list[Drop | Add]:
        wanted = self._wanted[topic] = set(allocated)
        drops: list[Drop | Add] = []
        for queue in self._sorted(topic):
            entry = self._entries[queue]
            if entry.life is QueueLife.DROPPING:
                drops += self._drops([queue], entry.reason)
            elif queue not in wanted:
                drops.append(self._drop(queue, DropReason.REASSIGNED))
            elif entry.life is QueueLife.ACTIVE and entry.process_queue.is_pull_expired(now_ms):
                drops.append(self._drop(queue, DropReason.PULL_EXPIRED))
        adds = [self._add(queue, now_ms) for queue in sorted(wanted, key=queue_order) if queue not in self._entries]
        return [*drops, *adds]

    def subscribed(self, topics: Collection[str]) -> list[Drop | Add]:
        """The topics subscribed now; all others are dropped (rule 5), again if that was refused. Java: truncateMessageQueueNotMyTopic."""
        for topic in self._wanted.keys() - topics:
            del self._wanted[topic]
        gone = [queue for topic in self._by_topic.keys() - topics for queue in self._by_topic[topic]]
        return self._drops(gone, DropReason.UNSUBSCRIBED)

    def added(self, queue: MessageQueue, now_ms: int) -> ProcessQueue | None:
        """The queue has its lock and start offset: returns the process queue to pull into, or None if it was dropped meanwhile."""
        entry = self._entries.get(queue)
        if entry is None or entry.life is not QueueLife.ADDING:
            return None
        entry.life = QueueLife.ACTIVE
        entry.process_queue.last_pull_ms = now_ms
        return entry.process_queue

    def add_failed(self, queue: MessageQueue) -> None:
        """No lock or no start offset: the queue waits for the next round."""
        entry = self._entries.get(queue)
        if entry is not None and entry.life is QueueLife.ADDING:
            self._forget(queue)

    def drop(self, queue: MessageQueue, reason: DropReason) -> list[Drop | Add]:
        """Drop one queue now, whatever the allocation says (offset illegal, reset, shutdown); again if that was refused."""
        return self._drops([queue], reason) if queue in self._entries else []

    def drop_all(self, reason: DropReason = DropReason.SHUTDOWN) -> list[Drop | Add]:
        self._wanted.clear()
        return self._drops(self._entries, reason)

    def removed(self, queue: MessageQueue, now_ms: int) -> list[Drop | Add]:
        """The drop is finished. If the queue is (still or again) ours, it is added again at once."""
        entry = self._entries.get(queue)
        if entry is None or entry.life is not QueueLife.DROPPING:
            return []
        self._forget(queue)
        return [self._add(queue, now_ms)] if queue in self._wanted.get(queue.topic, ()) else []

    def removal_refused(self, queue: MessageQueue) -> None:
        """Orderly: a listener still runs, so the lock must not be given back now. The next round asks again."""
        entry = self._entries.get(queue)
        if entry is not None and entry.life is QueueLife.DROPPING:
            entry.removal_under_way = False
            entry.process_queue.try_unlock_times += 1

    # --- queries -------------------------------------------------------------------------------------------------------------------

    def get(self, queue: MessageQueue) -> ProcessQueue | None:
        entry = self._entries.get(queue)
        return entry.process_queue if entry is not None and entry.life is QueueLife.ACTIVE else None

    def active(self) -> dict[MessageQueue, ProcessQueue]:
        return {queue: entry.process_queue for queue, entry in self._entries.items() if entry.life is QueueLife.ACTIVE}

    def life(self, queue: MessageQueue) -> QueueLife | None:
        entry = self._entries.get(queue)
        return None if entry is None else entry.life

    @property
    def is_balanced(self) -> bool:
        """Whether the table has exactly the allocated queues (rule 4). False: run another round after REBALANCE_MIN_INTERVAL_MS."""
        wanted = set().union(*self._wanted.values())
        return self.active().keys() == wanted and len(self._entries) == len(wanted)

    def __len__(self) -> int:
        return len(self._entries)

    # --- within ----------------------------------------------------------------------------------------------------------------------

    def _sorted(self, topic: str) -> list[MessageQueue]:
        return sorted(self._by_topic.get(topic, ()), key=queue_order)

    def _add(self, queue: MessageQueue, now_ms: int) -> Add:
        self._entries[queue] = _Entry(self.new_process_queue(queue, now_ms))
        self._by_topic.setdefault(queue.topic, set()).add(queue)
        return Add(queue)

    def _forget(self, queue: MessageQueue) -> None:
        del self._entries[queue]
        queues = self._by_topic[queue.topic]
        queues.remove(queue)
        if not queues:
            del self._by_topic[queue.topic]

    def _drops(self, queues: Iterable[MessageQueue], reason: DropReason) -> list[Drop | Add]:
        """Drops of these queues, in order; also of those whose removal was refused before, but not of those whose removal is under way."""
        return [
            self._drop(queue, reason)
            for queue in sorted(queues, key=queue_order)
            if not self._entries[queue].removal_under_way
        ]

    def _drop(self, queue: MessageQueue, reason: DropReason) -> Drop:
        entry = self._entries[queue]
        entry.process_queue.drop()
        entry.life, entry.reason, entry.removal_under_way = QueueLife.DROPPING, reason, True
        return Drop(queue, reason)

    def check_invariants(self) -> None:
        by_topic = [queue for topic, queues in self._by_topic.items() for queue in queues if queue.topic == topic]
        assert set(by_topic) == self._entries.keys(), "queues of the topics are not those of the entries"
        assert all(self._by_topic.values()), "a topic without a queue"
        for queue, entry in self._entries.items():
            assert entry.process_queue.queue == queue, "an entry under a wrong name"
            assert (
                entry.process_queue.dropped == (entry.life is QueueLife.DROPPING) or entry.life is QueueLife.ACTIVE
            ), "a dropped queue lives"
            assert not entry.removal_under_way or entry.life is QueueLife.DROPPING, "a removal of a living queue"

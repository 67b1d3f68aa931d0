# SPDX-License-Identifier: Apache-2.0
"""Who may consume a queue in order: the broker's lock table and the client's view of one lock. Java: RebalanceLockManager, ProcessQueue.

    client A --LOCK_BATCH_MQ(group, queues)--> broker      60 s from the last renewal, per (group, queue), owned by a client id
       | granted, valid here for 30 s                 |
       |---renew every 20 s------------------------->|
       `---UNLOCK_BATCH_MQ after the last turn------>'

The client uses a grant for half as long as the broker keeps it, so two clients never consume at the same time, even if clocks differ or
one renewal fails.

Rules of the table
    1. One (group, queue) has at most one owner whose lock has not expired.
    2. Only an expired lock changes its owner without an unlock; asking again by the owner renews it.
    3. Only the owner unlocks.
Rules of the pair
    4. A client whose local lock is valid is the owner at the broker (30 s < 60 s, counted from before the request was sent, by
       clocks that cannot be set).
    5. Between two grants of one tenure nobody else can have owned the lock: a grant after a refusal, or after more than 60 s, begins a
       new tenure. What is cached from an earlier tenure may be out of date (core.consume.pull_cursor checks it)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sprocketmq.wire.records.message import MessageQueue

BROKER_LOCK_MAX_LIVE_MS = 60_000
"""``rocketmq.broker.rebalance.lockMaxLiveTime``."""
LOCAL_LOCK_MAX_LIVE_MS = 30_000
"""``rocketmq.client.rebalance.lockMaxLiveTime``."""
LOCK_RENEW_INTERVAL_MS = 20_000
"""``rocketmq.client.rebalance.lockInterval``."""
UNLOCK_DELAY_MS = 20_000
"""``rocketmq.client.unlockDelayTimeMills``: how long a queue that was dropped with cached messages stays locked."""


class _Lock(Struct):
    client_id: str
    last_update_ms: int


class QueueLockTable:
    """``max_locks``: a request may name queues that do not exist."""

    def __init__(self, max_locks: int = 100_000) -> None:
        self.max_locks = max_locks
        self._count = 0
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def __len__(self) -> int:
        return self._count

    def try_lock(self, group: str, queue: MessageQueue, client_id: str, now_ms: int) -> bool:
        """False when another client holds it, or there are too many."""
        locks = self._groups.get(group, {})
        lock = locks.get(queue)
        if lock is None:
            if self._count >= self.max_locks:
                return False
            self._count += 1
            self._groups.setdefault(group, {})[queue] = _Lock(client_id, now_ms)
            return True
        if lock.client_id != client_id and self._is_expired(lock, now_ms):
            locks[queue] = _Lock(client_id, now_ms)
            return True
        if lock.client_id != client_id:
            return False
        lock.last_update_ms = now_ms
        return True

    def try_lock_batch(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> list[MessageQueue]:
        """Returns the queues that are owned now."""
        return [queue for queue in queues if self.try_lock(group, queue, client_id, now_ms)]

    def unlock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        """Releases one lock; False when it was not the caller's (rule 3)."""
        locks = self._groups.get(group, {})
        lock = locks.get(queue)
        if lock is None or lock.client_id != client_id:
            return False
        del locks[queue]
        self._count -= 1
        if not locks:
            del self._groups[group]
        return True

    def unlock_batch(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        return [queue for queue in queues if self.unlock(group, queue, client_id)]

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or self._is_expired(lock, now_ms) else lock.client_id

    def holds_any(self, group: str, now_ms: int) -> bool:
        """Whether the group consumes in order: its send-backs are dead letters then (Java: isLockAllExpired in handleRetryAndDLQ)."""
        return any(not self._is_expired(lock, now_ms) for lock in self._groups.get(group, {}).values())

    def sweep(self, now_ms: int) -> int:
        removed = 0
        for group in list(self._groups):
            locks = self._groups[group]
            for queue in [queue for queue, lock in locks.items() if self._is_expired(lock, now_ms)]:
                del locks[queue]
                removed += 1
                self._count -= 1
            if not locks:
                del self._groups[group]
        return removed

    @staticmethod
    def _is_expired(lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.last_update_ms > BROKER_LOCK_MAX_LIVE_MS

    def check_invariants(self) -> None:
        assert self._count == sum(map(len, self._groups.values()))
        for locks in self._groups.values():
            assert locks, "an empty group stays"
            for lock in locks.values():
                assert lock.client_id, "a lock without an owner"


class LocalQueueLock:
    """What a client knows about its lock on one queue. Java: ProcessQueue.locked, lastLockTimestamp. ``last_lock_ms``: when the last grant
    was asked for. ``tenure`` counts how often the lock became ours (rule 5)."""

    __slots__ = ("last_lock_ms", "locked", "tenure")

    def __init__(self) -> None:
        self.locked = False
        self.last_lock_ms = 0
        self.tenure = 0

    def granted(self, asked_ms: int) -> None:
        """``asked_ms`` is when the request was sent: counted from the answer, rule 4 would not hold."""
        if not self.is_ours(asked_ms):
            self.tenure += 1
        self.locked = True
        self.last_lock_ms = asked_ms

    def lost(self) -> None:
        self.locked = False

    def is_expired(self, now_ms: int) -> bool:
        return now_ms - self.last_lock_ms > LOCAL_LOCK_MAX_LIVE_MS

    def is_valid(self, now_ms: int) -> bool:
        return self.locked and not self.is_expired(now_ms)

    def is_ours(self, now_ms: int) -> bool:
        """Whether the broker cannot have granted it to another client yet. This lasts longer than ``is_valid``: no new message may be
        consumed, but the progress of consumed ones may still be committed."""
        return self.locked and now_ms - self.last_lock_ms <= BROKER_LOCK_MAX_LIVE_MS

    def __repr__(self) -> str:
        return f"LocalQueueLock(locked={self.locked}, last_lock_ms={self.last_lock_ms})"

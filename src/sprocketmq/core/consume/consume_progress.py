# SPDX-License-Identifier: Apache-2.0
"""How far a group has come in each queue, and where a new group begins. Java: OffsetStore and its two classes, computePullFromWhere.

    listener done --> ProcessQueue: lowest unfinished offset --> update(increase_only) --> table --every 5 s--> broker (or local file)

Rules
    1. A concurrent result never moves an offset back; only a reset, an orderly commit or a correction may.
    2. A frozen offset (after OFFSET_ILLEGAL) takes no updates until the queue is removed: a late listener must not undo the correction.
    3. An unknown stored offset is not "no stored offset": guessing would skip or repeat a whole queue.
    4. Only offsets of owned queues are persisted. Queues that moved away are removed, because their new owner writes their offsets now.
    5. Unchanged offsets are persisted too: a broker that lost its last seconds gets them again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sprocketmq.core.resource_names import is_retry_topic
from sprocketmq.wire.bodies import ConsumeFromWhere
from sprocketmq.wire.records.message import MessageQueue

OFFSET_NOT_FOUND = -1
"""Nothing is stored for this group and queue (response code 22, or absent from the local file)."""
OFFSET_UNKNOWN = -2
"""The store could not be asked, or answered with another error."""


class ConsumeProgress:
    """The offset table of one group in one client: the next offset to consume, per queue."""

    __slots__ = ("_frozen", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> bool:
        """``increase_only``: False for orderly commits, corrections and resets. Returns whether the table holds ``offset`` now."""
        if queue in self._frozen:
            return False
        current = self._offsets.get(queue)
        if increase_only and current is not None and offset < current:
            return False
        self._offsets[queue] = offset
        return True

    def update_and_freeze(self, queue: MessageQueue, offset: int) -> None:
        """Sets a corrected offset that nothing may overwrite until :meth:`remove` (rule 2)."""
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def read(self, queue: MessageQueue) -> int:
        return self._offsets.get(queue, OFFSET_NOT_FOUND)

    def remove(self, queue: MessageQueue) -> None:
        """Also ends the freeze."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def load(self, offsets: dict[MessageQueue, int]) -> None:
        self._offsets.update(offsets)

    def to_persist(self, owned: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The offsets to write now: those of ``owned`` queues. All others are forgotten (rule 4)."""
        keep = set(owned)
        for queue in [queue for queue in self._offsets if queue not in keep]:
            self.remove(queue)
        return dict(self._offsets)

    def snapshot(self) -> dict[MessageQueue, int]:
        return dict(self._offsets)

    def check_invariants(self) -> None:
        assert self._frozen <= self._offsets.keys(), "a frozen queue without an offset"
        assert all(offset >= 0 for offset in self._offsets.values()), "a negative offset"


class StartAt(msgspec.Struct, frozen=True):
    offset: int


class AskMaxOffset(msgspec.Struct, frozen=True):
    """Start at the queue's max offset, which the broker knows (GET_MAX_OFFSET)."""


class AskOffsetByTime(msgspec.Struct, frozen=True):
    """Start at the first message stored at or after ``timestamp_ms`` (SEARCH_OFFSET_BY_TIMESTAMP)."""

    timestamp_ms: int


class SkipThisRound(msgspec.Struct, frozen=True):
    """Leave the queue until the next rebalance (rule 3)."""


def decide_start(
    where: ConsumeFromWhere, topic: str, stored_offset: int, timestamp_ms: int
) -> StartAt | AskMaxOffset | AskOffsetByTime | SkipThisRound:
    """Where to start a newly assigned queue. Java: RebalancePushImpl.computePullFromWhereWithException. ``stored_offset``: the group's,
    OFFSET_NOT_FOUND or OFFSET_UNKNOWN. ``timestamp_ms``: for CONSUME_FROM_TIMESTAMP."""
    if stored_offset >= 0:
        return StartAt(stored_offset)
    if stored_offset != OFFSET_NOT_FOUND:
        return SkipThisRound()
    if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return StartAt(0)  # the broker answers OFFSET_ILLEGAL with its min offset when 0 is gone
    if where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        return AskMaxOffset() if is_retry_topic(topic) else AskOffsetByTime(timestamp_ms)
    # CONSUME_FROM_LAST_OFFSET and its three deprecated names. Retries belong to this very group: none may be skipped.
    return StartAt(0) if is_retry_topic(topic) else AskMaxOffset()

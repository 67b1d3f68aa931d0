# SPDX-License-Identifier: Apache-2.0
"""One turn of one queue in orderly consumption. Java: ConsumeMessageOrderlyService.ConsumeRequest and processConsumeResult.

    begin --+-- dropped ----------------------------> Ended
            +-- not locked --> LockLater(100 ms) ---> the driver locks at the broker, then a new turn (3 s when refused)
            `-- Consume(batch) --listener--> settle(status)
                   ^                            +--> Commit(offset), next batch
                   |                            +--> put back, Suspended(delay) --> a new turn
                   |                            `--> over the retry limit: DeadLetterNeeded --> dead_lettered(sent, failed)
                   `---- next, unless 60 s are over (TurnOver, resubmit in 10 ms) or nothing is pending (Ended)

    status                            auto_commit (default)                      without auto_commit
    SUCCESS                           commit                                     go on, offset stays
    COMMIT                            commit (warning: meant for manual)         commit
    ROLLBACK                          commit (warning)                           put back ALL uncommitted, pause
    SUSPEND, None, exception, other   put the batch back, reconsume_times + 1, pause

Rules
    1. At most one batch of a queue is with a listener at a time, and batches come in offset order.
    2. No batch is handed out without a valid lock (clustering), after a drop, or from an earlier tenure of the lock before the pull loop
       found out whether another member has consumed it.
    3. A suspended message blocks the queue until it succeeds, or is over max_reconsume_times and was stored as a dead letter.
    4. A dead letter is stored once; only messages that were not stored are put back. (Java puts back and stores the whole batch again.)
    5. The offset committed is that after the last settled message; it is not increase-only."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from sprocketmq.core.consume.consume_result import is_number
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt

MAX_TURN_MS = 60_000
"""``rocketmq.client.maxTimeConsumeContinuously``: then the thread goes to another queue."""
RESUBMIT_DELAY_MS = 10
LOCK_RETRY_DELAY_MS = 100
LOCK_REFUSED_DELAY_MS = 3_000
SUSPEND_MIN_MS = 10
SUSPEND_MAX_MS = 30_000


class ConsumeOrderlyStatus(Enum):
    """What an orderly listener returns."""

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


def read_orderly_answer(returned: object, context: Any) -> tuple[ConsumeOrderlyStatus, str | None]:
    """Status and problem as from ``consume_result.read_answer``; a pause that is no number becomes the consumer's setting."""
    status, complaint = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, None
    if isinstance(returned, ConsumeOrderlyStatus):
        status = returned
    else:
        complaint = f"returned {returned!r}, a ConsumeOrderlyStatus is allowed"
    pause_ms = context.suspend_current_queue_time_ms
    if pause_ms != -1 and not is_number(pause_ms):
        complaint = f"set context.suspend_current_queue_time_ms to {pause_ms!r}, whole milliseconds or -1 are allowed"
        context.suspend_current_queue_time_ms = -1
    return status, complaint


# --- effects -------------------------------------------------------------------------------------------------------------------------


class ConsumeBatch(msgspec.Struct, frozen=True):
    messages: list[MessageExt]


class Commit(msgspec.Struct, frozen=True):
    offset: int


class Suspended(msgspec.Struct, frozen=True):
    delay_ms: int


class LockLater(msgspec.Struct, frozen=True):
    delay_ms: int


class TurnOver(msgspec.Struct, frozen=True):
    delay_ms: int = RESUBMIT_DELAY_MS


class TurnEnded(msgspec.Struct, frozen=True):
    """Nothing is pending, or the queue was dropped; the next Dispatch starts a new turn."""


class DeadLetterNeeded(msgspec.Struct, frozen=True):
    """Send each to ``%RETRY%group`` with MAX_RECONSUME_TIMES (the broker, seeing the group's lock, stores it in ``%DLQ%group``), then call
    ``dead_lettered``."""

    messages: list[MessageExt]


OrderlyEffect = ConsumeBatch | Commit | Suspended | LockLater | TurnOver | TurnEnded | DeadLetterNeeded


class OrderlyTurn:
    """``clustering``: a lock is needed. ``max_reconsume_times``: the effective limit. ``suspend_ms``: used where the context has -1."""

    __slots__ = (
        "_begin_ms",
        "_pause_after_ms",
        "_rest_waits",
        "batch_size",
        "clustering",
        "max_reconsume_times",
        "max_turn_ms",
        "process_queue",
        "suspend_ms",
    )

    def __init__(
        self,
        process_queue: ProcessQueue,
        *,
        clustering: bool = True,
        batch_size: int = 1,
        max_reconsume_times: int = 0x7FFFFFFF,
        suspend_ms: int = 1_000,
        max_turn_ms: int = MAX_TURN_MS,
    ) -> None:
        self.process_queue = process_queue
        self.clustering = clustering
        self.batch_size = batch_size
        self.max_reconsume_times = max_reconsume_times
        self.suspend_ms = suspend_ms
        self.max_turn_ms = max_turn_ms
        self._begin_ms: int | None = None
        # While DeadLetterNeeded is carried out: the pause after it, and whether other messages of its batch wait for their retry.
        self._pause_after_ms = suspend_ms
        self._rest_waits = False

    def next(self, now_ms: int) -> ConsumeBatch | LockLater | TurnOver | TurnEnded:
        """What to do now: call it to begin, and after every settle that did not end the turn."""
        queue = self.process_queue
        if queue.dropped:
            return TurnEnded()
        if self.clustering and not queue.lock.is_valid(now_ms):
            # Within a turn Java waits 10 ms only, because a renewal is probably under way; at the beginning it waits 100 ms.
            return LockLater(LOCK_RETRY_DELAY_MS if self._begin_ms is None else RESUBMIT_DELAY_MS)
        if self.clustering and queue.awaits_offset:
            return TurnEnded()
        if self._begin_ms is None:
            self._begin_ms = now_ms
        elif now_ms - self._begin_ms > self.max_turn_ms:
            return TurnOver()
        batch = queue.take(self.batch_size, now_ms)
        return ConsumeBatch(batch) if batch else TurnEnded()

    def settle(
        self,
        batch: Sequence[MessageExt],
        status: ConsumeOrderlyStatus,
        *,
        auto_commit: bool = True,
        suspend_ms: int = -1,
        dead_letter: bool = False,
    ) -> list[OrderlyEffect]:
        """Without Suspended or DeadLetterNeeded ``next`` follows. ``dead_letter``: a batch to be suspended is over its limit."""
        queue = self.process_queue
        if status is ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
            limit = -1 if dead_letter else self.max_reconsume_times
            return self._suspend(batch, self._pause_ms(suspend_ms), limit)
        if not auto_commit and status is ConsumeOrderlyStatus.ROLLBACK:
            queue.rollback()
            return [Suspended(self._pause_ms(suspend_ms))]
        if not auto_commit and status is ConsumeOrderlyStatus.SUCCESS:
            return []
        return self._committed(queue.commit())

    def ended_before(self, offset: int | None) -> list[OrderlyEffect]:
        """The calls for what lies before ``offset`` (None: for all that was handed out) ended with SUCCESS, and a later one may run
        still. The driver hands out several batches at a time; Java settles after each call (processConsumeResult)."""
        return self._committed(self.process_queue.commit(offset))

    def dead_lettered(self, sent: Sequence[MessageExt], failed: Sequence[MessageExt]) -> list[OrderlyEffect]:
        """Outcome of DeadLetterNeeded: ``sent`` are stored and settled, ``failed`` are not and block the queue (rule 4). Messages
        that are in flight without auto_commit stay uncommitted: progress stays below them."""
        queue = self.process_queue
        effects = self._committed(queue.done(sent)) if sent else []
        for message in failed:
            message.reconsume_times += 1
        queue.put_back(failed)
        if failed or self._rest_waits:
            effects.append(Suspended(self._pause_after_ms))
        return effects

    def _suspend(self, batch: Sequence[MessageExt], pause_ms: int, limit: int) -> list[OrderlyEffect]:
        over = [message for message in batch if message.reconsume_times >= limit]
        rest = [message for message in batch if message.reconsume_times < limit]
        for message in rest:
            message.reconsume_times += 1
        self.process_queue.put_back(rest)
        if not over:
            return [Suspended(pause_ms)]
        self._pause_after_ms, self._rest_waits = pause_ms, bool(rest)
        return [DeadLetterNeeded(over)]

    def _committed(self, offset: int | None) -> list[OrderlyEffect]:
        return [] if offset is None else [Commit(offset)]

    def _pause_ms(self, asked_ms: int) -> int:
        pause_ms = self.suspend_ms if asked_ms == -1 else asked_ms
        return min(max(pause_ms, SUSPEND_MIN_MS), SUSPEND_MAX_MS)

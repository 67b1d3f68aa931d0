# SPDX-License-Identifier: Apache-2.0
"""The pull loop of one queue, as decisions. Java: DefaultMQPushConsumerImpl.pullMessage and its PullCallback.

    PullDue --checks--> SendPull(offset) --network--> PullReturned --> PullNow | PullLater | DropQueue
       ^                                          `-> PullFailed   --> PullLater             | the loop ends
       `------------- the driver hands PullDue in again, at once or after delay_ms

    checks, in this order: dropped -> (loop ends) | not running -> 1 s | orderly: locked again -> ReadOffset, then OffsetRead
                           | paused -> 1 s | the consumer is full (lite pull) -> 1 s, or until it has room again | flow control -> 50 ms
                           | orderly: not locked -> 1 s; first time locked -> ReadOffset, then OffsetRead
                           | no subscription -> 1 s

    result            at next_begin_offset
    FOUND             messages into the process queue, Dispatch; nothing left after the tag check -> at once
    NO_NEW_MSG        nothing cached -> progress moves to it (CorrectOffset); at once, the broker held us 15 s
    NO_MATCHED_MSG    the same; without CorrectOffset a filtered queue would look stuck for ever
    OFFSET_ILLEGAL    drop, freeze and persist the corrected offset, rebalance re-adds the queue

Rules
    1. At most one pull is in flight per queue.
    2. next_offset is always the broker's next_begin_offset from the answer; it is never computed here.
    3. A dropped queue yields no effect but the end. The messages of a late answer are discarded; the new owner pulls them again.
    4. No own back-off on NO_MATCHED_MSG: the broker stops scanning after 800 entries and expects to be asked again at once.
    5. Orderly: no pull without a valid lock, and the offset is read again once in each tenure of the lock, because the owner before us may
       have committed meanwhile. (Java reads it once per assignment.) If no other member has moved the progress past ours, we continue with
       the cached messages, otherwise where that member ended. No message is consumed before, so this comes before pauses and flow control.
    6. An answer to a pull under another subscription or version of it than the one in force, or under an earlier tenure of the lock, is
       ignored and asked again. (Java filters it by the old subscription, so messages that match only the new one are skipped.) So is one
       that passes over messages although ours lets all pass: the broker went by another member's filter."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from sprocketmq.core.consume import flow_control
from sprocketmq.core.consume.flow_control import FlowControlCause, FlowLimits
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt, MessageQueue

EXCEPTION_DELAY_MS = 1_000
PAUSED_DELAY_MS = 1_000
BROKER_FLOW_CONTROL_DELAY_MS = 20
BROKER_PULL_BYTES = 256 * 1024
"""Java: pullBatchSizeInBytes, and maxTransferBytesOnMessageInMemory of a broker. A request that wants this default need not contain it."""
BROKER_SUSPEND_MS = 15_000
"""suspendTimeoutMillis of a push consumer's pull."""
PULL_TIMEOUT_MS = 30_000
"""Client-side limit of a pull; must exceed BROKER_SUSPEND_MS + 5 s, the broker's sweep."""
PROXY_SUSPEND_MS, PROXY_TIMEOUT_MS = 5_000, 11_000
"""The same behind a proxy, which may drop the answer to a pull (``client.remoting.pulls``)."""


class PullStatus(Enum):
    """Java: PullStatus. Values are the response codes SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY and PULL_OFFSET_MOVED."""

    FOUND = 0
    NO_NEW_MSG = 19
    NO_MATCHED_MSG = 20
    OFFSET_ILLEGAL = 21


_STATUSES = {status.value: status for status in PullStatus}


def pull_status(code: int) -> PullStatus | None:
    """None for an error."""
    return _STATUSES.get(code)


# --- events --------------------------------------------------------------------------------------------------------------------------


class PullDue(msgspec.Struct, frozen=True):
    running: bool = True
    paused: bool = False
    subscribed: bool = True
    full: bool = False


class OffsetRead(msgspec.Struct, frozen=True):
    """Below 0 when the offset could not be had."""

    offset: int


class PullReturned(msgspec.Struct, frozen=True):
    """``messages`` passed the client's tag check; ``next_begin_offset``: the broker's, or before a message that cannot be read.
    ``is_beyond_end``: the offset that was asked for."""

    status: PullStatus
    next_begin_offset: int
    messages: Sequence[MessageExt] = ()
    is_beyond_end: bool = False


class PullFailed(msgspec.Struct, frozen=True):
    """``broker_flow_control``: response code 215."""

    reason: str
    broker_flow_control: bool = False


class PullOutdated(msgspec.Struct, frozen=True):
    """The subscription changed, or the lock came back, while the broker held the pull, or it filtered by another: no valid answer."""


PullEvent = PullDue | OffsetRead | PullReturned | PullFailed | PullOutdated

# --- effects -------------------------------------------------------------------------------------------------------------------------


class SendPull(msgspec.Struct, frozen=True):
    """Answer with PullReturned or PullFailed."""

    offset: int


class PullNow(msgspec.Struct, frozen=True):
    offset: int


class PullLater(msgspec.Struct, frozen=True):
    """Hand in PullDue again after ``delay_ms``. ``cause`` is set for flow control."""

    delay_ms: int
    reason: str
    cause: FlowControlCause | None = None


class Dispatch(msgspec.Struct, frozen=True):
    """``count`` new messages are in the process queue."""

    count: int


class CorrectOffset(msgspec.Struct, frozen=True):
    """Nothing is cached and everything before ``offset`` is filtered away: progress moves to it (increase only)."""

    offset: int


class DropQueue(msgspec.Struct, frozen=True):
    """The offset was illegal: freeze ``offset`` as progress, persist it, remove the queue from the table, rebalance at once.
    ``has_lost_end``: a power cut took the end of the queue; otherwise the group was reset, or its messages have expired."""

    offset: int
    has_lost_end: bool = False


class ReadOffset(msgspec.Struct, frozen=True):
    """Read the start offset again (as for a new queue); answer with OffsetRead."""


class LoopEnded(msgspec.Struct, frozen=True):
    """There is no next pull."""


PullEffect = SendPull | PullNow | PullLater | Dispatch | CorrectOffset | DropQueue | ReadOffset | LoopEnded


class PullCursor:
    """The pull loop's state for one process queue, whose drop ends the loop. ``orderly``: a lock is needed. ``limits``: replaced when
    rebalance changes the share of a per-topic limit. ``pull_interval_ms``: pause between pulls that found something."""

    __slots__ = (
        "_reading_tenure",
        "exception_delay_ms",
        "in_flight",
        "limits",
        "next_offset",
        "orderly",
        "previously_locked",
        "process_queue",
        "pull_interval_ms",
    )

    def __init__(
        self,
        process_queue: ProcessQueue,
        next_offset: int,
        *,
        orderly: bool = False,
        limits: FlowLimits | None = None,
        pull_interval_ms: int = 0,
        exception_delay_ms: int = EXCEPTION_DELAY_MS,
    ) -> None:
        self.process_queue = process_queue
        self.next_offset = next_offset
        self.orderly = orderly
        self.limits = limits or FlowLimits()
        self.pull_interval_ms = pull_interval_ms
        self.exception_delay_ms = exception_delay_ms
        self.in_flight = False
        self.previously_locked = False
        self._reading_tenure = 0  # of the lock, when the offset was last asked for

    @property
    def queue(self) -> MessageQueue | None:
        return self.process_queue.queue

    @property
    def own_offset(self) -> int:
        """Where to read on when no progress is stored anywhere: the lowest unfinished message, or the next pull."""
        ours = self.process_queue.commit_offset
        return self.next_offset if ours is None else ours

    def handle(self, event: PullEvent, now_ms: int) -> list[PullEffect]:
        if isinstance(event, PullReturned | PullFailed | PullOutdated):
            self.in_flight = False
        if self.process_queue.dropped:
            return [LoopEnded()]
        if isinstance(event, PullDue):
            return self._due(event, now_ms)
        if isinstance(event, PullReturned):
            return self._returned(event)
        if isinstance(event, OffsetRead):
            return self._offset_read(event)
        if isinstance(event, PullOutdated):
            return [PullNow(self.next_offset)]  # rule 6
        delay_ms = BROKER_FLOW_CONTROL_DELAY_MS if event.broker_flow_control else self.exception_delay_ms
        return [PullLater(delay_ms, event.reason)]

    def _due(self, event: PullDue, now_ms: int) -> list[PullEffect]:
        if self.in_flight:
            return []  # rule 1: a second PullDue (resume, rebalance) while the broker holds our pull
        queue = self.process_queue
        queue.last_pull_ms = now_ms  # also without a pull: rebalance reads it to see whether the loop is alive
        if not event.running:
            return [PullLater(self.exception_delay_ms, "the consumer is not running")]
        if self.orderly and self.previously_locked and queue.awaits_offset and queue.lock.is_valid(now_ms):
            return self._read_offset()  # rule 5
        if event.paused:
            return [PullLater(PAUSED_DELAY_MS, "the consumer is paused")]
        if event.full:
            return [PullLater(PAUSED_DELAY_MS, "too much waits to be polled", FlowControlCause.COUNT)]
        if full := flow_control.check(queue, self.limits, orderly=self.orderly):
            return [PullLater(full.delay_ms, full.reason, full.cause)]
        if self.orderly:
            if not queue.lock.is_valid(now_ms):
                return [PullLater(self.exception_delay_ms, f"{queue.queue} is not locked at the broker")]
            if not self.previously_locked:
                return self._read_offset()
        if not event.subscribed:
            return [PullLater(self.exception_delay_ms, "there is no subscription for the topic")]
        self.in_flight = True
        return [SendPull(self.next_offset)]

    def _read_offset(self) -> list[PullEffect]:
        self._reading_tenure = self.process_queue.lock.tenure
        return [ReadOffset()]

    def _offset_read(self, event: OffsetRead) -> list[PullEffect]:
        if event.offset < 0:
            return [PullLater(self.exception_delay_ms, "the stored offset could not be read")]
        queue = self.process_queue
        if queue.lock.tenure != self._reading_tenure:
            return [PullNow(self.next_offset)]  # the lock was away meanwhile: read it again
        known, queue.tenure = self.previously_locked and queue.awaits_offset, queue.lock.tenure
        self.previously_locked = True
        if known:
            ours = queue.commit_offset
            if ours is not None and event.offset <= ours:
                return [CorrectOffset(ours), Dispatch(0), PullNow(self.next_offset)]
            queue.restart(queue.lock.tenure)
        self.next_offset = event.offset
        return [PullNow(event.offset)]

    def _returned(self, event: PullReturned) -> list[PullEffect]:
        self.next_offset = event.next_begin_offset
        queue = self.process_queue
        if event.status is PullStatus.FOUND:
            if not event.messages:
                return [PullNow(self.next_offset)]
            count = queue.put(event.messages)
            then: PullEffect = (
                PullLater(self.pull_interval_ms, "pull_interval_ms")
                if self.pull_interval_ms
                else PullNow(self.next_offset)
            )
            return [Dispatch(count), then]
        if event.status is PullStatus.OFFSET_ILLEGAL:
            offset, first = self.next_offset, queue.min_offset
            if event.is_beyond_end and first is not None:
                # A power cut took the end of the broker's log, and not what is cached. (Java goes on at the broker's offset, past it.)
                offset = min(first, offset)
            queue.drop()
            return [DropQueue(offset, event.is_beyond_end)]
        effects: list[PullEffect] = [PullNow(self.next_offset)]
        if queue.count == 0:
            effects.insert(0, CorrectOffset(self.next_offset))
        return effects

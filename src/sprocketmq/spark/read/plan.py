# SPDX-License-Identifier: Apache-2.0
"""Plans a batch: where it starts and ends, and which messages are lost. No I/O: the brokers' answers come in, ranges come out.

1. The position of a stream in a queue goes back only when data was lost and the user allowed that (``failOnDataLoss=false``).
2. Consecutive batches read each offset once: none is skipped and none read twice, except what a plan names as lost.
3. If there is nothing to do, the end is the same offset (Spark compares the text).
4. A queue that is unreachable keeps its position: a broker that restarts is no data loss. A new queue starts at its smallest offset, or by
   the rule of the query's start (``new_queue_start``). A broker without a master is unreachable: a slave may lag behind.
5. AvailableNow: no batch goes beyond the target. The run is over (``unread_queues``) when each queue of the target, and each queue that the
   stream had before, is read up to the target or named as lost.
6. A queue that its broker reports as gone leaves the stream; it is lost up to its last known end. If it returns, it is a new queue. If the
   next offset of a queue goes back, the messages beyond are lost and the stream continues; from the smallest offset, if its position is
   beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, QueueBounds, Reason
from sprocketmq.spark.offsets import Offsets, QueueRange, StreamOffset
from sprocketmq.spark.options.bound import Bound
from sprocketmq.spark.read.trigger_limits import ByteLimit, limited_end
from sprocketmq.wire.records.message import MessageQueue


@dataclass(frozen=True)
class BrokerOffsets:
    """What the brokers answered. ``by_time`` lacks queues without a message that young; ``committed`` those without a committed offset."""

    bounds: Mapping[MessageQueue, QueueBounds]
    by_time: Offsets = field(default_factory=dict)
    committed: Offsets = field(default_factory=dict)


@dataclass(frozen=True)
class BatchPlan:
    """The end of the next batch, what was lost, and how many messages are available."""

    end: StreamOffset
    losses: tuple[Loss, ...] = ()
    available: int = 0


def resolve_start(
    bound: Bound,
    facts: BrokerOffsets,
    *,
    fallback: Literal["earliest", "latest", "error"] = "earliest",
    strategy: Literal["error", "latest"] = "error",
) -> dict[MessageQueue, int]:
    """The first offset of every queue that exists now. A retry topic starts at the group's committed offset, otherwise at its smallest
    one, whatever ``bound`` says. Raises ConfigurationError (no message is that young, a queue has no committed offset, or a queue is
    named that does not exist)."""
    _check_all_exist(bound, facts)
    start = {}
    for queue, bounds in facts.bounds.items():
        if queue.topic.startswith(RETRY_PREFIX):
            start[queue] = facts.committed.get(queue, bounds.min)
        else:
            start[queue] = _start_of(queue, bounds, bound, facts, fallback, strategy)
    return start


def _start_of(
    queue: MessageQueue, bounds: QueueBounds, bound: Bound, facts: BrokerOffsets, fallback: str, strategy: str
) -> int:
    if bound.kind == "latest":
        return bounds.max
    time_ms = bound.times_ms([queue]).get(queue)
    if time_ms is not None:
        if queue in facts.by_time:
            return facts.by_time[queue]
        if strategy == "error" and bounds.min < bounds.max:  # in an empty queue nothing is skipped
            raise ConfigurationError(
                f"{bound.option or 'startingTimestamp'} is {time_ms}, and {queue} holds no message that young; "
                "set startingOffsetsByTimestampStrategy to latest to start at its end"
            )
        return bounds.max
    if bound.kind == "group":
        if queue in facts.committed:
            return facts.committed[queue]
        if fallback == "error":
            raise ConfigurationError(
                f"startingOffsets is 'group', and the group has committed nothing for {queue}; "
                "set groupOffsetsFallback to earliest or latest"
            )
        return bounds.min if fallback == "earliest" else bounds.max
    named = bound.offsets.get(queue, -2) if bound.kind == "offsets" else -2
    return bounds.min if named == -2 else bounds.max if named == -1 else named


def resolve_end(bound: Bound, facts: BrokerOffsets) -> dict[MessageQueue, int]:
    """The end (exclusive) of every queue in a batch read. Raises ConfigurationError (a queue is named that does not exist)."""
    _check_all_exist(bound, facts)
    end = {}
    for queue, bounds in facts.bounds.items():
        wanted = -1
        if bound.times_ms([queue]):
            wanted = facts.by_time.get(queue, -1)
        elif bound.kind == "offsets":
            wanted = bound.offsets.get(queue, -1)
        end[queue] = bounds.max if wanted == -1 else min(wanted, bounds.max)
    return end


def resolve_batch(
    start: Offsets, end: Offsets, bounds: Mapping[MessageQueue, QueueBounds]
) -> tuple[list[QueueRange], list[Loss]]:
    """The ranges of a batch read, and the losses that they leave out. Raises ConfigurationError (a start is after its end)."""
    ranges, losses = [], []
    for queue in sorted(start):
        first, upto, held = start[queue], end[queue], bounds[queue]
        if not held.min <= first <= held.max:
            losses.append(_lost(queue, first, held, upto))
            first = held.min
        elif first > upto:
            raise ConfigurationError(
                f"the read of {queue} would start at {first} and end at {upto}; give endingOffsets at or after startingOffsets"
            )
        if first < upto:
            ranges.append(QueueRange(queue, first, upto))
    return ranges, losses


def _lost(queue: MessageQueue, wanted: int, held: QueueBounds, upto: int | None = None) -> Loss:
    if wanted > held.max:
        return Loss(queue, wanted, None, "went back", held)
    return Loss(queue, wanted, held.min if upto is None else max(wanted, min(held.min, upto)), "deleted", held)


def plan_batch(
    start: StreamOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
    *,
    limit: int | None = None,
    byte_limit: ByteLimit | None = None,
    target: Mapping[MessageQueue, QueueBounds] | None = None,
    gone: Mapping[MessageQueue, Reason] | None = None,
    known: Offsets | None = None,
    starts: Offsets | None = None,
    first: bool = False,
) -> BatchPlan:
    """The batch that begins at ``start`` (already resolved), with about ``limit`` messages (None: no limit). A queue missing in ``bounds``
    keeps its position. ``target``: where an AvailableNow run ends; queues outside of it do not advance. ``known``: next offsets that
    were seen before, to detect queues that went back. ``starts``: where new queues begin; others begin at their smallest offset.
    ``first``: of the query; it must be written to the offset log even if there is nothing to read yet."""
    planner = _BatchPlanner(start, dict(start.queues) if first else {}, target, known or {}, starts or {})
    for queue, reason in sorted((gone or {}).items()):
        planner.remove_queue(queue, reason)
    for queue, held in sorted(bounds.items()):
        if not gone or queue not in gone:
            planner.add_queue(queue, held)
    end = limited_end(planner.positions, planner.head, limit, byte_limit)
    if not first and end == start.queues and not planner.losses:
        return BatchPlan(start)
    available = sum(planner.head[queue] - planner.positions[queue] for queue in planner.head)
    losses = tuple(planner.losses)
    return BatchPlan(
        StreamOffset(queues=end, origin=planner.origin, lost=losses, new_queue_start=start.new_queue_start),
        losses,
        available,
    )


class _BatchPlanner:
    def __init__(
        self,
        start: StreamOffset,
        origin: dict[MessageQueue, int],
        target: Mapping[MessageQueue, QueueBounds] | None,
        known: Offsets,
        starts: Offsets,
    ) -> None:
        self.positions, self.head, self.origin = dict(start.queues), dict(start.queues), origin
        self.losses: list[Loss] = []
        self._target, self._known, self._starts = target, known, starts

    def remove_queue(self, queue: MessageQueue, reason: Reason) -> None:
        position = self.positions.pop(queue, None)
        self.head.pop(queue, None)
        self.origin.pop(queue, None)
        aim = self._target.get(queue) if self._target is not None else None
        if position is None and aim is not None:
            position = aim.min
        if position is not None:
            head = max(self._known.get(queue, -1), aim.max if aim is not None else -1)
            self.losses.append(Loss(queue, position, None if head < 0 else max(position, head), reason))

    def add_queue(self, queue: MessageQueue, held: QueueBounds) -> None:
        position = self.positions.get(queue)
        upto = held.max
        if self._target is not None:
            aim = self._target.get(queue)
            upto = min(upto, aim.max if aim is not None else position or 0)
        at = self._starts.get(queue, held.min) if position is None else position
        if not held.min <= at <= held.max:
            self.losses.append(_lost(queue, at, held))
            self.positions[queue] = self.origin[queue] = held.min
            self.head[queue] = max(held.min, upto)
        elif position is None:
            if at < upto:
                self.positions[queue] = self.origin[queue] = at
                self.head[queue] = upto
        else:
            if held.max < self._known.get(queue, 0):
                self.losses.append(Loss(queue, held.max, self._known[queue], "went back", held))
            self.head[queue] = max(at, upto)


def unread_queues(position: StreamOffset, target: Mapping[MessageQueue, QueueBounds]) -> list[MessageQueue]:
    """The queues that an AvailableNow run still has to read, or whose brokers have not answered (5)."""
    short = [queue for queue, aim in target.items() if position.queues.get(queue, aim.min) < aim.max]
    unanswered = [queue for queue in position.queues if queue not in target]
    return sorted(short + unanswered)


def _check_all_exist(bound: Bound, facts: BrokerOffsets) -> None:
    missing = sorted(queue for queue in bound.offsets if queue not in facts.bounds)
    if missing:
        raise ConfigurationError(
            f"{bound.option or 'startingOffsets'} names {missing[0]}, which does not exist; known are {_names(facts.bounds)}"
        )


def _names(queues: Iterable[MessageQueue]) -> str:
    names = [str(queue) for queue in sorted(queues)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "none"

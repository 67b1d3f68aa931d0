"""Which messages a batch reads: start and end resolution, limits per trigger, data loss. Pure: facts come in, ranges go out.

Facts are what the brokers answered: ``QueueBounds`` per queue (the smallest and the next offset), offsets found by time, offsets that a
group has committed. Kafka's source is the model for the limits, so that people find what they know.

Laws (checked in tests/unit/spark/test_plan.py)
1. A stream's position in a queue never goes back, but when data was lost and the user allowed that (``failOnDataLoss=false``).
2. Consecutive batches meet: no offset between them is skipped, none is read twice.
3. Under a limit, every queue with a backlog moves on by at least one message: a small queue is never starved by a large one.
4. Nothing to do means the very same offset (Spark compares text).
5. A queue that is not there now keeps its position: a broker that restarts is no data loss. A new queue starts at its smallest offset.
6. AvailableNow: never beyond the target, and the target is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import QueueRange, StreamOffset
from sprocketmq.spark.options import Bound
from sprocketmq.wire.message import MessageQueue

__all__ = [
    "RETRY_PREFIX",
    "Loss",
    "QueueBounds",
    "Step",
    "limited_end",
    "next_step",
    "resolve_batch",
    "resolve_start",
    "should_wait",
]

RETRY_PREFIX: Final = "%RETRY%"

Offsets = Mapping[MessageQueue, int]


@dataclass(frozen=True)
class QueueBounds:
    """What a broker holds of one queue: offsets ``min`` (inclusive) to ``max`` (exclusive)."""

    min: int
    max: int


@dataclass(frozen=True)
class Loss:
    """Messages that a read should have seen and cannot: deleted by retention, or gone with a topic that was made anew."""

    queue: MessageQueue
    wanted: int
    bounds: QueueBounds

    @property
    def count(self) -> int | None:
        """How many are gone; None when the queue was made anew, where nobody can know."""
        return self.bounds.min - self.wanted if self.wanted < self.bounds.min else None

    def __str__(self) -> str:
        held = f"the broker holds {self.bounds.min} to {self.bounds.max}"
        if self.count is None:
            return (
                f"{self.queue}: offset {self.wanted} is beyond the end, {held} (was the topic deleted and made anew?)"
            )
        return f"{self.queue}: offsets {self.wanted} to {self.bounds.min} ({self.count} messages) are deleted, {held}"


@dataclass(frozen=True)
class Facts:
    """What the brokers said that a start or end may depend on. ``by_time`` lacks a queue that has no message at or after the time;
    ``committed`` lacks a queue that the group has never committed."""

    bounds: Mapping[MessageQueue, QueueBounds]
    by_time: Offsets = field(default_factory=dict)
    committed: Offsets = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """The end of the next batch, what was lost on the way there, and how many messages (at most) the batch holds."""

    end: StreamOffset
    losses: tuple[Loss, ...] = ()
    count: int = 0


def resolve_start(
    bound: Bound,
    facts: Facts,
    *,
    fallback: Literal["earliest", "latest", "error"] = "earliest",
    strategy: Literal["error", "latest"] = "error",
) -> dict[MessageQueue, int]:
    """The first offset of every queue that exists now.

    A retry topic starts where its group left it, else at its beginning, whatever ``bound`` says: its messages have been asked for.

    Raises:
        ConfigurationError: by time, no message is as young as that (``strategy`` error); by group, a queue has no committed offset
            (``fallback`` error); a queue is named that does not exist.
    """
    missing = sorted(queue for queue in bound.offsets if queue not in facts.bounds)
    if missing:
        raise ConfigurationError(
            f"startingOffsets names {missing[0]}, which does not exist; known are {_names(facts.bounds)}"
        )
    start = {}
    for queue, bounds in facts.bounds.items():
        if queue.topic.startswith(RETRY_PREFIX):
            start[queue] = facts.committed.get(queue, bounds.min)
        else:
            start[queue] = _start_of(queue, bounds, bound, facts, fallback, strategy)
    return start


def _start_of(
    queue: MessageQueue, bounds: QueueBounds, bound: Bound, facts: Facts, fallback: str, strategy: str
) -> int:
    if bound.kind == "latest":
        return bounds.max
    if bound.kind == "timestamp":
        if queue in facts.by_time:
            return facts.by_time[queue]
        if strategy == "error":
            raise ConfigurationError(
                f"startingTimestamp is {bound.timestamp_ms}, and {queue} holds no message that young; "
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
    named = bound.offsets.get(queue, -2)  # "offsets"; every other kind is "earliest" and names no queue
    return bounds.min if named == -2 else bounds.max if named == -1 else named


def resolve_end(bound: Bound, facts: Facts) -> dict[MessageQueue, int]:
    """The end (exclusive) of every queue in a batch read. An end beyond what the broker holds is cut down to that."""
    end = {}
    for queue, bounds in facts.bounds.items():
        wanted = -1
        if bound.kind == "timestamp":
            wanted = facts.by_time.get(queue, -1)
        elif bound.kind == "offsets":
            wanted = bound.offsets.get(queue, -1)
        end[queue] = bounds.max if wanted == -1 else min(wanted, bounds.max)
    return end


def resolve_batch(
    start: Offsets, end: Offsets, bounds: Mapping[MessageQueue, QueueBounds]
) -> tuple[list[QueueRange], list[Loss]]:
    """The ranges of a batch read, and what of them is gone already (the ranges leave that out).

    Raises:
        ConfigurationError: a start lies behind its end.
    """
    ranges, losses = [], []
    for queue in sorted(start):
        first, upto, held = start[queue], end[queue], bounds[queue]
        if first < held.min or first > held.max:
            losses.append(Loss(queue, first, held))
            first = held.min
        elif first > upto:
            raise ConfigurationError(
                f"the read of {queue} would start at {first} and end at {upto}; give endingOffsets at or after startingOffsets"
            )
        if first < upto:
            ranges.append(QueueRange(queue, first, upto))
    return ranges, losses


def limited_end(start: Offsets, head: Offsets, limit: int | None) -> dict[MessageQueue, int]:
    """Where each queue stops when the batch may hold about ``limit`` messages: its share of the backlog, but at least one (law 3)."""
    backlog = {queue: head[queue] - start[queue] for queue in head if head[queue] > start[queue]}
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return dict(head)
    end = dict(head)
    spare, rest = max(0, limit - len(backlog)), max(1, total - len(backlog))  # when each has got its one
    for queue, size in backlog.items():
        end[queue] = start[queue] + 1 + spare * (size - 1) // rest
    return end


def next_step(
    start: StreamOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
    *,
    limit: int | None = None,
    target: Offsets | None = None,
    first: bool = False,
) -> Step:
    """The end of the batch that begins at ``start`` (already resolved).

    Args:
        bounds: what the brokers hold now; a queue that is missing keeps its position (law 5).
        limit: about how many messages the batch may hold; None for all.
        target: AvailableNow's target; queues outside it do not move.
        first: this is the first batch, whose origin must be journaled even if there is nothing to read yet.
    """
    positions = dict(start.queues)
    origin: dict[MessageQueue, int] = dict(positions) if first else {}
    head: dict[MessageQueue, int] = dict(positions)
    losses = []
    for queue, held in sorted(bounds.items()):
        upto = held.max if target is None else min(held.max, target.get(queue, positions.get(queue, 0)))
        position = positions.get(queue)
        if position is None:
            if held.min < upto:
                positions[queue] = origin[queue] = held.min
                head[queue] = upto
        elif position < held.min or position > held.max:
            losses.append(Loss(queue, position, held))
            positions[queue] = origin[queue] = held.min
            head[queue] = max(held.min, upto)
        else:
            head[queue] = max(position, upto)
    end = limited_end(positions, head, limit)
    count = sum(end[queue] - positions[queue] for queue in end)
    if not first and end == start.queues and not losses:
        return Step(start)
    return Step(StreamOffset(queues=end, origin=origin), tuple(losses), count)


def should_wait(available: int, least: int | None, waited_ms: int, max_delay_ms: int) -> bool:
    """True while a trigger is to be skipped because fewer than ``least`` messages wait and the longest delay is not over."""
    return least is not None and available < least and waited_ms < max_delay_ms


def _names(queues: Iterable[MessageQueue]) -> str:
    names = [str(queue) for queue in sorted(queues)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "none"

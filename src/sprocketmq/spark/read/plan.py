"""Which messages a batch reads: start and end resolution, the next step of a stream, data loss. Pure: facts come in, ranges go out.

Facts are what the brokers answered: ``QueueBounds`` per queue (the smallest and the next offset), offsets found by time, offsets that a
group has committed. Kafka's source is the model for the limits (``trigger_limits``), so that people find what they know.

Laws (checked in tests/unit/spark/test_plan.py)
1. A stream's position in a queue never goes back, but when data was lost and the user allowed that (``failOnDataLoss=false``).
2. Consecutive batches meet: no offset between them is skipped, none is read twice, but for what a step names as lost.
3. Under a limit, every queue with a backlog moves on by at least one message: a small queue is never starved by a large one.
4. Nothing to do means the very same offset (Spark compares text).
5. A queue that is not there now keeps its position: a broker that restarts is no data loss. A new queue starts at its smallest offset, or
   where the rule of the query's start says (``late_start``).
   A broker without a master is not there: a replica may be behind, and says nothing about ends or losses.
6. AvailableNow: never beyond the target; a run is over (``unfinished``) when each queue of the target, and each queue that the stream had
   before, is read up to it, or is named as lost.
7. A queue that its broker says is gone leaves the stream, named as lost up to the last head that was seen; should it come back, it is new.
   A queue whose head goes back loses what was known beyond, and is read on; from its beginning, if its position is beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sprocketmq.core.retry.retry_schedule import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, QueueBounds, Reason
from sprocketmq.spark.offsets import QueueRange, StreamOffset
from sprocketmq.spark.options.bound import Bound
from sprocketmq.spark.read.trigger_limits import ByteLimit, limited_end
from sprocketmq.wire.records.message import MessageQueue

__all__ = [
    "Facts",
    "QueueBounds",
    "Step",
    "next_step",
    "resolve_batch",
    "resolve_end",
    "resolve_start",
    "unfinished",
]


Offsets = Mapping[MessageQueue, int]


@dataclass(frozen=True)
class Facts:
    """What the brokers said that a start or end may depend on. ``by_time`` lacks a queue that has no message at or after the time;
    ``committed`` lacks a queue that the group has never committed."""

    bounds: Mapping[MessageQueue, QueueBounds]
    by_time: Offsets = field(default_factory=dict)
    committed: Offsets = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """The end of the next batch, what was lost on the way there, how many messages (at most) the batch holds, and how many wait in all."""

    end: StreamOffset
    losses: tuple[Loss, ...] = ()
    count: int = 0
    available: int = 0


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
    _all_exist(bound, facts)
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


def resolve_end(bound: Bound, facts: Facts) -> dict[MessageQueue, int]:
    """The end (exclusive) of every queue in a batch read. An end beyond what the broker holds is cut down to that.

    Raises:
        ConfigurationError: a queue is named that does not exist.
    """
    _all_exist(bound, facts)
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
    """The ranges of a batch read, and what of them is gone already (the ranges leave that out).

    Raises:
        ConfigurationError: a start lies behind its end.
    """
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


def next_step(
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
) -> Step:
    """The end of the batch that begins at ``start`` (already resolved).

    Args:
        bounds: what the brokers hold now; a queue that is missing keeps its position (law 5).
        limit: about how many messages the batch may hold; None for all. ``byte_limit``: the same in bytes.
        target: what AvailableNow found when it began; queues outside it do not move.
        gone: queues that their brokers say they do not have any more, and what is gone (law 7).
        known: the heads that were seen before; a head below is one that went back.
        starts: where queues begin that are new to the stream; the others of them at their smallest offset.
        first: this is the first batch, whose origin must be journaled even if there is nothing to read yet.
    """
    walk = _Walk(start, dict(start.queues) if first else {}, target, known or {}, starts or {})
    for queue, reason in sorted((gone or {}).items()):
        walk.leave(queue, reason)
    for queue, held in sorted(bounds.items()):
        if not gone or queue not in gone:
            walk.meet(queue, held)
    end = limited_end(walk.positions, walk.head, limit, byte_limit)
    if not first and end == start.queues and not walk.losses:
        return Step(start)
    count = sum(end[queue] - walk.positions[queue] for queue in end)
    available = sum(walk.head[queue] - walk.positions[queue] for queue in walk.head)
    losses = tuple(walk.losses)
    return Step(StreamOffset(queues=end, origin=walk.origin, lost=losses, late=start.late), losses, count, available)


class _Walk:
    """One look at every queue: where reading goes on, how far it could go, what is lost."""

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

    def leave(self, queue: MessageQueue, reason: Reason) -> None:
        position = self.positions.pop(queue, None)
        self.head.pop(queue, None)
        self.origin.pop(queue, None)
        aim = self._target.get(queue) if self._target is not None else None
        if position is None and aim is not None:
            position = aim.min
        if position is not None:
            head = max(self._known.get(queue, -1), aim.max if aim is not None else -1)
            self.losses.append(Loss(queue, position, None if head < 0 else max(position, head), reason))

    def meet(self, queue: MessageQueue, held: QueueBounds) -> None:
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


def unfinished(position: StreamOffset, target: Mapping[MessageQueue, QueueBounds]) -> list[MessageQueue]:
    """The queues that an AvailableNow run has still to read, or to hear of (law 6)."""
    short = [queue for queue, aim in target.items() if position.queues.get(queue, aim.min) < aim.max]
    unheard = [queue for queue in position.queues if queue not in target]
    return sorted(short + unheard)


def _all_exist(bound: Bound, facts: Facts) -> None:
    missing = sorted(queue for queue in bound.offsets if queue not in facts.bounds)
    if missing:
        raise ConfigurationError(
            f"{bound.option or 'startingOffsets'} names {missing[0]}, which does not exist; known are {_names(facts.bounds)}"
        )


def _names(queues: Iterable[MessageQueue]) -> str:
    names = [str(queue) for queue in sorted(queues)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "none"

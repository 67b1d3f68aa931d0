"""Messages that a read should have seen and cannot: which, why, and how many. Pure.

Five ways to lose messages that wait in a queue, and what each leaves to be known:

| reason | seen as | missing |
|---|---|---|
| deleted by retention | the wanted offset is below the smallest one | exactly the offsets between |
| went back (topic made anew, log lost) | the wanted offset is beyond the next one | a task knows: the rest of its range |
| topic gone, queue gone | its broker is there and knows it no more | from the wanted one to the last head that was seen |
| broker retired | the user said so; it fails no query | the same |

A broker that does not answer is none of them: its queues keep their position (``plan``, law 5).

Laws (tests/unit/spark/test_losses.py)
1. Merging never counts an offset of a queue twice, in whatever order and however often losses come: tasks are run again.
2. Merging forgets no offset.
3. A loss comes back from its journal as it went in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from sprocketmq.errors import RocketMQError
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["DataLoss", "Loss", "QueueBounds", "Reason", "counted", "losses_from_json", "losses_to_json", "merged"]

Reason = Literal["deleted", "went back", "topic gone", "queue gone", "broker retired"]

_WHY: Final[dict[Reason, str]] = {
    "deleted": "deleted by retention",
    "went back": "the offsets went back: was the topic deleted and made anew, or did the broker lose its log?",
    "topic gone": "the topic is gone from the broker",
    "queue gone": "the queue is gone from the topic",
    "broker retired": "its broker is one of retiredBrokers",
}


class DataLoss(RocketMQError):
    """Messages that the read should have seen are gone, and ``failOnDataLoss`` is true (its default)."""


@dataclass(frozen=True)
class QueueBounds:
    """What a broker holds of one queue: offsets ``min`` (inclusive) to ``max`` (exclusive).

    Its master said so: nobody else is asked. ``newest_ms``: when the broker stored the last message, 0 for never.
    ``min_is_sure``: not so at 4.x brokers (``offset_search.first_held``).
    """

    min: int
    max: int
    newest_ms: int = field(default=0, compare=False)
    min_is_sure: bool = field(default=True, compare=False)


@dataclass(frozen=True, order=True)
class Loss:
    """Offsets ``start`` (inclusive) to ``end`` (exclusive, None: nobody knows) of ``queue`` that cannot be read any more.

    ``held`` is what the broker had instead; it takes no part in comparisons.
    """

    queue: MessageQueue
    start: int
    end: int | None
    reason: Reason
    held: QueueBounds | None = field(default=None, compare=False)

    @property
    def count(self) -> int | None:
        """How many offsets are missing; None where nobody knows."""
        return None if self.end is None else self.end - self.start

    def __str__(self) -> str:
        held = f", the broker holds {self.held.min} to {self.held.max}" if self.held is not None else ""
        if self.end is None:
            return f"{self.queue}: offset {self.start} is not there{held} ({_WHY[self.reason]})"
        if self.end == self.start:
            return f"{self.queue}: from offset {self.start} on, nothing unread was known ({_WHY[self.reason]})"
        return f"{self.queue}: offsets {self.start} to {self.end} ({self.count} messages) are missing{held} ({_WHY[self.reason]})"


def merged(losses: Iterable[Loss]) -> list[Loss]:
    """``losses`` in order, those of a queue and reason that touch made one (laws 1 and 2)."""
    found: list[Loss] = []
    for loss in sorted(losses, key=lambda one: (one.queue, one.reason, one.start)):
        last = found[-1] if found else None
        if last is None or (last.queue, last.reason) != (loss.queue, loss.reason) or not _touch(last, loss):
            found.append(loss)
            continue
        end = None if last.end is None or loss.end is None else max(last.end, loss.end)
        found[-1] = Loss(last.queue, last.start, end, last.reason, loss.held or last.held)
    return found


def _touch(first: Loss, second: Loss) -> bool:
    return first.end is None or second.start <= first.end


def counted(losses: Iterable[Loss]) -> dict[MessageQueue, int]:
    """How many messages of each queue are known to be missing; a queue of which only that is known counts 0."""
    counts: dict[MessageQueue, int] = {}
    for loss in merged(losses):
        counts[loss.queue] = counts.get(loss.queue, 0) + (loss.count or 0)
    return counts


def losses_to_json(losses: Iterable[Loss]) -> dict[str, Any]:
    """``{topic: {broker: {queue: [[reason, start, end], ...]}}}``: what a batch's journal says of them."""
    nested: dict[str, Any] = {}
    for loss in sorted(losses, key=lambda one: (one.queue, one.reason, one.start)):
        queues = nested.setdefault(loss.queue.topic, {}).setdefault(loss.queue.broker_name, {})
        queues.setdefault(str(loss.queue.queue_id), []).append([loss.reason, loss.start, loss.end])
    return nested


def losses_from_json(nested: Mapping[str, Any]) -> tuple[Loss, ...]:
    """The losses of a journal; raises ValueError, TypeError or AttributeError for anything else."""
    found = []
    for topic, brokers in nested.items():
        for broker_name, queues in brokers.items():
            for queue_id, entries in queues.items():
                for reason, start, end in entries:
                    if reason not in get_args(Reason):
                        raise ValueError(f"{reason!r} is no reason for a loss")
                    found.append(Loss(MessageQueue(topic, broker_name, int(queue_id)), start, end, reason))
    return tuple(found)

# SPDX-License-Identifier: Apache-2.0
"""Messages that a read should have returned and that are gone: which, why, and how many (docs/spark/read.md). No I/O.

Missing are the offsets below the smallest one ("deleted"); what is beyond the next offset, for a task the rest of its range ("went back");
or all up to the last known end (topic or queue gone, or broker retired, which fails no query). Merging counts each offset of a queue once,
however often a loss is reported: tasks may run twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from sprocketmq.errors import RocketMQError
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

Reason = Literal["deleted", "went back", "topic gone", "queue gone", "broker retired"]

_WHY: Final[dict[Reason, str]] = {
    "deleted": "deleted by retention",
    "went back": "the offsets went back: was the topic deleted and created again, or did the broker lose its log?",
    "topic gone": "the topic is gone from the broker",
    "queue gone": "the queue is gone from the topic",
    "broker retired": "its broker is one of retiredBrokers",
}


class DataLoss(RocketMQError):
    """Messages that the read should have returned are gone, and ``failOnDataLoss`` is true (the default)."""


@dataclass(frozen=True)
class QueueBounds:
    """The offsets that a broker's master holds of one queue: ``min`` (inclusive) to ``max`` (exclusive). ``newest_ms``: when the
    broker stored the last message; 0 if there is none, None if it is not known (behind a proxy). ``min_is_sure``: False for 4.x
    brokers, whose smallest offset may be too small (``offset_search.real_min_offsets``)."""

    min: int
    max: int
    newest_ms: int | None = field(default=0, compare=False)
    min_is_sure: bool = field(default=True, compare=False)


@dataclass(frozen=True, order=True)
class Loss:
    """Offsets ``start`` (inclusive) to ``end`` (exclusive; None if unknown) of ``queue`` that can no longer be read. ``held``: what the
    broker holds instead, ignored in comparisons."""

    queue: MessageQueue
    start: int
    end: int | None
    reason: Reason
    held: QueueBounds | None = field(default=None, compare=False)

    @property
    def count(self) -> int | None:
        """How many offsets are missing; None if unknown."""
        return None if self.end is None else self.end - self.start

    def __str__(self) -> str:
        held = f", the broker holds {self.held.min} to {self.held.max}" if self.held is not None else ""
        if self.end is None:
            return f"{self.queue}: offset {self.start} is not there{held} ({_WHY[self.reason]})"
        if self.end == self.start:
            return f"{self.queue}: from offset {self.start} on, nothing unread was known ({_WHY[self.reason]})"
        return f"{self.queue}: offsets {self.start} to {self.end} ({self.count} messages) are missing{held} ({_WHY[self.reason]})"


def merge_losses(losses: Iterable[Loss]) -> list[Loss]:
    """``losses`` in order; overlapping and adjacent ones of the same queue and reason are joined."""
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


def lost_counts(losses: Iterable[Loss]) -> dict[MessageQueue, int]:
    """The number of missing messages of each queue; 0 if it is unknown."""
    counts: dict[MessageQueue, int] = {}
    for loss in merge_losses(losses):
        counts[loss.queue] = counts.get(loss.queue, 0) + (loss.count or 0)
    return counts


def report_losses(losses: Sequence[Loss], *, fail_on_data_loss: bool) -> None:
    """Log exactly what is missing. Raises DataLoss (there are losses, and ``fail_on_data_loss``)."""
    if not losses:
        return
    text = "; ".join(map(str, losses))
    if fail_on_data_loss:
        raise DataLoss(
            f"messages are gone before they were read: {text}; set failOnDataLoss to false to continue with the remaining ones"
        )
    log.warning("continuing without lost messages (failOnDataLoss is false): %s", text)


def losses_to_json(losses: Iterable[Loss]) -> dict[str, Any]:
    """``{topic: {broker: {queue: [[reason, start, end], ...]}}}``, as it is written to the offset log."""
    nested: dict[str, Any] = {}
    for loss in sorted(losses, key=lambda one: (one.queue, one.reason, one.start)):
        queues = nested.setdefault(loss.queue.topic, {}).setdefault(loss.queue.broker_name, {})
        queues.setdefault(str(loss.queue.queue_id), []).append([loss.reason, loss.start, loss.end])
    return nested


def losses_from_json(nested: Mapping[str, Any]) -> tuple[Loss, ...]:
    """The losses of an offset-log entry. Raises ValueError, TypeError or AttributeError if the JSON has another form."""
    found = []
    for topic, brokers in nested.items():
        for broker_name, queues in brokers.items():
            for queue_id, entries in queues.items():
                for reason, start, end in entries:
                    if reason not in get_args(Reason):
                        raise ValueError(f"{reason!r} is not a reason for a loss")
                    found.append(Loss(MessageQueue(topic, broker_name, int(queue_id)), start, end, reason))
    return tuple(found)

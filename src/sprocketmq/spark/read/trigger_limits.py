"""How much one micro-batch may hold: by messages, by bytes, and how long it may be put off. Pure.

Both limits are shared out by backlog, as Kafka's source does: every queue gets one message, the rest goes to the queues in proportion
to what else waits in them, rounded down. Bytes are known only roughly: brokers say offsets, not sizes. So a few messages of a queue are
looked at before they are planned (``MessageSizes``), and a queue that was not looked at is taken to be like its topic.

Laws (tests/unit/spark/test_trigger_limits.py)
1. A queue with a backlog moves on by at least one message: a small queue is never starved by a large one.
2. No queue goes beyond its head, and none goes back.
3. A batch holds at most ``limit`` messages and at most ``max_bytes`` bytes (by the sizes known), or one message of each queue.
4. Without a limit, or within it, everything that waits is taken.
5. A trigger is put off until ``max_delay_ms`` after the last one, at most; the first one of a run is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sprocketmq.wire.records.message import MessageQueue

__all__ = ["ASSUMED_BYTES", "ByteLimit", "MessageSizes", "TriggerDelay", "limited_end"]

Offsets = Mapping[MessageQueue, int]

# A message nobody has seen any like of.
ASSUMED_BYTES: Final = 1024.0
# How much a new look counts against all before it: what comes next is like what is there now.
_NEWEST: Final = 0.5


class MessageSizes:
    """Average bytes of a message, by queue, learnt from looks."""

    def __init__(self) -> None:
        self._average: dict[MessageQueue, float] = {}

    def learn(self, queue: MessageQueue, messages: int, total_bytes: int) -> None:
        """``messages`` of ``queue`` were seen, ``total_bytes`` together as the broker stores them."""
        if messages > 0 and total_bytes > 0:
            seen = total_bytes / messages
            known = self._average.get(queue, seen)
            self._average[queue] = known + _NEWEST * (seen - known)

    def known(self, queue: MessageQueue) -> bool:
        return queue in self._average

    def of(self, queue: MessageQueue) -> float:
        """The queue's own average, else its topic's, else that of all."""
        own = self._average.get(queue)
        if own is not None:
            return own
        alike = [size for other, size in self._average.items() if other.topic == queue.topic]
        alike = alike or list(self._average.values())
        return sum(alike) / len(alike) if alike else ASSUMED_BYTES


@dataclass(frozen=True)
class ByteLimit:
    """At most ``max_bytes`` in a batch, by the sizes that ``size_of`` says."""

    max_bytes: int
    size_of: Callable[[MessageQueue], float]


def limited_end(
    start: Offsets, head: Offsets, limit: int | None, byte_limit: ByteLimit | None = None
) -> dict[MessageQueue, int]:
    """Where each queue stops under both limits (laws 1 to 4); a queue of ``head`` that is not in ``start`` must not be."""
    end = _within_messages(start, head, limit)
    return end if byte_limit is None else _within_bytes(start, end, byte_limit)


def _within_messages(start: Offsets, head: Offsets, limit: int | None) -> dict[MessageQueue, int]:
    backlog = {queue: head[queue] - start[queue] for queue in head if head[queue] > start[queue]}
    total = sum(backlog.values())
    end = dict(head)
    if limit is None or total <= limit:
        return end
    spare, rest = max(0, limit - len(backlog)), max(1, total - len(backlog))  # when each has got its one
    for queue, size in backlog.items():
        end[queue] = start[queue] + 1 + spare * (size - 1) // rest
    return end


def _within_bytes(start: Offsets, head: Offsets, limit: ByteLimit) -> dict[MessageQueue, int]:
    backlog = {queue: head[queue] - start[queue] for queue in head if head[queue] > start[queue]}
    size = {queue: max(1.0, limit.size_of(queue)) for queue in backlog}
    total = sum(backlog[queue] * size[queue] for queue in backlog)
    end = dict(head)
    if total <= limit.max_bytes:
        return end
    first = sum(size.values())
    share = max(0.0, limit.max_bytes - first) / max(1.0, total - first)
    for queue, count in backlog.items():
        end[queue] = start[queue] + min(count, 1 + int((count - 1) * share))
    return end


class TriggerDelay:
    """Whether a trigger is due under ``least`` messages and ``max_delay_ms`` (Java: KafkaMicroBatchStream.delayBatch)."""

    def __init__(self, least: int, max_delay_ms: int) -> None:
        self._least, self._max_delay_ms = least, max_delay_ms
        self._last_ms: int | None = None

    def is_due(self, available: int, now_ms: int) -> bool:
        """Asked at every look, when nothing waits, too: what is due counts as a trigger, as in Kafka's source."""
        due = self._last_ms is None or available >= self._least or now_ms - self._last_ms >= self._max_delay_ms
        if due:
            self.triggered(now_ms)
        return due

    def triggered(self, now_ms: int) -> None:
        """There is a trigger, for whatever reason: all shall be read, or something was lost."""
        self._last_ms = now_ms

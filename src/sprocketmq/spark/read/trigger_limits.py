# SPDX-License-Identifier: Apache-2.0
"""How much one micro-batch may hold, in messages and in bytes, and how long it may be postponed. No I/O.

Both limits are divided by backlog, as in Spark's Kafka source: every queue gets one message, the rest goes to the queues in proportion
to their unread messages. Of messages, what is lost by rounding is given out, too: otherwise a run whose limit divides all messages
evenly would end with a batch of a few rows. Brokers report offsets, not sizes, so some messages of a queue are sampled first
(``MessageSizes``). The first trigger of a run is not postponed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sprocketmq.spark.offsets import Offsets
from sprocketmq.wire.records.message import MessageQueue

# The size of a message as long as no sample is known.
ASSUMED_BYTES: Final = 1024.0
# The weight of a new sample against all before it.
_NEWEST: Final = 0.5


class MessageSizes:
    def __init__(self) -> None:
        self._average: dict[MessageQueue, float] = {}

    def learn(self, queue: MessageQueue, messages: int, total_bytes: int) -> None:
        if messages > 0 and total_bytes > 0:
            seen = total_bytes / messages
            known = self._average.get(queue, seen)
            self._average[queue] = known + _NEWEST * (seen - known)

    def of(self, queue: MessageQueue) -> float:
        """The average of the queue, otherwise of its topic, otherwise of all."""
        own = self._average.get(queue)
        if own is not None:
            return own
        alike = [size for other, size in self._average.items() if other.topic == queue.topic]
        alike = alike or list(self._average.values())
        return sum(alike) / len(alike) if alike else ASSUMED_BYTES


@dataclass(frozen=True)
class ByteLimit:
    max_bytes: int
    size_of: Callable[[MessageQueue], float]


def limited_end(
    start: Offsets, head: Offsets, limit: int | None, byte_limit: ByteLimit | None = None
) -> dict[MessageQueue, int]:
    """The end of each queue under both limits; each queue of ``head`` must be in ``start``."""
    end = _within_messages(start, head, limit)
    return end if byte_limit is None else _within_bytes(start, end, byte_limit)


def _within_messages(start: Offsets, head: Offsets, limit: int | None) -> dict[MessageQueue, int]:
    backlog = {queue: head[queue] - start[queue] for queue in head if head[queue] > start[queue]}
    total = sum(backlog.values())
    end = dict(head)
    if limit is None or total <= limit:
        return end
    spare, rest = max(0, limit - len(backlog)), max(1, total - len(backlog))  # after each queue got one message
    weight = given = 0
    for queue, size in backlog.items():
        weight += spare * (size - 1)
        end[queue] = start[queue] + 1 + weight // rest - given
        given = weight // rest
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
    """Whether a trigger is due, by ``least`` messages and ``max_delay_ms`` (Java: KafkaMicroBatchStream.delayBatch)."""

    def __init__(self, least: int, max_delay_ms: int) -> None:
        self._least, self._max_delay_ms = least, max_delay_ms
        self._last_ms: int | None = None

    def is_due(self, available: int, now_ms: int) -> bool:
        """If it is due, this counts as the last trigger. Called at each poll, also without messages, as in Kafka's source."""
        due = self._last_ms is None or available >= self._least or now_ms - self._last_ms >= self._max_delay_ms
        if due:
            self.triggered(now_ms)
        return due

    def triggered(self, now_ms: int) -> None:
        """Note a trigger for another reason: everything is to be read, or something was lost."""
        self._last_ms = now_ms

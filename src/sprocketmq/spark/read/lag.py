"""How far a stream is behind: in messages and in time, and what it lost; out of the offsets in its progress events. Pure.

Spark has no metrics for Python sources, but every progress event carries the end of the batch and what ``reportLatestOffset`` said just
before it ran (``HeadReport``)::

    {"v":1,"q":{topic:{broker:{queue:head}}},"behindMs":{topic:{broker:{queue:ms}}},"oldestUnreadMs":1700000000000,
     "begins":{topic:{broker:{queue:smallest}}}}

``behindMs``: the store time of the queue's last message less that of the first one that this batch leaves unread. Both are the broker's
clock, so a driver whose clock is wrong is not behind. Queues that are read to their head are left out, and cost nothing.

Laws (tests/unit/spark/test_lag.py)
1. A queue that is read to its head is 0 behind, in messages and in time.
2. What is lost is counted with the batch that leaves it out, once: an event without a batch of its own counts nothing.
3. Offsets of other sources are left alone.
4. A queue that the stream has not begun is as far behind as it holds messages, not as many as it ever had (``begins``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, counted
from sprocketmq.spark.offsets import VERSION, StreamOffset, queues_from_json, queues_to_json
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["HeadReport", "LagReport", "SourceLag", "source_lag"]


@dataclass(frozen=True)
class HeadReport:
    """What a stream knows of its queues when a batch begins; times in ms since 1970."""

    heads: Mapping[MessageQueue, int]
    oldest_unread_ms: Mapping[MessageQueue, int] = field(default_factory=dict)
    newest_ms: Mapping[MessageQueue, int] = field(default_factory=dict)
    begins: Mapping[MessageQueue, int] = field(default_factory=dict)  # of queues that the stream has no position in yet

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"v": VERSION, "q": queues_to_json(self.heads)}
        if self.oldest_unread_ms:
            behind = {
                queue: max(0, self.newest_ms.get(queue, 0) - oldest) for queue, oldest in self.oldest_unread_ms.items()
            }
            document["behindMs"] = queues_to_json(behind)
            document["oldestUnreadMs"] = min(self.oldest_unread_ms.values())
        if self.begins:
            document["begins"] = queues_to_json(self.begins)
        return document


@dataclass(frozen=True)
class SourceLag:
    """The lag of the rocketmq sources of one query."""

    by_queue: dict[MessageQueue, int] = field(default_factory=dict)
    ms_by_queue: dict[MessageQueue, int] = field(default_factory=dict)
    oldest_unread_ms: int | None = None
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True)
class LagReport:
    """Lag of one stream after one batch.

    Attributes:
        by_queue: how many messages each queue is behind its head.
        ms_by_queue: how far in time: the store time of its newest message less that of its oldest unread one; queues that are read to
            their head are not in it.
        oldest_unread_timestamp_ms: when the oldest message that waits was stored, ms since 1970; None when nothing waits.
        losses: what this batch left out because it was not there any more (``failOnDataLoss=false``): queue, start, end, reason.
    """

    query_id: str
    query_name: str | None
    batch_id: int
    input_rows: int
    by_queue: dict[MessageQueue, int]
    ms_by_queue: dict[MessageQueue, int] = field(default_factory=dict)
    oldest_unread_timestamp_ms: int | None = None
    losses: tuple[Loss, ...] = ()

    @property
    def total_offsets_behind_latest(self) -> int:
        return sum(self.by_queue.values())

    @property
    def max_offsets_behind_latest(self) -> int:
        return max(self.by_queue.values(), default=0)

    @property
    def min_offsets_behind_latest(self) -> int:
        return min(self.by_queue.values(), default=0)

    @property
    def avg_offsets_behind_latest(self) -> float:
        return self.total_offsets_behind_latest / len(self.by_queue) if self.by_queue else 0.0

    @property
    def max_ms_behind_latest(self) -> int:
        """The lag in time of the queue that is furthest behind, 0 when everything is read."""
        return max(self.ms_by_queue.values(), default=0)

    @property
    def lost_by_queue(self) -> dict[MessageQueue, int]:
        """Messages that this batch left out, by queue; 0 where nobody knows how many."""
        return counted(self.losses)


def source_lag(offsets: Iterable[tuple[str | None, str | None, str | None]]) -> SourceLag | None:
    """The lag of a query from the (start, end, latest) offsets of its sources; None when none of them is ours and says end and latest."""
    found: SourceLag | None = None
    for start_text, end_text, latest_text in offsets:
        end, latest = _offset(end_text), _offset(latest_text)
        if end is None or latest is None:
            continue
        document = json.loads(latest_text or "{}")
        begins = queues_from_json(document.get("begins", {}))
        by_queue = {
            queue: max(0, head - end.queues.get(queue, begins.get(queue, 0))) for queue, head in latest.queues.items()
        }
        oldest = document.get("oldestUnreadMs")
        found = found or SourceLag()
        found = SourceLag(
            {**found.by_queue, **by_queue},
            {**found.ms_by_queue, **queues_from_json(document.get("behindMs", {}))},
            oldest if found.oldest_unread_ms is None else min(found.oldest_unread_ms, oldest or found.oldest_unread_ms),
            found.losses + (end.lost if start_text != end_text else ()),
        )
    return found


def _offset(text: str | None) -> StreamOffset | None:
    try:
        document: Any = json.loads(text or "null")
        return StreamOffset.from_json(document) if isinstance(document, dict) else None
    except (ValueError, ConfigurationError, TypeError, AttributeError):
        return None  # another source's offset

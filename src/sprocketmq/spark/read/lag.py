# SPDX-License-Identifier: Apache-2.0
"""The lag of a stream, in messages and in time, and its losses; computed from the offsets in its progress events. No I/O.

Each progress event carries the end of the batch and what ``reportLatestOffset`` returned just before the batch ran::

    {"v":1,"q":{topic:{broker:{queue:latest}}},"behindMs":{topic:{broker:{queue:ms}}},"oldestUnreadMs":1700000000000,
     "begins":{topic:{broker:{queue:smallest}}}}

``behindMs`` is by store times of the broker; queues that are read to their end are left out. A queue that the stream has not begun to read
lags by the messages that it holds (``begins``). A queue that several sources of the query read is as late as in the last of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, lost_counts
from sprocketmq.spark.offsets import VERSION, StreamOffset, queues_from_json, queues_to_json
from sprocketmq.wire.records.message import MessageQueue


@dataclass(frozen=True)
class LatestOffsetReport:
    """What a stream knows of its queues when a batch begins; times in ms since 1970. ``earliest_offsets`` has the queues without a
    position only; queues that a topic does not let read any more are in both."""

    latest_offsets: Mapping[MessageQueue, int]
    oldest_unread_ms: Mapping[MessageQueue, int] = field(default_factory=dict)
    newest_ms: Mapping[MessageQueue, int] = field(default_factory=dict)
    earliest_offsets: Mapping[MessageQueue, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"v": VERSION, "q": queues_to_json(self.latest_offsets)}
        if self.oldest_unread_ms:
            behind = {
                queue: max(0, self.newest_ms.get(queue, 0) - oldest) for queue, oldest in self.oldest_unread_ms.items()
            }
            document["behindMs"] = queues_to_json(behind)
            document["oldestUnreadMs"] = min(self.oldest_unread_ms.values())
        if self.earliest_offsets:
            document["begins"] = queues_to_json(self.earliest_offsets)
        return document


@dataclass(frozen=True)
class SourceLag:
    by_queue: dict[MessageQueue, int] = field(default_factory=dict)
    ms_by_queue: dict[MessageQueue, int] = field(default_factory=dict)
    oldest_unread_ms: int | None = None
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True)
class LagReport:
    """The lag of one stream after one batch.

    Attributes:
        by_queue: how many messages of each queue are not read.
        ms_by_queue: the same in time: the store time of the newest message minus that of the oldest unread one; without queues that are
            read to their end.
        oldest_unread_timestamp_ms: when the oldest unread message was stored, ms since 1970; None if there is none.
        losses: what this batch left out because it was gone (``failOnDataLoss=false``): queue, start, end, reason.
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
        """The largest lag in time of a queue; 0 if everything is read."""
        return max(self.ms_by_queue.values(), default=0)

    @property
    def lost_by_queue(self) -> dict[MessageQueue, int]:
        """The number of messages that this batch left out, by queue; 0 if it is unknown."""
        return lost_counts(self.losses)


def source_lag(offsets: Iterable[tuple[str | None, str | None, str | None]]) -> SourceLag | None:
    """The lag of a query from the (start, end, latest) offsets of its sources; None if none is a rocketmq source with end and latest."""
    found: SourceLag | None = None
    for start_text, end_text, latest_text in offsets:
        end, latest = offset_of_event(end_text), offset_of_event(latest_text)
        if end is None or latest is None:
            continue
        document = json.loads(latest_text or "{}")
        earliest_offsets = queues_from_json(document.get("begins", {}))
        by_queue = {
            queue: max(0, head - end.queues.get(queue, earliest_offsets.get(queue, 0)))
            for queue, head in latest.queues.items()
        }
        oldest = document.get("oldestUnreadMs")
        found = found or SourceLag()
        found = SourceLag(
            _largest(found.by_queue, by_queue),
            _largest(found.ms_by_queue, queues_from_json(document.get("behindMs", {}))),
            oldest if found.oldest_unread_ms is None else min(found.oldest_unread_ms, oldest or found.oldest_unread_ms),
            found.losses + (end.lost if start_text != end_text else ()),
        )
    return found


def _largest(one: Mapping[MessageQueue, int], other: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    return {queue: max(one.get(queue, 0), other.get(queue, 0)) for queue in {**one, **other}}


def offset_of_event(text: str | None) -> StreamOffset | None:
    """None for another source's offset."""
    try:
        document: Any = json.loads(text or "null")
        return StreamOffset.from_json(document) if isinstance(document, dict) else None
    except (ValueError, ConfigurationError, TypeError, AttributeError):
        return None

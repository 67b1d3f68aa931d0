"""How far a stream is behind, from its own progress events: Spark has no metrics for Python sources, but the events carry offsets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.wire.message import MessageQueue

__all__ = ["LagReport", "RocketMQProgressListener", "lag_by_queue"]

log = logging.getLogger("sprocketmq.spark")


@dataclass(frozen=True)
class LagReport:
    """Lag of one stream after one batch, in messages. ``by_queue``: how far each queue is behind its head."""

    query_id: str
    query_name: str | None
    batch_id: int
    input_rows: int
    by_queue: dict[MessageQueue, int]

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


class RocketMQProgressListener(StreamingQueryListener):
    """Reports the lag of every rocketmq stream after each batch: ``spark.streams.addListener(RocketMQProgressListener(report))``.

    Args:
        report: called with a :class:`LagReport`, on Spark's listener thread; default writes a log line at INFO.
    """

    def __init__(self, report: Callable[[LagReport], object] | None = None) -> None:
        self._report = report or _log

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        by_queue = lag_by_queue((source.endOffset, source.latestOffset) for source in progress.sources)
        if by_queue is not None:
            self._report(LagReport(str(progress.id), progress.name, progress.batchId, progress.numInputRows, by_queue))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """An idle stream has read everything."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The last batch was reported already."""


def lag_by_queue(offsets: Iterable[tuple[str | None, str | None]]) -> dict[MessageQueue, int] | None:
    """Lag per queue from the (end, latest) offsets of a query's sources; None when none of them is ours or says both."""
    found: dict[MessageQueue, int] | None = None
    for end_text, latest_text in offsets:
        end, latest = _offset(end_text), _offset(latest_text)
        if end is None or latest is None:
            continue
        found = {} if found is None else found
        for queue, head in latest.queues.items():
            found[queue] = max(0, head - end.queues.get(queue, 0))
    return found


def _offset(text: str | None) -> StreamOffset | None:
    try:
        document: Any = json.loads(text or "null")
        return StreamOffset.from_json(document) if isinstance(document, dict) else None
    except (ValueError, ConfigurationError, TypeError, AttributeError):
        return None  # another source's offset


def _log(report: LagReport) -> None:
    log.info(
        "query %s batch %d: %d rows, %d messages behind (largest queue %d)",
        *(report.query_name or report.query_id, report.batch_id, report.input_rows),
        *(report.total_offsets_behind_latest, report.max_offsets_behind_latest),
    )

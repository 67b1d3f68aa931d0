# SPDX-License-Identifier: Apache-2.0
"""Reports the lag of every rocketmq stream of a session after each batch: to the log, to a callback, to Prometheus; and lets the progress
of a query that waits for its next trigger be committed (``batch_commits``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sprocketmq.core.callbacks import check_callback
from sprocketmq.spark.observe.batch_commits import BatchCommits
from sprocketmq.spark.read.lag import LagReport, source_lag

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from sprocketmq.spark.observe.progress_metrics import ProgressMetrics

log = logging.getLogger("sprocketmq.spark")


class RocketMQProgressListener(StreamingQueryListener):
    """Reports the lag of every rocketmq stream after each batch: ``spark.streams.addListener(RocketMQProgressListener())``. In a classic
    session it also commits the progress of a query that waits for its next trigger, a second after its batch, or that has ended
    (``commitOffsets=eager``).

    Args:
        report: called with a :class:`LagReport` on Spark's listener thread. The default logs the lag at INFO, and lost messages at WARNING.
        registry: a Prometheus registry, such as ``prometheus_client.REGISTRY``, that exports the lag until the query ends. Needs ``pip
            install 'sprocketmq[metrics]'``. The metrics: ``sprocketmq.spark.observe.progress_metrics``.

    Raises:
        ConfigurationError: ``report`` is no function of one LagReport.
    """

    def __init__(
        self, report: Callable[[LagReport], object] | None = None, *, registry: CollectorRegistry | None = None
    ) -> None:
        if report is not None:
            check_callback("report", report, "lag_report")
        self._report = report or _log
        self._commits = BatchCommits()
        self._metrics: ProgressMetrics | None = None
        if registry is not None:
            from sprocketmq.spark.observe.progress_metrics import ProgressMetrics

            self._metrics = ProgressMetrics()
            registry.register(self._metrics)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing to report yet, but now the query can be found for sure."""
        self._commits.started(str(event.id), str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        self._commits.finished(progress)
        lag = source_lag((source.startOffset, source.endOffset, source.latestOffset) for source in progress.sources)
        if lag is None:
            return
        report = LagReport(
            str(progress.id),
            progress.name,
            progress.batchId,
            progress.numInputRows,
            lag.by_queue,
            lag.ms_by_queue,
            lag.oldest_unread_ms,
            lag.losses,
        )
        if self._metrics is not None:
            self._metrics.take(report)
        self._report(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to report: an idle stream has read everything."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Remove the metrics of the query. Its last batch was reported before."""
        self._commits.terminated(str(event.runId))
        if self._metrics is not None:
            self._metrics.forget(str(event.id))


def _log(report: LagReport) -> None:
    name = report.query_name or report.query_id
    log.info(
        "query %s batch %d: %d rows, %d messages behind (largest queue %d), %d ms behind",
        *(name, report.batch_id, report.input_rows),
        *(report.total_offsets_behind_latest, report.max_offsets_behind_latest, report.max_ms_behind_latest),
    )
    if report.losses:
        log.warning("query %s batch %d left out: %s", name, report.batch_id, "; ".join(map(str, report.losses)))

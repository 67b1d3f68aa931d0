# SPDX-License-Identifier: Apache-2.0
"""The lag of streams as Prometheus metrics (docs/spark/operate.md); a scrape returns what the last batch of each query reported, and sends
no request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from sprocketmq.spark.read.lag import LagReport
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_QUEUE_LABELS: Final = ("query", "topic", "broker", "queue")


class ProgressMetrics:
    """Keeps the last report of each query and the counts since the query began. A collector of ``prometheus_client``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Spark's listener thread writes, a scrape reads
        self._last: dict[str, LagReport] = {}
        self._rows: Counter[str] = Counter()
        self._lost: Counter[tuple[str, MessageQueue]] = Counter()
        self._losses: Counter[tuple[str, MessageQueue]] = Counter()

    def take(self, report: LagReport) -> None:
        with self._lock:
            self._last[report.query_id] = report
            self._rows[report.query_id] += report.input_rows
            for queue, count in report.lost_by_queue.items():
                self._lost[report.query_id, queue] += count
                self._losses[report.query_id, queue] += sum(1 for loss in report.losses if loss.queue == queue)

    def forget(self, query_id: str) -> None:
        with self._lock:
            self._last.pop(query_id, None)
            self._rows.pop(query_id, None)
            for counter in (self._lost, self._losses):
                for key in [key for key in counter if key[0] == query_id]:
                    del counter[key]

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            reports, rows = dict(self._last), Counter(self._rows)
            lost, losses = Counter(self._lost), Counter(self._losses)
        behind = GaugeMetricFamily(
            "sprocketmq_spark_offsets_behind_latest",
            "Messages of a queue that its query has not read",
            labels=_QUEUE_LABELS,
        )
        behind_ms = GaugeMetricFamily(
            "sprocketmq_spark_ms_behind_latest",
            "How far behind its newest message a queue is read",
            labels=_QUEUE_LABELS,
        )
        oldest = GaugeMetricFamily(
            "sprocketmq_spark_oldest_unread_timestamp_ms",
            "When the oldest message that waits was stored",
            labels=("query",),
        )
        batch = GaugeMetricFamily("sprocketmq_spark_batch", "Number of the last batch", labels=("query",))
        read = CounterMetricFamily("sprocketmq_spark_rows", "Rows read", labels=("query",))
        names = {query_id: report.query_name or query_id for query_id, report in reports.items()}
        for query_id, report in reports.items():
            _by_queue(behind, names[query_id], report.by_queue)
            _by_queue(
                behind_ms, names[query_id], {queue: report.ms_by_queue.get(queue, 0) for queue in report.by_queue}
            )
            if report.oldest_unread_timestamp_ms is not None:
                oldest.add_metric([names[query_id]], report.oldest_unread_timestamp_ms)
            batch.add_metric([names[query_id]], report.batch_id)
            read.add_metric([names[query_id]], rows[query_id])
        gone = CounterMetricFamily(
            "sprocketmq_spark_lost_messages", "Messages left out because they were gone", labels=_QUEUE_LABELS
        )
        holes = CounterMetricFamily("sprocketmq_spark_losses", "How often something was left out", labels=_QUEUE_LABELS)
        for family, counts in ((gone, lost), (holes, losses)):
            for query_id, name in names.items():
                _by_queue(family, name, {queue: count for (owner, queue), count in counts.items() if owner == query_id})
        return [behind, behind_ms, oldest, batch, read, gone, holes]


def _by_queue(family: Metric, query: str, values: Mapping[MessageQueue, int]) -> None:
    for queue, value in sorted(values.items()):
        labels = dict(zip(_QUEUE_LABELS, (query, queue.topic, queue.broker_name, str(queue.queue_id)), strict=True))
        suffix = "_total" if family.type == "counter" else ""
        family.add_sample(family.name + suffix, labels, value)

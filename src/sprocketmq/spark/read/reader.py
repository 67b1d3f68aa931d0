# SPDX-License-Identifier: Apache-2.0
"""The batch reader, and ``read_partition``, by which both readers turn queue ranges into Arrow batches."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sprocketmq.client.consume.queue_reader import PulledChunk, QueueReader
from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import RemoteError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.cluster.task_process import prepare_task_process
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.spark.losses import Loss, QueueBounds, merge_losses, report_losses
from sprocketmq.spark.offsets import QueueRange
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.loss_accumulator import add_losses
from sprocketmq.spark.read.partitions import partitions_for, task_count
from sprocketmq.spark.read.plan import resolve_batch, resolve_end, resolve_start
from sprocketmq.spark.read.queue_bounds import gone_queues, hidden_queues, warn_of_hidden
from sprocketmq.spark.read.source_queues import check_sql92, fetch_offsets, source_queues, source_topics
from sprocketmq.wire.records.message import MessageQueue

# A batch ends at whichever comes first: large enough that the cost of a batch does not matter, small enough for an executor's memory.
_BATCH_BYTES: Final = 8 * 1024 * 1024
_BATCH_PULLS: Final = 512


class BatchReader(DataSourceReader):
    """``spark.read.format("rocketmq")``. Planned on the driver, read in tasks; holds no connection."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
        queues = source_queues(options, cluster, source_topics(options, cluster))
        check_sql92(options, cluster, queues)
        warn_of_hidden(hidden_queues(cluster, queues))
        start_facts = fetch_offsets(options, options.starting, cluster, queues)
        start = resolve_start(
            options.starting,
            start_facts,
            fallback=options.group_offsets_fallback,
            strategy=options.timestamp_strategy,
        )
        end = resolve_end(options.ending, fetch_offsets(options, options.ending, cluster, queues))
        ranges, losses = resolve_batch(start, end, start_facts.bounds)
        report_losses(losses, fail_on_data_loss=options.fail_on_data_loss)
        return partitions_for(ranges, task_count(ranges, options), options.ordered, tuple(losses))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)


def read_partition(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The messages of one task as batches of exactly the Arrow schema that Spark expects. For an empty batch Spark makes a partition
    without ranges. A retry topic is read without the filter, as by Java consumers. Raises DataLoss (a range is gone and
    ``failOnDataLoss`` is true), NetworkError, RequestTimeout, RemoteError (a broker cannot be read; Spark runs the task again)."""
    prepare_task_process()
    add_losses(options.loss_report, list(getattr(partition, "losses", ())))
    decoder = BatchDecoder(_arrow_schema(schema), options.tags)
    for expression, kind, part in _by_filter(options, getattr(partition, "ranges", ())):
        remaining = list(part)
        while remaining:
            ranges_pass = _RangesPass(options, remaining)
            yield from ranges_pass.batches(decoder, expression, kind)
            remaining = ranges_pass.remaining


class _RangesPass:
    """One pass over ranges: the messages read, the ranges that remain if a queue vanished meanwhile, and the losses."""

    def __init__(self, options: ReadOptions, ranges: Sequence[QueueRange]) -> None:
        self._options = options
        # The connections of this process are kept between tasks; otherwise each micro-batch would open new ones.
        self._cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
        self._ends = {entry.queue: entry.end for entry in ranges}
        self._next = {entry.queue: entry.start for entry in ranges}
        self._ranges = ranges
        self._lost: list[Loss] = []
        self.remaining: list[QueueRange] = []

    def batches(self, decoder: BatchDecoder, expression: str, kind: str) -> Iterator[pa.RecordBatch]:
        options = self._options
        reader = QueueReader(
            cluster=self._cluster,
            engine=self._cluster.engine,
            group=options.group,
            ranges=[(entry.queue, entry.start, entry.end) for entry in self._ranges],
            expression=expression,
            expression_type=kind,
            max_messages=options.pull_batch_size,
            pulls_in_flight=options.pull_pipelining,
            timeout_ms=options.pull_timeout_ms,
            retry_timeout_ms=options.retry_timeout_ms,
            on_offset_moved=self._on_offset_moved,
        )
        pulls: list[PulledChunk] = []
        size_bytes = 0
        failure: RemoteError | None = None
        with reader:
            chunks = iter(reader)
            while True:
                try:
                    chunk = next(chunks, None)
                except RemoteError as error:
                    failure, chunk = error, None
                if chunk is None:
                    break
                self._next[chunk.queue] = chunk.end
                pulls.append(chunk)
                size_bytes += len(chunk.body)
                if size_bytes >= _BATCH_BYTES or len(pulls) >= _BATCH_PULLS:
                    yield from decoder.decode(pulls)
                    pulls, size_bytes = [], 0
        if pulls:
            yield from decoder.decode(pulls)
        if failure is not None:
            self._drop_gone_queues(failure)
        if self._lost:
            losses = merge_losses(self._lost)
            report_losses(losses, fail_on_data_loss=options.fail_on_data_loss)
            add_losses(options.loss_report, losses)

    def _on_offset_moved(self, queue: MessageQueue, wanted: int, low: int, high: int) -> None:
        """Called for each part of a range that is gone; the parts may overlap, ``merge_losses`` joins them."""
        held, end = QueueBounds(low, high), self._ends[queue]
        if wanted < low:
            loss = Loss(queue, wanted, min(low, end), "deleted", held)
        else:
            loss = Loss(queue, wanted, end, "went back", held)
        self._lost.append(loss)
        if self._options.fail_on_data_loss:
            report_losses([loss], fail_on_data_loss=True)

    def _drop_gone_queues(self, failure: RemoteError) -> None:
        """After a queue or topic vanished: its remaining messages are lost, the other ranges are read."""
        rest = [QueueRange(queue, at, self._ends[queue]) for queue, at in self._next.items() if at < self._ends[queue]]
        gone = gone_queues(self._cluster, (entry.queue for entry in rest), self._options.group)
        if not gone:
            raise failure
        self._lost += [
            Loss(entry.queue, entry.start, entry.end, gone[entry.queue]) for entry in rest if entry.queue in gone
        ]
        self.remaining = [entry for entry in rest if entry.queue not in gone]


def _by_filter(options: ReadOptions, ranges: Sequence[QueueRange]) -> Iterator[tuple[str, str, list[QueueRange]]]:
    retry = [entry for entry in ranges if entry.queue.topic.startswith(RETRY_PREFIX)]
    normal = [entry for entry in ranges if not entry.queue.topic.startswith(RETRY_PREFIX)]
    if normal:
        yield options.expression, options.expression_type, normal
    if retry:
        yield "*", "TAG", retry


def _arrow_schema(schema: StructType) -> Any:
    # Before PySpark 4.2 there is no such argument, and times are in UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)

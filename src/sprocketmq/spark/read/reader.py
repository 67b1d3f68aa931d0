# SPDX-License-Identifier: Apache-2.0
"""The batch reader, and ``read_partition``, by which both readers turn queue ranges into Arrow batches."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sprocketmq.client.consume.queue_reader import QueueReader
from sprocketmq.client.dead_letters.dead_letters import DeadLetters
from sprocketmq.core.retry.retry_schedule import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.errors import RemoteError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.cluster.task_process import prepare_task_process
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.spark.columns.pull_body import PullBody
from sprocketmq.spark.losses import DataLoss, Loss, QueueBounds, merge_losses
from sprocketmq.spark.offsets import QueueRange
from sprocketmq.spark.options.bound import Bound
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.broker_poller import check_sql92, source_topics
from sprocketmq.spark.read.group_progress import committed_offsets
from sprocketmq.spark.read.loss_accumulator import add_losses
from sprocketmq.spark.read.offset_search import offsets_by_time, real_min_offsets
from sprocketmq.spark.read.partitions import split_ranges, task_count
from sprocketmq.spark.read.plan import BrokerOffsets, resolve_batch, resolve_end, resolve_start
from sprocketmq.spark.read.queue_bounds import gone_queues, hidden_queues, queue_bounds, warn_of_hidden
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

# A batch ends at whichever comes first: large enough that the cost of a batch does not matter, small enough for an executor's memory.
_BATCH_BYTES: Final = 8 * 1024 * 1024
_BATCH_PULLS: Final = 512


class TaskPartition(InputPartition):
    """The ranges of one Spark task. The first task of a batch also carries the losses found by planning, and reports them."""

    def __init__(self, ranges: tuple[QueueRange, ...], losses: tuple[Loss, ...] = ()) -> None:
        super().__init__(ranges)
        self.ranges, self.losses = ranges, losses

    def __repr__(self) -> str:
        return f"TaskPartition({', '.join(map(str, self.ranges))})"


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
        report_losses(losses, options)
        return partitions_for(ranges, task_count(ranges, options), options.ordered, tuple(losses))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)


def source_queues(options: ReadOptions, cluster: Cluster, topics: Sequence[str]) -> list[MessageQueue]:
    """Raises TopicNotExist, GroupNotExist (of retries or dead letters without queues no broker knows the group)."""
    queues = cluster.queues(topics)
    for topic in topics if not queues else ():
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            group = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
            with DeadLetters(group, namesrv_addr=options.namesrv_addr, **options.access.client_options()) as letters:
                letters.count()
    return queues


def fetch_offsets(
    options: ReadOptions, bound: Bound, cluster: Cluster, queues: Sequence[MessageQueue]
) -> BrokerOffsets:
    bounds = queue_bounds(cluster, queues)
    if bound is options.starting:
        bounds = real_min_offsets(cluster, bounds, options.group)
    times_ms = bound.times_ms(queue for queue in bounds if not queue.topic.startswith(RETRY_PREFIX))
    by_time = offsets_by_time(cluster, bounds, times_ms, options.group) if times_ms else {}
    asked = [queue for queue in bounds if bound.kind == "group" or queue.topic.startswith(RETRY_PREFIX)]
    committed = committed_offsets(cluster, options.group, asked) if asked else {}
    if bound.kind == "group" and options.group_offsets_fallback != "error":
        fresh = [queue for queue in asked if queue not in committed and not queue.topic.startswith(RETRY_PREFIX)]
        if fresh:
            log.warning(
                "group %s has committed nothing for %d of %d queues, the first is %s; they are read from %s (groupOffsetsFallback)",
                *(options.group, len(fresh), len(asked), fresh[0], options.group_offsets_fallback),
            )
    return BrokerOffsets(bounds, by_time, committed)


def report_losses(losses: Sequence[Loss], options: ReadOptions) -> None:
    """Raise DataLoss, or log exactly what is missing. Raises DataLoss (there are losses and ``failOnDataLoss`` is true)."""
    if not losses:
        return
    text = "; ".join(map(str, losses))
    if options.fail_on_data_loss:
        raise DataLoss(
            f"messages are gone before they were read: {text}; set failOnDataLoss to false to continue with the remaining ones"
        )
    log.warning("continuing without lost messages (failOnDataLoss is false): %s", text)


def partitions_for(
    ranges: Sequence[QueueRange], tasks: int, ordered: bool, losses: tuple[Loss, ...] = ()
) -> list[InputPartition]:
    pieces = split_ranges(ranges, tasks, ordered=ordered)
    if losses and not pieces:
        pieces = [()]  # everything is lost: one task must report it
    return [TaskPartition(piece, losses if number == 0 else ()) for number, piece in enumerate(pieces)]


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
            task = _RangesPass(options, remaining)
            yield from task.batches(decoder, expression, kind)
            remaining = task.remaining


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
        pulls: list[PullBody] = []
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
                pulls.append(PullBody(chunk.queue, chunk.start, chunk.end, chunk.body))
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
            report_losses(losses, options)
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
            report_losses([loss], self._options)

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

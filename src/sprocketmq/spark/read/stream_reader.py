# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - Spark calls these methods by these names
"""The stream reader: what Spark calls, with offsets as JSON, and the query as a member of its group. ``stream_planner`` plans batches.

Spark calls ``prepareForTriggerAvailableNow`` (only with that trigger), ``initialOffset``, then for each trigger ``latestOffset(start,
limit)``, ``reportLatestOffset``, ``partitions(start, end)`` and, one batch late, ``commit(end)``. ``stop`` is not called on a normal
stop. ``read`` runs in tasks, on another instance.

What a batch reads depends on the offset log alone (``offsets``), so a query that is killed reads the same ranges again. ``start`` in
``latestOffset`` is the end of a finished batch: that is committed to the brokers (``commit(end)`` may never come for the last batch),
and where the first batch begins if the group has no progress there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.spark.cluster.membership import Membership
from sprocketmq.spark.offsets import StreamOffset, batch_ranges
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.group_progress import GroupProgress, query_committed
from sprocketmq.spark.read.partitions import partitions_for, task_count
from sprocketmq.spark.read.reader import read_partition
from sprocketmq.spark.read.source_queues import is_read
from sprocketmq.spark.read.stream_planner import StreamPlanner
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

_BEGIN_PATIENCE_MS: Final = 1_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("rocketmq")``. Pickled into Spark's processes, as its options: it connects on first use."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._progress = GroupProgress(options.group)
        self._membership: Membership | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return StreamReader, (self._options, self._schema)

    @cached_property
    def _planner(self) -> StreamPlanner:
        return StreamPlanner(self._options)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.aim_at_available()

    def initialOffset(self) -> dict[str, Any]:
        return StreamOffset(initial=self._options.starting.kind).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits, because Spark accepts no combination; ``ReadAllAvailable`` only without a limit, so that a trigger that
        asks for everything (once) can be recognized."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; ``start`` itself if there is nothing to do."""
        max_messages = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        position, planner = StreamOffset.from_json(start), self._planner
        # The trigger (once) asks for everything, whatever the options say.
        planner.all_available = isinstance(limit, ReadAllAvailable)
        planner.poller.check_filter()
        self._join_group()
        if position.initial is not None:
            return planner.first_batch(max_messages).to_json()
        self._check_topics(position)
        self._eager_commit(position)
        end = planner.next_batch(position, max_messages)
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        report = self._planner.report()
        return None if report is None else report.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, upto = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._join_group()  # Spark does not ask for the latest offset before a batch that runs again
        if begin.initial is not None and self._options.commit_offsets != "off":
            self._commit_begin(upto.origin)
        ranges, ordered = batch_ranges(begin, upto), upto.ordered
        if (tasks := upto.tasks) is None:  # written by an older version
            tasks, ordered = task_count(ranges, self._options), self._options.ordered
        return partitions_for(ranges, tasks, ordered, upto.lost if begin != upto else ())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this one batch late; only ``commitOffsets=lagged`` uses it."""
        if self._options.commit_offsets == "lagged":
            self._commit(StreamOffset.from_json(end).queues)

    def stop(self) -> None:
        """Called only after a failure. The process ends right after, so there is nothing to do."""

    # -- the group -------------------------------------------------------------------------------------------------------------

    def _check_topics(self, position: StreamOffset) -> None:
        """A topic that is no longer read keeps its position in the checkpoint; a checkpoint of other topics altogether is an error."""
        known = sorted({queue.topic for queue in position.queues})
        if known and not any(is_read(self._options, topic) for topic in known):
            wanted = ", ".join(self._options.topics) or f"what matches {self._options.topics_pattern!r}"
            raise ConfigurationError(
                f"the checkpoint is of topic {', '.join(known)} and the query reads {wanted}; use a new checkpoint location"
            )

    def _join_group(self) -> None:
        options = self._options
        # A member that reads retries must be visible to others.
        is_seen = options.commit_offsets != "off" or options.include_retry
        if options.group_given and is_seen and self._membership is None:
            membership = Membership(self._planner.poller.cluster, options, self._progress.offsets)
            membership.start()
            self._membership = membership

    def _eager_commit(self, position: StreamOffset) -> None:
        if self._options.commit_offsets == "eager":
            self._commit(position.queues)

    def _commit_begin(self, begin: Mapping[MessageQueue, int]) -> None:
        """Until the first batch is done, the lag of a group without progress counts from its begin. Progress that the group has is kept
        until then: the batch may fail, and the next query may start there."""
        cluster, group = self._planner.poller.cluster, self._options.group
        queues = sorted(queue for queue in begin if is_read(self._options, queue.topic))
        try:
            known = cluster.run(lambda: query_committed(cluster, group, queues), _BEGIN_PATIENCE_MS)
        except RocketMQError as error:
            log.info("the begin of group %s is not committed, as its progress is not known: %s", group, error)
            return
        self._commit({queue: begin[queue] for queue in queues if queue not in known})

    def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        read = {queue: at for queue, at in offsets.items() if is_read(self._options, queue.topic)}
        self._progress.commit(self._planner.poller.cluster, read, time.monotonic())

# ruff: noqa: N802 - Spark calls these methods by these names
"""The stream reader: a small driver around ``plan.next_step``, living in one long-lived Python process per stream.

What Spark calls, in this order: ``prepareForTriggerAvailableNow`` (only with that trigger), ``initialOffset``, then for each trigger
``latestOffset(start, limit)``, ``reportLatestOffset``, ``partitions(start, end)`` and, one batch late, ``commit(end)``. ``stop`` is not
called on a normal stop. ``read`` runs elsewhere, on another instance.

Laws
1. What is read depends on journaled offsets alone (see ``offsets``): a query killed at any moment, the first batch included, reads the
   same ranges again after its restart.
2. ``start`` handed to ``latestOffset`` is a finished batch: that, and only that, is committed to the brokers. ``commit(end)`` may never
   come for the last batch, so lag on the brokers would never reach 0 through it.
3. Broker progress is for people and tools to see. The checkpoint decides; a failing commit is logged and tried again with the next call.
4. An empty poll does not spin: it waits up to 200 ms for messages before Spark asks again (Spark would ask every 11 ms).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.spark.cluster import Cluster
from sprocketmq.spark.membership import Membership
from sprocketmq.spark.offsets import StreamOffset, batch_ranges
from sprocketmq.spark.options import ReadOptions
from sprocketmq.spark.plan import QueueBounds, next_step, resolve_start, should_wait
from sprocketmq.spark.reader import facts_for, partitions_for, read_ranges, report_losses, source_topics
from sprocketmq.wire.message import MessageQueue

__all__ = ["StreamReader"]

log = logging.getLogger("sprocketmq.spark")

_IDLE_WAIT_S: Final = 0.2
_IDLE_POLL_S: Final = 0.05
_WARN_EACH_S: Final = 30.0
# A maximum that goes back may come from a replica that lags behind its master; it is asked again before it counts as data loss.
_REWIND_ATTEMPTS: Final = 5
_REWIND_PAUSE_S: Final = 0.3


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("rocketmq")``. Pickled into Spark's processes: connects on first use, never in the constructor."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: dict[MessageQueue, int] | None = None
        self._available_now = False
        self._head: dict[MessageQueue, int] = {}
        self._committed: dict[MessageQueue, int] = {}
        self._waiting_since_s: float | None = None
        self._warned_at_s = -_WARN_EACH_S
        self._membership: Membership | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_membership": None}

    # -- where it begins -------------------------------------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True
        cluster = self._cluster
        bounds = cluster.bounds(cluster.queues(source_topics(self._options, cluster)))
        self._target = {queue: held.max for queue, held in bounds.items()}

    def initialOffset(self) -> dict[str, Any]:
        """A symbol, the same on every call: see ``offsets``."""
        return StreamOffset(initial=self._options.starting.kind).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    # -- each trigger ----------------------------------------------------------------------------------------------------------

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself when there is nothing to do."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        position = StreamOffset.from_json(start)
        self._join_group()
        if position.initial is not None:
            return self._first_step(most)
        self._eager_commit(position)
        deadline_s = time.monotonic() + _IDLE_WAIT_S
        while True:
            step = next_step(position, self._settled_bounds(position), limit=most, target=self._target)
            if step.end is not position and not self._postponed(position):
                report_losses(step.losses, self._options)
                self._waiting_since_s = None
                return step.end.to_json()
            if self._available_now or time.monotonic() > deadline_s:
                return start
            time.sleep(_IDLE_POLL_S)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The head of every queue, for the progress events; from memory, no broker is asked."""
        return StreamOffset(queues=self._head).to_json() if self._head else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = batch_ranges(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return partitions_for(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, self._schema, getattr(partition, "ranges", ()))

    def commit(self, end: dict[str, Any]) -> None:
        """One batch late by Spark's design; only ``commitOffsets=lagged`` uses it."""
        if self._options.commit_offsets == "lagged":
            self._commit(StreamOffset.from_json(end))

    def stop(self) -> None:
        """Called after a failure only; the process dies right after, so nothing is left to do."""

    # -- inside ----------------------------------------------------------------------------------------------------------------

    @property
    def _cluster(self) -> Cluster:
        return Cluster.at(self._options.namesrv_addr, self._options.retry_timeout_ms, self._options.access)

    def _bounds(self) -> dict[MessageQueue, QueueBounds]:
        """Once a stream runs, a broker that is away is waited for: its queues, or all of them, are just not there now."""
        cluster = self._cluster
        try:
            queues = cluster.queues(source_topics(self._options, cluster), missing_ok=True)
            bounds = cluster.bounds(queues, partial=True)
        except (NetworkError, RequestTimeout, RemoteError) as error:
            if self._available_now:
                raise
            if time.monotonic() - self._warned_at_s > _WARN_EACH_S:
                self._warned_at_s = time.monotonic()
                log.warning("no news from the brokers, the stream waits: %s", error)
            return {}
        self._head.update({queue: held.max for queue, held in bounds.items()})
        return bounds

    def _settled_bounds(self, position: StreamOffset) -> dict[MessageQueue, QueueBounds]:
        for _ in range(_REWIND_ATTEMPTS):
            bounds = self._bounds()
            if all(at <= bounds[queue].max for queue, at in position.queues.items() if queue in bounds):
                break
            time.sleep(_REWIND_PAUSE_S)
        return bounds

    def _first_step(self, most: int | None) -> dict[str, Any]:
        """Resolve the symbolic start. Answered even when there is nothing to read: the empty batch journals where the stream began."""
        options, cluster = self._options, self._cluster
        facts = facts_for(options, options.starting, cluster, cluster.queues(source_topics(options, cluster)))
        start = resolve_start(
            options.starting, facts, fallback=options.group_offsets_fallback, strategy=options.timestamp_strategy
        )
        self._head.update({queue: held.max for queue, held in facts.bounds.items()})
        step = next_step(StreamOffset(queues=start), facts.bounds, limit=most, target=self._target, first=True)
        report_losses(step.losses, options)
        return step.end.to_json()

    def _postponed(self, position: StreamOffset) -> bool:
        """minOffsetsPerTrigger: skip this trigger while too little waits, but not longer than maxTriggerDelay."""
        if self._available_now:
            return False
        now_s = time.monotonic()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        available = sum(max(0, at - position.queues.get(queue, 0)) for queue, at in self._head.items())
        waited_ms = int((now_s - self._waiting_since_s) * 1000)
        return should_wait(
            available, self._options.min_offsets_per_trigger, waited_ms, self._options.max_trigger_delay_ms
        )

    def _join_group(self) -> None:
        if self._options.group_given and self._options.commit_offsets != "off" and self._membership is None:
            self._membership = Membership(self._cluster, self._options)
            self._membership.start()

    def _eager_commit(self, position: StreamOffset) -> None:
        if self._options.commit_offsets == "eager":
            self._commit(position)

    def _commit(self, position: StreamOffset) -> None:
        moved = {queue: at for queue, at in position.queues.items() if self._committed.get(queue) != at}
        if not moved:
            return
        try:
            self._cluster.commit(self._options.group, moved)
        except RocketMQError as error:
            log.warning("progress of group %s is not on the brokers yet: %s", self._options.group, error)
        else:
            self._committed.update(moved)

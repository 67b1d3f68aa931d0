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
4. An empty poll does not spin: it waits about 200 ms for messages before Spark asks again (Spark would ask every 11 ms). A look
   that is due much later is not waited for: the query may have other sources.
5. An AvailableNow run ends when it has read its whole target (``plan.unfinished``), never because a broker was away: it waits
   ``retryTimeoutMs`` for that one, then it fails.
6. Nothing is given up silently: what is lost is raised, or journaled with the batch that leaves it out, and logged.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator
from dataclasses import replace
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

from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.cluster.membership import Membership
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.spark.offsets import StreamOffset, batch_ranges
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.broker_watch import BrokerWatch, is_read, source_topics
from sprocketmq.spark.read.group_progress import ShownProgress
from sprocketmq.spark.read.lag import HeadReport
from sprocketmq.spark.read.late_queues import LateQueues, late_rule
from sprocketmq.spark.read.offset_search import first_held, look_at
from sprocketmq.spark.read.plan import Step, next_step, resolve_start, unfinished
from sprocketmq.spark.read.queue_bounds import held_bounds
from sprocketmq.spark.read.reader import facts_for, partitions_for, read_partition, report_losses, tasks_for
from sprocketmq.spark.read.trigger_limits import ByteLimit, MessageSizes, TriggerDelay
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["StreamReader"]

log = logging.getLogger("sprocketmq.spark")

_IDLE_WAIT_S: Final = 0.2
# A look that is due so soon is waited for: with few topics all are.
_LONGEST_WAIT_S: Final = 0.32
# A maximum that goes back is asked again before it counts as data loss.
_REWIND_ATTEMPTS: Final = 5
_REWIND_PAUSE_S: Final = 0.3
# Queues looked at for the size and age of what waits, in one trigger.
_LOOKS: Final = 64
_SAMPLE: Final = 32


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("rocketmq")``. Pickled into Spark's processes: connects on first use, never in the constructor."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._target: dict[MessageQueue, QueueBounds] | None = None  # AvailableNow's
        self._began = False  # whether this run has looked where queues really begin
        self._unheard: set[MessageQueue] = set()  # of the target: their broker was away when the run began
        self._everything = False  # this trigger wants all, whatever the options say
        self._shown = ShownProgress(options.group)
        least = options.min_offsets_per_trigger
        self._delay = None if least is None else TriggerDelay(least, options.max_trigger_delay_ms)
        self._watch = BrokerWatch(options)
        self._late = LateQueues(options)
        self._sizes = MessageSizes()
        self._oldest_unread_ms: dict[MessageQueue, int] = {}
        self._begun: set[MessageQueue] = set()  # the queues that the stream has a position in
        self._membership: Membership | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_membership": None}

    # -- where it begins -------------------------------------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:
        cluster = self._watch.cluster
        # A topic that a checkpoint knows may be gone: that is for the first step to say.
        queues = cluster.queues(source_topics(self._options, cluster), missing_ok=True)
        self._target = held_bounds(cluster, queues, partial=True)
        self._unheard = set(queues).difference(self._target)

    def initialOffset(self) -> dict[str, Any]:
        """A symbol, the same on every call: see ``offsets``."""
        return StreamOffset(initial=self._options.starting.kind).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits there are, as Spark takes none that is made of several; the options hold the rest. ``ReadAllAvailable``
        only where there is no limit, so that a trigger that means it (once) can be told.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    # -- each trigger ----------------------------------------------------------------------------------------------------------

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself when there is nothing to do."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._everything = isinstance(limit, ReadAllAvailable)
        position = StreamOffset.from_json(start)
        self._watch.check_filter()
        self._join_group()
        if position.initial is not None:
            return self._first_step(most)
        self._check_topics(position)
        self._begun = set(position.queues)
        self._eager_commit(position)
        patience_s = _IDLE_WAIT_S if self._target is None else self._options.retry_timeout_ms / 1000
        deadline_s = time.monotonic() + patience_s
        pace = self._watch.pace
        while True:
            wait_s, left_s = pace.wait_s(time.monotonic()), deadline_s - time.monotonic()
            if self._target is None and wait_s > max(left_s, _LONGEST_WAIT_S):  # the query may have other sources
                time.sleep(max(0.0, left_s))
                return start
            time.sleep(wait_s)
            bounds, gone = self._news(position)
            step = self._step(position, bounds, gone, most, self._late_starts(position, bounds))
            if not self._postponed(step) and step.end is not position:
                return self._taken(position, step, bounds)
            if self._target is not None and not (away := self._unfinished(position)):
                return start
            pace.nothing(time.monotonic(), random.uniform(0.75, 1.25), self._watch.questions)
            if time.monotonic() > deadline_s:
                if self._target is not None:
                    raise NetworkError(
                        f"{len(away)} queues that were to be read have not been seen for {self._options.retry_timeout_ms} ms, the first is "
                        f"{away[0]}; start their brokers and run the query again, it goes on from its checkpoint; name one that is "
                        "gone for good in retiredBrokers"
                    )
                return start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The head of every queue and the age of what waits, for the progress events; from memory, no broker is asked."""
        watch = self._watch
        if not watch.heads:
            return None
        begins = {queue: at for queue, at in watch.begins.items() if queue in watch.heads and queue not in self._begun}
        return HeadReport(watch.heads, self._oldest_unread_ms, watch.newest_ms, begins).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, upto = StreamOffset.from_json(start), StreamOffset.from_json(end)
        ranges, ordered = batch_ranges(begin, upto), upto.ordered
        if (tasks := upto.tasks) is None:  # journaled by an older version
            tasks, ordered = tasks_for(ranges, self._options), self._options.ordered
        return partitions_for(ranges, tasks, ordered, upto.lost if begin != upto else ())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """One batch late by Spark's design; only ``commitOffsets=lagged`` uses it."""
        if self._options.commit_offsets == "lagged":
            self._commit(StreamOffset.from_json(end))

    def stop(self) -> None:
        """Called after a failure only; the process dies right after, so nothing is left to do."""

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _news(self, position: StreamOffset) -> tuple[dict[MessageQueue, QueueBounds], dict[MessageQueue, Reason]]:
        """What the brokers hold, and what they say is gone. A head that went back is asked for again first."""
        watch = self._watch
        for attempt in range(_REWIND_ATTEMPTS):
            bounds = watch.bounds()
            if not any(
                held.max < max(position.queues.get(queue, 0), watch.heads.get(queue, 0))
                for queue, held in bounds.items()
            ):
                break
            if attempt < _REWIND_ATTEMPTS - 1:
                time.sleep(_REWIND_PAUSE_S)
        if not self._began:
            bounds = first_held(watch.cluster, bounds, self._options.group)
            self._began = True
        missing = {queue for queue in position.queues if queue not in bounds and is_read(self._options, queue.topic)}
        if self._target is not None:
            missing.update(queue for queue in self._unfinished(position) if queue not in bounds)
            for queue in position.queues:
                if queue not in self._target and queue in bounds:
                    self._target[queue] = bounds[queue]  # its broker was away when the run began
        retired = {
            queue for queue in missing if watch.is_answered and queue.broker_name in self._options.retired_brokers
        }
        gone: dict[MessageQueue, Reason] = dict.fromkeys(sorted(retired), "broker retired")
        return bounds, {**watch.gone(sorted(missing - retired)), **gone}

    def _late_starts(self, position: StreamOffset, bounds: dict[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
        """Where queues begin that the stream did not see before; those that cannot be asked about are left for the next look."""
        starts, unheard = self._late.starts(self._watch.cluster, position, bounds)
        for queue, error in unheard.items():
            self._watch.warn("%s, which came late, is left for later: %s", queue, error)
            del bounds[queue]
        for queue, at in starts.items():
            if self._target is not None and queue in self._target:
                self._target[queue] = replace(self._target[queue], min=at)
        return starts

    def _unfinished(self, position: StreamOffset) -> list[MessageQueue]:
        away = unfinished(position, self._target or {})
        return [queue for queue in away if is_read(self._options, queue.topic)]

    def _check_topics(self, position: StreamOffset) -> None:
        """A topic that is read no more keeps its place in the checkpoint; a checkpoint of other topics altogether is a slip."""
        known = sorted({queue.topic for queue in position.queues})
        if known and not any(is_read(self._options, topic) for topic in known):
            wanted = ", ".join(self._options.topics) or f"what matches {self._options.topics_pattern!r}"
            raise ConfigurationError(
                f"the checkpoint is of topic {', '.join(known)} and the query reads {wanted}; use a new checkpoint location"
            )

    def _step(
        self,
        position: StreamOffset,
        bounds: dict[MessageQueue, QueueBounds],
        gone: dict[MessageQueue, Reason],
        most: int | None,
        starts: dict[MessageQueue, int] | None = None,
    ) -> Step:
        most_bytes = None if self._everything else self._options.max_bytes_per_trigger
        limit = None
        if most_bytes is not None:
            self._sample(position, bounds)
            limit = ByteLimit(most_bytes, self._sizes.of)
        return next_step(
            position,
            bounds,
            limit=most,
            byte_limit=limit,
            target=self._target,
            gone=gone,
            known=self._watch.heads,
            starts=starts,
            first=starts is None,
        )

    def _taken(self, position: StreamOffset, step: Step, bounds: dict[MessageQueue, QueueBounds]) -> dict[str, Any]:
        """The step will be journaled, and into how many tasks it is cut: what it lost is raised or logged, and what it saw is what is
        known from now on."""
        retired = [loss for loss in step.losses if loss.reason == "broker retired"]
        report_losses([loss for loss in step.losses if loss not in retired], self._options)
        for loss in retired:
            log.warning("the stream leaves a queue, and what was not read of it: %s", loss)
        watch = self._watch
        watch.settle(bounds)
        watch.forget(
            loss.queue for loss in step.losses if loss.reason in ("topic gone", "queue gone", "broker retired")
        )
        if self._target is not None:
            for loss in step.losses:
                if loss.reason == "went back":
                    self._target[loss.queue] = bounds[loss.queue]
                elif loss.reason != "deleted":
                    self._target.pop(loss.queue, None)
        self._begun = set(step.end.queues)
        if self._delay is not None:
            self._delay.triggered(int(time.monotonic() * 1000))
        watch.pace.news()
        self._look_at_rest(step)
        tasks = tasks_for(batch_ranges(position, step.end), self._options)
        return replace(step.end, tasks=tasks, ordered=self._options.ordered).to_json()

    def _first_step(self, most: int | None) -> dict[str, Any]:
        """Resolve the symbolic start. Answered even when there is nothing to read: the empty batch journals where the stream began."""
        options, cluster = self._options, self._watch.cluster
        begun_ms = int(time.time() * 1000)  # before the brokers are asked: what comes after is read
        # A broker counts as there if it was before the routes were asked for, and none is from before that.
        there = cluster.masters()
        cluster.forget_routes()
        facts = facts_for(options, options.starting, cluster, cluster.queues(source_topics(options, cluster)))
        there.update(queue.broker_name for queue in facts.bounds)
        start = resolve_start(
            options.starting, facts, fallback=options.group_offsets_fallback, strategy=options.timestamp_strategy
        )
        bounds = dict(facts.bounds)
        if self._target is not None:
            for queue, at in start.items():
                if queue not in self._unheard:  # else it is new since the run began, and none of its business
                    self._target.setdefault(queue, QueueBounds(at, at))
        position = StreamOffset(queues=start, late=late_rule(options, begun_ms, there))
        return self._taken(position, self._step(position, bounds, {}, most), bounds)

    def _sample(self, position: StreamOffset, bounds: dict[MessageQueue, QueueBounds]) -> None:
        """Look at the next messages of the queues where most waits, so that bytes can be counted."""
        waiting = {queue: (held.max - position.queues.get(queue, held.min), held) for queue, held in bounds.items()}
        most = sorted(
            (queue for queue, (count, _) in waiting.items() if count > 0), key=lambda queue: -waiting[queue][0]
        )
        ats = {queue: max(position.queues.get(queue, 0), bounds[queue].min) for queue in most[:_LOOKS]}
        for queue, look in look_at(self._watch.cluster, ats, self._options.group, _SAMPLE).items():
            self._sizes.learn(queue, look.messages, look.total_bytes)

    def _look_at_rest(self, step: Step) -> None:
        """The lag in time: when the first message of each queue was stored that this batch leaves. Nothing left, nothing asked."""
        ends, heads = step.end.queues, self._watch.heads
        left = sorted(
            (queue for queue in ends if ends[queue] < heads.get(queue, 0)), key=lambda queue: ends[queue] - heads[queue]
        )
        looks = (
            look_at(self._watch.cluster, {queue: ends[queue] for queue in left[:_LOOKS]}, self._options.group, 1)
            if left
            else {}
        )
        self._oldest_unread_ms = {queue: look.stored_ms for queue, look in looks.items()}

    def _postponed(self, step: Step) -> bool:
        """minOffsetsPerTrigger: skip this trigger while too little waits, but not longer than maxTriggerDelay. A loss does not wait."""
        if self._delay is None or self._everything or self._target is not None or step.losses:
            return False
        return not self._delay.is_due(step.available, int(time.monotonic() * 1000))

    def _join_group(self) -> None:
        options = self._options
        is_seen = options.commit_offsets != "off" or options.include_retry  # who reads retries must be seen by others
        if options.group_given and is_seen and self._membership is None:
            membership = Membership(self._watch.cluster, options, self._shown.offsets)
            membership.start()
            self._membership = membership

    def _eager_commit(self, position: StreamOffset) -> None:
        if self._options.commit_offsets == "eager":
            self._commit(position)

    def _commit(self, position: StreamOffset) -> None:
        read = {queue: at for queue, at in position.queues.items() if is_read(self._options, queue.topic)}
        self._shown.show(self._watch.cluster, read, time.monotonic())

# SPDX-License-Identifier: Apache-2.0
"""Plans the batches of one stream: polls the brokers, waits for messages, and applies the limits of a trigger (``plan`` decides).

A source that finds nothing waits for messages before Spark asks again (Spark would ask every 11 ms): 200 ms if it is alone, since a
message ends its wait; 12 ms beside other sources of the query, since Spark asks one after the other, and a message of another source
does not end the wait of this one. An AvailableNow run ends when its whole target is read, never because a broker is unreachable: it
waits ``retryTimeoutMs`` for that broker, then it fails. With ``waitForRetries`` the target grows by the retries that come within that
time.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import NetworkError
from sprocketmq.spark.losses import QueueBounds, Reason, report_losses
from sprocketmq.spark.offsets import StreamOffset, batch_ranges
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.broker_poller import BrokerPoller
from sprocketmq.spark.read.lag import LatestOffsetReport
from sprocketmq.spark.read.new_queues import NewQueues, new_queue_start
from sprocketmq.spark.read.offset_search import real_min_offsets, sample_queues
from sprocketmq.spark.read.parked_pulls import ParkedPulls
from sprocketmq.spark.read.partitions import task_count
from sprocketmq.spark.read.plan import BatchPlan, plan_batch, resolve_start, unread_queues
from sprocketmq.spark.read.queue_bounds import queue_bounds
from sprocketmq.spark.read.source_queues import fetch_offsets, is_read, source_queues, source_topics
from sprocketmq.spark.read.trigger_limits import ByteLimit, MessageSizes, TriggerDelay
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

_IDLE_WAIT_S: Final = 0.2
# A poll of a source that is alone is waited for if it is due within this time; with few topics all are.
_LONGEST_WAIT_S: Final = 0.32
_WAIT_BESIDE_OTHERS_S: Final = 0.012
# Spark asks again after 10 ms and little more; another source of ours takes 12 ms of its own.
_ALONE_S: Final = 0.02
# A next offset that went back is asked for again before it counts as data loss.
_REWIND_ATTEMPTS: Final = 5
_REWIND_PAUSE_S: Final = 0.3
# The most queues that are sampled for size and age of their unread messages in one trigger.
_MOST_SAMPLED_QUEUES: Final = 64
_SAMPLED_MESSAGES: Final = 32


class StreamPlanner:
    """The planning of one stream, in the process that Spark has for it. ``all_available``: the next batch takes everything."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.poller = BrokerPoller(options)
        self.all_available = False
        self._target: dict[MessageQueue, QueueBounds] | None = None  # of an AvailableNow run
        self._unanswered: set[MessageQueue] = set()  # of brokers that were unreachable when the AvailableNow run began
        self._asked_real_min_offsets = False  # in this run
        self._queues_begun: set[MessageQueue] = set()  # those with a position
        self._idle_at_s: float | None = None  # when this source last answered, if it had nothing new
        self._short_gaps = 0  # in a row, between such an answer and the next question
        least = options.min_offsets_per_trigger
        self._delay = None if least is None else TriggerDelay(least, options.max_trigger_delay_ms)
        self._new_queues = NewQueues(options)
        self._sizes = MessageSizes()
        self._oldest_unread_ms: dict[MessageQueue, int] = {}
        self._parked: ParkedPulls | None = None

    def aim_at_available(self) -> None:
        """Begin an AvailableNow run: its batches end where the queues end now."""
        cluster = self.poller.cluster
        # A topic of the checkpoint may be gone: the first batch reports that.
        queues = cluster.queues(source_topics(self._options, cluster), missing_ok=True)
        self._target = queue_bounds(cluster, queues, partial=True)
        self._unanswered = set(queues).difference(self._target)

    def first_batch(self, max_messages: int | None) -> StreamOffset:
        """Resolve the symbolic start. The batch is planned even if there is nothing to read: it records where the stream began."""
        options, cluster = self._options, self.poller.cluster
        begun_ms = int(time.time() * 1000)  # before the requests: messages that come later are read
        # Brokers registered before the routes are requested count as seen; so the cached routes are dropped in between.
        topics = source_topics(options, cluster)
        seen = cluster.master_names(topics)
        cluster.routes.forget()
        facts = fetch_offsets(options, options.starting, cluster, source_queues(options, cluster, topics))
        seen.update(queue.broker_name for queue in facts.bounds)
        start = resolve_start(
            options.starting, facts, fallback=options.group_offsets_fallback, strategy=options.timestamp_strategy
        )
        bounds = dict(facts.bounds)
        if self._target is not None:
            for queue, at in start.items():
                if queue not in self._unanswered:  # otherwise it is new since the run began and not part of it
                    self._target.setdefault(queue, QueueBounds(at, at))
        position = StreamOffset(queues=start, new_queue_start=new_queue_start(options, begun_ms, seen))
        return self._accepted(position, self._plan(position, bounds, {}, max_messages), bounds)

    def next_batch(self, position: StreamOffset, max_messages: int | None) -> StreamOffset | None:
        """The end of the batch that begins at ``position``, with about ``max_messages``; None if there is nothing to do."""
        self._queues_begun = set(position.queues)
        if self._idle_at_s is not None:
            is_short = time.monotonic() - self._idle_at_s < _ALONE_S
            if not self._is_alone():
                self._short_gaps = self._short_gaps + 1 if is_short else 0
        self._idle_at_s = None
        longest_s = _LONGEST_WAIT_S if self._is_alone() else 0.0
        patience_s = _IDLE_WAIT_S if self._is_alone() else _WAIT_BESIDE_OTHERS_S
        if self._target is not None:
            patience_s = self._options.retry_timeout_ms / 1000
        deadline_s = time.monotonic() + patience_s
        retries_until_s = time.monotonic() + self._options.wait_for_retries_ms / 1000
        interval = self.poller.interval
        while True:
            wait_s, left_s = interval.wait_s(time.monotonic()), deadline_s - time.monotonic()
            if self._target is not None or wait_s <= max(left_s, longest_s):
                self._wait(wait_s)
            elif not self._wait(max(0.0, left_s)):
                break
            bounds, gone = self._poll(position)
            self._add_retries(bounds)
            plan = self._plan(position, bounds, gone, max_messages, self._new_queue_starts(position, bounds))
            if not self._postponed(plan) and plan.end is not position:
                return self._accepted(position, plan, bounds)
            unread = self._unread(position)
            if self._target is not None and not unread and time.monotonic() >= retries_until_s:
                return None
            interval.lengthen(time.monotonic(), random.uniform(0.75, 1.25), self.poller.cost_s)
            if self._target is None and self._delay is None:
                self._park(bounds)
            if time.monotonic() > deadline_s:
                if self._target is None:
                    break
                if unread:
                    raise NetworkError(
                        f"{len(unread)} queues that were to be read have not been seen for {self._options.retry_timeout_ms} ms, the first "
                        f"is {unread[0]}; start their brokers and run the query again, it continues from its checkpoint; name one that is "
                        "gone for good in retiredBrokers"
                    )
        self._idle_at_s = time.monotonic()
        return None

    def report(self) -> LatestOffsetReport | None:
        """The latest offset of every queue and the age of unread messages, for progress events. Sends no request."""
        poller = self.poller
        if not poller.latest_offsets:
            return None
        earliest_offsets = {
            queue: at
            for queue, at in poller.earliest_offsets.items()
            if queue in poller.latest_offsets and queue not in self._queues_begun
        }
        return LatestOffsetReport(
            {**{queue: held.max for queue, held in poller.hidden.items()}, **poller.latest_offsets},
            self._oldest_unread_ms,
            poller.newest_ms,
            {**{queue: held.min for queue, held in poller.hidden.items()}, **earliest_offsets},
        )

    def _is_alone(self) -> bool:
        """Whether Spark came back twice too soon to have asked another source of ours in between. That proves it, as the others take
        their time; on a busy machine Spark comes back later again."""
        return self._short_gaps >= 2

    def _park(self, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        if self._parked is None:
            self._parked = ParkedPulls(self.poller.cluster, self._options.group)
        self._parked.park({queue: held.max for queue, held in bounds.items()})

    def _wait(self, seconds: float) -> bool:
        if self._parked is not None:
            return self._parked.wait(seconds)
        time.sleep(seconds)
        return False

    def _poll(self, position: StreamOffset) -> tuple[dict[MessageQueue, QueueBounds], dict[MessageQueue, Reason]]:
        """What the brokers hold, and which queues are gone. If a next offset went back, the poll is repeated first."""
        poller = self.poller
        for attempt in range(_REWIND_ATTEMPTS):
            bounds = poller.bounds()
            if not any(
                held.max < max(position.queues.get(queue, 0), poller.latest_offsets.get(queue, 0))
                for queue, held in bounds.items()
            ):
                break
            if attempt < _REWIND_ATTEMPTS - 1:
                time.sleep(_REWIND_PAUSE_S)
        if not self._asked_real_min_offsets:
            bounds = real_min_offsets(poller.cluster, bounds, self._options.group)
            self._asked_real_min_offsets = True
        missing = {queue for queue in position.queues if queue not in bounds and is_read(self._options, queue.topic)}
        if self._target is not None:
            missing.update(queue for queue in self._unread(position) if queue not in bounds)
            for queue in position.queues:
                if queue not in self._target and queue in bounds:
                    self._target[queue] = bounds[queue]  # its broker was unreachable when the run began
        retired = {
            queue for queue in missing if poller.is_answered and queue.broker_name in self._options.retired_brokers
        }
        gone: dict[MessageQueue, Reason] = dict.fromkeys(sorted(retired), "broker retired")
        return bounds, {**poller.gone(sorted(missing - retired)), **gone}

    def _add_retries(self, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        if self._target is not None and self._options.wait_for_retries_ms:
            retry = RETRY_PREFIX + self._options.group
            self._target.update({queue: held for queue, held in bounds.items() if queue.topic == retry})

    def _new_queue_starts(
        self, position: StreamOffset, bounds: dict[MessageQueue, QueueBounds]
    ) -> dict[MessageQueue, int]:
        """Where queues begin that the stream did not see before; those that cannot be asked about are left for the next poll."""
        starts, unanswered = self._new_queues.starts(self.poller.cluster, position, bounds)
        for queue, error in unanswered.items():
            sentence = "%s, which appeared late, is left for a later batch: %s"
            troubles.failed("late queues", sentence, queue, error, of=str(queue))
            del bounds[queue]
        for queue, at in starts.items():
            if self._target is not None and queue in self._target:
                self._target[queue] = replace(self._target[queue], min=at)
        return starts

    def _unread(self, position: StreamOffset) -> list[MessageQueue]:
        unread = unread_queues(position, self._target or {})
        return [queue for queue in unread if is_read(self._options, queue.topic)]

    def _plan(
        self,
        position: StreamOffset,
        bounds: dict[MessageQueue, QueueBounds],
        gone: dict[MessageQueue, Reason],
        max_messages: int | None,
        starts: dict[MessageQueue, int] | None = None,
    ) -> BatchPlan:
        max_bytes = None if self.all_available else self._options.max_bytes_per_trigger
        limit = None
        if max_bytes is not None:
            self._sample(position, bounds)
            limit = ByteLimit(max_bytes, self._sizes.of)
        return plan_batch(
            position,
            bounds,
            limit=max_messages,
            byte_limit=limit,
            target=self._target,
            gone=gone,
            known=self.poller.latest_offsets,
            starts=starts,
            first=starts is None,
        )

    def _accepted(
        self, position: StreamOffset, plan: BatchPlan, bounds: dict[MessageQueue, QueueBounds]
    ) -> StreamOffset:
        """The planned batch for the offset log, with its number of tasks. Raises or logs its losses, and remembers ``bounds``."""
        retired = [loss for loss in plan.losses if loss.reason == "broker retired"]
        unread = [loss for loss in plan.losses if loss not in retired]
        report_losses(unread, fail_on_data_loss=self._options.fail_on_data_loss)
        for loss in retired:
            sentence = "the stream drops a queue with its unread messages: %s"
            troubles.failed("retired", sentence, loss, of=str(loss.queue))
        poller = self.poller
        poller.accept(bounds)
        poller.forget(
            loss.queue for loss in plan.losses if loss.reason in ("topic gone", "queue gone", "broker retired")
        )
        if self._target is not None:
            for loss in plan.losses:
                if loss.reason == "went back":
                    self._target[loss.queue] = bounds[loss.queue]
                elif loss.reason != "deleted":
                    self._target.pop(loss.queue, None)
        self._queues_begun = set(plan.end.queues)
        if self._delay is not None:
            self._delay.triggered(int(time.monotonic() * 1000))
        poller.interval.reset()
        if self._parked is not None:
            self._parked.planned()
        self._sample_backlog(plan, bounds)
        tasks = task_count(batch_ranges(position, plan.end), self._options)
        options = self._options
        return replace(
            plan.end,
            tasks=tasks,
            ordered=options.ordered,
            group=options.group if options.group_given else None,
            includes_retry=options.include_retry,
        )

    def _sample(self, position: StreamOffset, bounds: dict[MessageQueue, QueueBounds]) -> None:
        waiting = {queue: (held.max - position.queues.get(queue, held.min), held) for queue, held in bounds.items()}
        most = sorted(
            (queue for queue, (count, _) in waiting.items() if count > 0), key=lambda queue: -waiting[queue][0]
        )
        ats = {queue: max(position.queues.get(queue, 0), bounds[queue].min) for queue in most[:_MOST_SAMPLED_QUEUES]}
        for queue, sample in sample_queues(self.poller.cluster, ats, self._options.group, _SAMPLED_MESSAGES).items():
            self._sizes.learn(queue, sample.messages, sample.total_bytes)

    def _sample_backlog(self, plan: BatchPlan, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """Find the lag in time: when the first message of each queue was stored that this batch does not read."""
        ends, poller, group = plan.end.queues, self.poller, self._options.group
        left = sorted(
            (queue for queue in ends if ends[queue] < poller.latest_offsets.get(queue, 0)),
            key=lambda queue: ends[queue] - poller.latest_offsets[queue],
        )[:_MOST_SAMPLED_QUEUES]
        self._oldest_unread_ms = {}
        if left:
            samples = sample_queues(poller.cluster, {queue: ends[queue] for queue in left}, group, 1)
            self._oldest_unread_ms = {queue: sample.stored_ms for queue, sample in samples.items()}
        last = {queue: bounds[queue].max - 1 for queue in left if queue in bounds and bounds[queue].newest_ms is None}
        if last:
            samples = sample_queues(poller.cluster, last, group, 1)
            poller.newest_ms.update({queue: sample.stored_ms for queue, sample in samples.items()})

    def _postponed(self, plan: BatchPlan) -> bool:
        """With minOffsetsPerTrigger: whether too few messages are available, for up to maxTriggerDelay; never with a loss."""
        if self._delay is None or self.all_available or self._target is not None or plan.losses:
            return False
        return not self._delay.is_due(plan.available, int(time.monotonic() * 1000))

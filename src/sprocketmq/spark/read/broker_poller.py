# SPDX-License-Identifier: Apache-2.0
"""Polls the brokers of a running stream for new offsets, and remembers the last answers.

While nothing is new, Spark calls ``latestOffset`` every 11 ms. A poll costs one request for each topic and broker (behind a proxy two
for each queue), or one for each broker (``unchanged_topics``), so polls are spaced: 50 ms after new messages, each empty poll half
longer, up to 250 ms, or as many requests and queues take by ``_PAUSE_PER_REQUEST_S`` and ``_PAUSE_PER_QUEUE_S`` if that is more, with
jitter. A broker that says that a message came (``parked_pulls``) brings the next poll forward. The topics of a pattern are asked for
every 2 s, queues that a topic hides every 30 s, or every 120 s with 400 topics.

A queue is gone only if its own master says so; this is asked at most once a second. The queues of a retired broker leave the stream
only if the name server was asked and does not name the broker (``is_answered``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.group_progress import query_committed
from sprocketmq.spark.read.queue_bounds import (
    gone_queues,
    hidden_queues,
    queue_bounds,
    request_count,
    warn_of_hidden,
)
from sprocketmq.spark.read.source_queues import check_sql92, source_topics
from sprocketmq.spark.read.unchanged_topics import UnchangedTopics
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records.message import MessageQueue

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
# An idle stream sends at most 50 requests a second, however many topics it reads.
_PAUSE_PER_REQUEST_S: Final = 0.02
# And brokers tell it of at most 2,000 queues a second that have nothing new.
_PAUSE_PER_QUEUE_S: Final = 0.0005
_GROWTH: Final = 1.5
_TOPICS_AGE_S: Final = 2.0
_GONE_AGE_S: Final = 1.0
# Behind many topics are many requests: they are spread, as nothing is read from such queues.
_HIDDEN_AGE_S: Final = 30.0
_HIDDEN_AGE_PER_TOPIC_S: Final = 0.3
_PATIENCE_MS: Final = 1_000


@dataclass
class PollInterval:
    """The time until the next poll: longer after each empty one. Seconds of any clock; ``jitter`` is a factor around 1."""

    pause_s: float = 0.0
    due_s: float = 0.0

    def wait_s(self, now_s: float) -> float:
        return max(0.0, self.due_s - now_s)

    def lengthen(self, now_s: float, jitter: float, cost_s: float = 0.0) -> None:
        """``cost_s``: the least pause that the last poll is worth."""
        longest_s = max(_LONGEST_PAUSE_S, cost_s)
        self.pause_s = min(max(self.pause_s * _GROWTH, _FIRST_PAUSE_S), longest_s)
        self.due_s = now_s + self.pause_s * jitter

    def reset(self) -> None:
        self.pause_s = self.due_s = 0.0


class BrokerPoller:
    """The polls of one stream: ``latest_offsets`` (next ones), ``earliest_offsets``, and when the last message of each queue was stored
    (``newest_ms``), as last seen; if a latest offset goes back, the higher one stays until ``accept``. ``hidden``: queues with messages
    that nobody can read, because their topic has fewer queues now, from the group's progress on. Of the last poll: ``cost_s``, the least
    pause after it if it is empty, and whether the name server answered (``is_answered``)."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.latest_offsets: dict[MessageQueue, int] = {}
        self.newest_ms: dict[MessageQueue, int] = {}
        self.earliest_offsets: dict[MessageQueue, int] = {}
        self.hidden: dict[MessageQueue, QueueBounds] = {}
        self.interval = PollInterval()
        self.cost_s = 0.0
        self.is_answered = False  # until the first poll
        self._unchanged = UnchangedTopics(options)
        self._topics: tuple[str, ...] | None = None
        self._topics_until_s = 0.0
        self._gone_until_s = 0.0
        self._hidden_until_s = 0.0
        self._filter_checked = options.expression_type != "SQL92"

    @property
    def cluster(self) -> Cluster:
        return Cluster.at(self._options.namesrv_addr, self._options.retry_timeout_ms, self._options.access)

    def check_filter(self) -> None:
        if self._filter_checked:
            return
        try:
            queues = self.cluster.queues(self._source_topics(), missing_ok=True)
        except (NetworkError, RequestTimeout, RemoteError):
            return  # ``bounds`` decides whether to wait or to fail
        self._filter_checked = check_sql92(self._options, self.cluster, queues)

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        """With ``brokerUnavailable=wait`` the queues of an unreachable broker are left out. Raises NetworkError, RequestTimeout,
        RemoteError (``brokerUnavailable`` is fail), ConfigurationError (a broker of ``retiredBrokers`` is registered)."""
        waits = self._options.broker_unavailable == "wait"
        self.is_answered = False
        unchanged: dict[MessageQueue, QueueBounds] = {}
        try:
            queues = self.cluster.queues(self._source_topics(), missing_ok=True)
            self._refuse_retired(queues)
            self.is_answered = True
            unchanged = self._unchanged.bounds(self.cluster, queues)
            asked = [queue for queue in queues if queue not in unchanged]
            self.cost_s = max(
                request_count(self.cluster, asked) * _PAUSE_PER_REQUEST_S,
                self._unchanged.queues_named * _PAUSE_PER_QUEUE_S,
            )
            fresh = queue_bounds(self.cluster, asked, partial=waits)
            self._poll_hidden(queues)
        except (NetworkError, RequestTimeout, RemoteError) as error:
            if not waits:
                raise
            sentence = "the brokers do not answer, the stream waits: %s"
            if isinstance(error, RemoteError):
                troubles.failed("brokers", sentence, error)
            else:
                self.cluster.outages.failed("offsets", error, sentence, error)
            return unchanged
        troubles.sweep()
        self.cluster.outages.troubles.sweep()
        self._unchanged.learn(fresh)
        for queue, held in fresh.items():
            self.earliest_offsets[queue] = held.min
            if held.max >= self.latest_offsets.get(queue, 0):
                self._take(queue, held)
        return {**unchanged, **fresh}

    def _poll_hidden(self, queues: Collection[MessageQueue]) -> None:
        now_s = time.monotonic()
        if now_s < self._hidden_until_s:
            return
        topics = len({(queue.topic, queue.broker_name) for queue in queues})
        self._hidden_until_s = now_s + max(_HIDDEN_AGE_S, topics * _HIDDEN_AGE_PER_TOPIC_S)
        found = hidden_queues(self.cluster, queues)
        if found and self._options.group_given:
            asked = sorted(found)
            try:
                ask = partial(query_committed, self.cluster, self._options.group, asked)
                committed = self.cluster.run(ask, _PATIENCE_MS)
            except RocketMQError:
                return  # they are not read, so what is read does not wait for them
            for queue, at in committed.items():
                found[queue] = QueueBounds(max(found[queue].min, at), found[queue].max)
        known, self.hidden = self.hidden, {queue: held for queue, held in found.items() if held.max > held.min}
        warn_of_hidden({queue: held for queue, held in self.hidden.items() if queue not in known})

    def _refuse_retired(self, queues: Iterable[MessageQueue]) -> None:
        alive = {queue.broker_name for queue in queues} & self._options.retired_brokers
        if alive:
            raise ConfigurationError(
                f"retiredBrokers names {min(alive)}, which is registered and has queues of the query's topics; leave it out, or take the "
                "broker from the cluster first"
            )

    def accept(self, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """Remember ``bounds``, with which a batch was planned; offsets that went back are in its losses."""
        for queue, held in bounds.items():
            self._take(queue, held)

    def _take(self, queue: MessageQueue, held: QueueBounds) -> None:
        self.latest_offsets[queue] = held.max
        if held.newest_ms is not None:
            self.newest_ms[queue] = held.newest_ms

    def forget(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self.latest_offsets.pop(queue, None)
            self.newest_ms.pop(queue, None)
            self.earliest_offsets.pop(queue, None)

    def gone(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Reason]:
        """Empty while the brokers of ``queues`` are unreachable, and if this was asked just now."""
        missing = list(queues)
        now_s = time.monotonic()
        if not missing or now_s < self._gone_until_s:
            return {}
        self._gone_until_s = now_s + _GONE_AGE_S
        try:
            found = gone_queues(self.cluster, missing, self._options.group)
        except RocketMQError as error:
            sentence = "no news of %d queues, the stream waits for them: %s"
            self.cluster.outages.failed("queues", error, sentence, len(missing), error)
            return {}
        away = [queue for queue in missing if queue not in found]
        unknown = [queue for queue in away if not self.cluster.outages.address_of(queue.broker_name)]
        if unknown:  # the log says of others that their broker is lost
            sentence = "no news of %d queues, the stream waits for them, the first is %s"
            troubles.failed("queues", sentence, len(unknown), unknown[0])
        return found

    def _source_topics(self) -> tuple[str, ...]:
        now_s = time.monotonic()
        if self._topics is None or now_s >= self._topics_until_s:
            self._topics = source_topics(self._options, self.cluster)
            self._topics_until_s = now_s + _TOPICS_AGE_S * random.uniform(0.8, 1.2)
        return self._topics

"""What a running stream knows of its brokers: asked at a measured pace, remembered in between.

Spark asks a stream for news every 11 ms while there is none. A look costs one question per topic and broker, so looks are spaced: 50 ms
after news, each empty one a half longer, up to 250 ms, or 5 ms for each question where that is more (400 topics: 2 s); jittered so that
many streams do not ask in step. A pattern's topics cost two
questions to the name server and are asked for each 2 s, routes each 10 s (``cluster``).

Laws (tests/unit/spark/test_broker_watch.py, tests/inproc/spark/test_stream_lookups.py)
1. Looks while nothing happens are at least as far apart as the pause says, whoever calls how often.
2. News is noticed at the next look: nothing is remembered in its place.
3. A head that went back is known until the step that named it as lost was taken (``settle``).
4. A queue is gone only if its own master says so; asked at most once a second. A retired broker is left only when the name server was
   asked, and does not name it (``is_answered``).
5. A filter that the brokers do not take is refused before a batch is planned with it (``check_sql92``), not by each task.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sprocketmq.core.retry.retry_schedule import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster, is_system_topic
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.queue_bounds import gone_queues, held_bounds
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["BrokerWatch", "Pace", "check_sql92", "is_read", "source_topics"]

log = logging.getLogger("sprocketmq.spark")

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
# An idle stream asks no more than 200 questions a second, however many topics it reads.
_PAUSE_PER_QUESTION_S: Final = 0.005
_GROWTH: Final = 1.5
_TOPICS_AGE_S: Final = 2.0
_GONE_AGE_S: Final = 1.0
_WARN_EACH_S: Final = 30.0
_PATIENCE_MS: Final = 1_000
_JAVA_CLASS: Final = re.compile(r"^[\w.$]+Exception: ")


@dataclass
class Pace:
    """When the next look is due: later and later while nothing happens. Times in seconds of any clock; ``jitter`` is a factor around 1."""

    pause_s: float = 0.0
    due_s: float = 0.0

    def wait_s(self, now_s: float) -> float:
        """How long until the next look."""
        return max(0.0, self.due_s - now_s)

    def nothing(self, now_s: float, jitter: float, questions: int = 1) -> None:
        """A look of so many ``questions`` brought nothing."""
        longest_s = max(_LONGEST_PAUSE_S, questions * _PAUSE_PER_QUESTION_S)
        self.pause_s = min(max(self.pause_s * _GROWTH, _FIRST_PAUSE_S), longest_s)
        self.due_s = now_s + self.pause_s * jitter

    def news(self) -> None:
        self.pause_s = self.due_s = 0.0


class BrokerWatch:
    """The looks of one stream. ``heads`` is the next offset of every queue as last seen, ``begins`` its smallest, ``newest_ms`` when its
    last message was stored."""

    def __init__(self, options: ReadOptions, clock_s: Callable[[], float] | None = None) -> None:
        self._options, self._clock_s = options, clock_s or time.monotonic
        self.heads: dict[MessageQueue, int] = {}
        self.newest_ms: dict[MessageQueue, int] = {}
        self.begins: dict[MessageQueue, int] = {}
        self.pace = Pace()
        self.questions = 0  # that the last look cost
        self.is_answered = False  # whether the name server said at the last look who is there
        self._topics: tuple[str, ...] | None = None
        self._topics_until_s = 0.0
        self._gone_until_s = 0.0
        self._filter_checked = options.expression_type != "SQL92"
        self._warned_at_s = -_WARN_EACH_S

    @property
    def cluster(self) -> Cluster:
        return Cluster.at(self._options.namesrv_addr, self._options.retry_timeout_ms, self._options.access)

    def check_filter(self) -> None:
        """``check_sql92``, once. Raises ConfigurationError: the brokers refuse the expression."""
        if self._filter_checked:
            return
        try:
            queues = self.cluster.queues(self._source_topics(), missing_ok=True)
        except (NetworkError, RequestTimeout, RemoteError):
            return  # what an absence means, ``bounds`` knows
        self._filter_checked = check_sql92(self._options, self.cluster, queues)

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        """What the brokers hold now. One that is away is waited for, by the user's choice: its queues are just not there.

        Raises:
            NetworkError, RequestTimeout, RemoteError: a broker is away and ``brokerUnavailable`` is fail.
            ConfigurationError: a broker of ``retiredBrokers`` is there.
        """
        waits = self._options.broker_unavailable == "wait"
        self.is_answered = False
        try:
            queues = self.cluster.queues(self._source_topics(), missing_ok=True)
            self._refuse_retired(queues)
            self.is_answered = True
            self.questions = len({(queue.topic, queue.broker_name) for queue in queues})
            bounds = held_bounds(self.cluster, queues, partial=waits)
        except (NetworkError, RequestTimeout, RemoteError) as error:
            if not waits:
                raise
            self.warn("no news from the brokers, the stream waits: %s", error)
            return {}
        for queue, held in bounds.items():
            self.begins[queue] = held.min
            if held.max >= self.heads.get(queue, 0):
                self.heads[queue], self.newest_ms[queue] = held.max, held.newest_ms
        return bounds

    def _refuse_retired(self, queues: Iterable[MessageQueue]) -> None:
        alive = {queue.broker_name for queue in queues} & self._options.retired_brokers
        if alive:
            raise ConfigurationError(
                f"retiredBrokers names {min(alive)}, which is registered and has queues of the query's topics; leave it out, or take the "
                "broker from the cluster first"
            )

    def settle(self, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        """The step that was planned from ``bounds`` is taken, and has named what went back: they are what is known from now on."""
        for queue, held in bounds.items():
            self.heads[queue], self.newest_ms[queue] = held.max, held.newest_ms

    def forget(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self.heads.pop(queue, None)
            self.newest_ms.pop(queue, None)
            self.begins.pop(queue, None)

    def gone(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Reason]:
        """Which of ``queues``, that were not seen, are no more; none while their brokers cannot be asked, or were asked just now."""
        missing = list(queues)
        now_s = self._clock_s()
        if not missing or now_s < self._gone_until_s:
            return {}
        self._gone_until_s = now_s + _GONE_AGE_S
        try:
            found = gone_queues(self.cluster, missing)
        except RocketMQError as error:
            self.warn("no news of %d queues, the stream waits for them: %s", len(missing), error)
            return {}
        if len(found) < len(missing):
            away = next(queue for queue in missing if queue not in found)
            self.warn(
                "no news of %d queues, the stream waits for them, the first is %s", len(missing) - len(found), away
            )
        return found

    def warn(self, text: str, *values: object) -> None:
        """A log line each 30 seconds at most: an outage is long."""
        if self._clock_s() - self._warned_at_s >= _WARN_EACH_S:
            self._warned_at_s = self._clock_s()
            log.warning(text, *values)

    def _source_topics(self) -> tuple[str, ...]:
        now_s = self._clock_s()
        if self._topics is None or now_s >= self._topics_until_s:
            self._topics = source_topics(self._options, self.cluster)
            self._topics_until_s = now_s + _TOPICS_AGE_S * random.uniform(0.8, 1.2)
        return self._topics


def is_read(options: ReadOptions, topic: str) -> bool:
    """Whether a query with these options reads ``topic``: a checkpoint may hold more, from before they were changed."""
    if topic.startswith(RETRY_PREFIX) and options.include_retry and topic == RETRY_PREFIX + options.group:
        return True
    if options.topics_pattern is not None:
        return re.fullmatch(options.topics_pattern, topic) is not None and not is_system_topic(topic)
    return topic in options.topics


def check_sql92(options: ReadOptions, cluster: Cluster, queues: Iterable[MessageQueue]) -> bool:
    """Ask whether the brokers take the expression of ``sql92``. Apache's filter nothing by one that they cannot parse, when it comes with a
    pull (ExpressionMessageFilter: no compiled expression, so everything matches), and say so only here (CHECK_CLIENT_CONFIG).

    Returns:
        Whether a broker answered. The first one that does decides; those that are away cannot be read now either.

    Raises:
        ConfigurationError: the broker refuses it.
    """
    if options.expression_type != "SQL92":
        return True
    one_of_each = {queue.broker_name: queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX)}
    for broker_name, queue in one_of_each.items():
        try:
            # Again by a new route: the broker may have moved, and would be read without its word at its new place.
            cluster.run(lambda queue=queue: _ask_about_filter(options, cluster, queue), _PATIENCE_MS)  # type: ignore[misc]
        except RemoteError as error:
            # Apache's parser goes on for many lines about what it had expected
            why = _JAVA_CLASS.sub("", error.remark.partition("\n")[0].strip().rstrip("."))
            raise ConfigurationError(
                f"sql92 is {options.expression!r}, which broker {broker_name} refuses: {why}; correct the expression, or see that the "
                "broker has enablePropertyFilter=true"
            ) from None
        except RocketMQError:
            continue
        return True
    return False


async def _ask_about_filter(options: ReadOptions, cluster: Cluster, queue: MessageQueue) -> None:
    subscription = bodies.SubscriptionData(
        topic=queue.topic, sub_string=options.expression, expression_type=options.expression_type
    )
    asked = bodies.CheckClientConfigRequestBody(client_id="SPARK", group=options.group, subscription_data=subscription)
    await cluster.api.check_client_config(await cluster.address(queue), asked)


def source_topics(options: ReadOptions, cluster: Cluster) -> tuple[str, ...]:
    """The topics to read now: named or matching ones, and the group's retry topic if asked for."""
    topics = cluster.topics_matching(options.topics_pattern) if options.topics_pattern is not None else options.topics
    retry = (RETRY_PREFIX + options.group,) if options.include_retry else ()
    return topics + retry

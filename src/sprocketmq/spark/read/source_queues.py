# SPDX-License-Identifier: Apache-2.0
"""What the options of a read name at the brokers: its topics and queues, whether they accept its filter, and the offsets where it starts
and ends. For the driver, batch and stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sprocketmq.client.dead_letters.dead_letters import DeadLetters
from sprocketmq.client.remoting.pulls import check_filter, why_refused
from sprocketmq.core.resource_names import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.errors import ConfigurationError, RemoteError, RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.bound import Bound
from sprocketmq.spark.options.named_topics import is_matched
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.group_progress import query_committed
from sprocketmq.spark.read.offset_search import real_min_offsets, search_by_time
from sprocketmq.spark.read.plan import BrokerOffsets
from sprocketmq.spark.read.queue_bounds import queue_bounds
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageQueue

_PATIENCE_MS: Final = 1_000


def source_topics(options: ReadOptions, cluster: Cluster) -> tuple[str, ...]:
    """The topics to read now: the named or matching ones, and the group's retry topic with ``includeRetry``."""
    topics = cluster.topics_matching(options.topics_pattern) if options.topics_pattern is not None else options.topics
    if not options.include_retry:
        return topics
    cluster.make_retry_topic(options.group, topics)
    return (*topics, RETRY_PREFIX + options.group)


def is_read(options: ReadOptions, topic: str) -> bool:
    """Whether a query with these options reads ``topic``. A checkpoint may hold other topics, from before the options changed."""
    if options.include_retry and topic == RETRY_PREFIX + options.group:
        return True
    if options.topics_pattern is not None:
        return is_matched(options.topics_pattern, topic)
    return topic in options.topics


def source_queues(options: ReadOptions, cluster: Cluster, topics: Sequence[str]) -> list[MessageQueue]:
    """Raises TopicNotExist, GroupNotExist (a topic of retries or dead letters has no queues,
    and no broker knows its group)."""
    queues = cluster.queues(topics)
    for topic in topics if not queues else ():
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            group = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
            with DeadLetters(group, namesrv_addr=options.namesrv_addr, **options.access.client_options()) as letters:
                letters.count()  # for its error
    return queues


def fetch_offsets(
    options: ReadOptions, bound: Bound, cluster: Cluster, queues: Sequence[MessageQueue]
) -> BrokerOffsets:
    bounds = queue_bounds(cluster, queues)
    if bound is options.starting:
        bounds = real_min_offsets(cluster, bounds, options.group)
    times_ms = bound.times_ms(queue for queue in bounds if not queue.topic.startswith(RETRY_PREFIX))
    by_time = cluster.run(lambda: search_by_time(cluster, bounds, times_ms, options.group)) if times_ms else {}
    asked = [queue for queue in bounds if bound.kind == "group" or queue.topic.startswith(RETRY_PREFIX)]
    committed = cluster.run(lambda: query_committed(cluster, options.group, asked)) if asked else {}
    if bound.kind == "group" and options.group_offsets_fallback != "error":
        fresh = [queue for queue in asked if queue not in committed and not queue.topic.startswith(RETRY_PREFIX)]
        if fresh:
            troubles.failed(
                ("fresh queues", options.group),
                "group %s has committed nothing for %d of %d queues, the first is %s; they are read from %s (groupOffsetsFallback)",
                *(options.group, len(fresh), len(asked), fresh[0], options.group_offsets_fallback),
            )
    return BrokerOffsets(bounds, by_time, committed)


def check_sql92(options: ReadOptions, cluster: Cluster, queues: Iterable[MessageQueue]) -> bool:
    """Ask the brokers whether they accept the expression of ``sql92``, the first answer decides; returns whether one answered. Apache's
    broker filters nothing if it cannot parse the expression of a pull (ExpressionMessageFilter), and reports the error only for
    CHECK_CLIENT_CONFIG. Raises ConfigurationError (the broker refuses the expression)."""
    if options.expression_type != "SQL92":
        return True
    one_of_each = {queue.broker_name: queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX)}
    for broker_name, queue in one_of_each.items():
        try:
            # Retried with a new route: the broker may have moved.
            cluster.run(lambda queue=queue: _ask_about_filter(options, cluster, queue), _PATIENCE_MS)  # type: ignore[misc]
        except ConfigurationError as error:
            # Behind a proxy, where brokers are not asked (``client.remoting.pulls.check_filter``).
            raise ConfigurationError(f"sql92 is {options.expression!r}: {error}") from None
        except RemoteError as error:
            raise ConfigurationError(
                f"sql92 is {options.expression!r}, which broker {broker_name} refuses: {why_refused(error)}"
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
    await check_filter(cluster, await cluster.master(queue.broker_name, queue.topic), asked)

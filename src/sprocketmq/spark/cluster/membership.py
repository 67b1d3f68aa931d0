# SPDX-License-Identifier: Apache-2.0
"""A heartbeat for the stream's consumer group, so that brokers, dashboards and ``mqadmin`` see it online (Java: HEART_BEAT, 34).

It also makes the brokers create the group and its retry topic; without the group they refuse offset commits. A proxy creates neither, so
there another request makes the retry topic. A daemon thread of Spark's source process sends it and ends with the stream; the brokers drop
the member when the connection closes.

The member announces CONSUME_ACTIVELY ("pull"), as Spark assigns the queues. A push consumer in the same group would still leave it a share
of the queues. So: one group, one query.

%RETRY%group is one topic for the whole group, and a stream reads all of its queues. Two members that read retries would both get each
retried row and both send it back: 2, 4, 8 copies, and as many dead letters. So a stream with ``includeRetry`` does not start while its
group has another member. It waits for a member that is about to leave, as after a restart.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Final

from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.net.address import local_ip
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.troubles import troubles
from sprocketmq.version import __version__
from sprocketmq.wire import bodies
from sprocketmq.wire.bodies import running_info
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

# ClientConfig.heartbeatBrokerInterval
HEARTBEAT_S: Final = 30.0
_ASK_EACH_S: Final = 0.5
# A member that is about to leave, as after a restart, is waited for without a word.
_LEAVES_S: Final = 2.0
_CONSUME_TYPE: Final = "CONSUME_ACTIVELY"


class Membership:
    """One member of a consumer group; ``start`` sends the first heartbeat, then one every 30 seconds. ``committed`` may change later."""

    def __init__(self, cluster: Cluster, options: ReadOptions, committed: Mapping[MessageQueue, int]) -> None:
        self._cluster, self._options, self._committed = cluster, options, committed
        self.client_id = f"{local_ip()}@spark-{os.getpid()}"
        self._started_ms = self._version = time.time_ns() // 1_000_000
        self._stopped = threading.Event()
        self._subscriptions: list[bodies.SubscriptionData] = []

    def start(self) -> None:
        """Raises ConfigurationError if, with ``includeRetry``, another member is still there after ``retryTimeoutMs``."""
        self._wait_until_only_member()
        self._cluster.members[self._options.group] = self.running_info
        self._beat()
        threading.Thread(target=self._run, name="sprocketmq-heartbeat", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._cluster.members.pop(self._options.group, None)

    def running_info(self) -> bodies.ConsumerRunningInfo:
        """The answer to GET_CONSUMER_RUNNING_INFO (307), with the committed offset of each queue; messages in Spark's tasks are no part of
        it."""
        return bodies.ConsumerRunningInfo(
            properties={
                running_info.PROP_NAMESERVER_ADDR: self._cluster.namesrv_addr,
                running_info.PROP_CONSUME_TYPE: _CONSUME_TYPE,
                running_info.PROP_CONSUME_ORDERLY: str(self._options.ordered).lower(),
                running_info.PROP_THREADPOOL_CORE_SIZE: "0",
                running_info.PROP_CONSUMER_START_TIMESTAMP: str(self._started_ms),
                running_info.PROP_CLIENT_VERSION: f"SprocketMQ {__version__}",
            },
            subscription_set=self._subscriptions,
            mq_table={queue: bodies.ProcessQueueInfo(commit_offset=at) for queue, at in dict(self._committed).items()},
            status_table={entry.topic: bodies.ConsumeStatus() for entry in self._subscriptions},
        )

    def _wait_until_only_member(self) -> None:
        deadline_s = time.monotonic() + self._options.retry_timeout_ms / 1000
        tell_at_s: float | None = time.monotonic() + _LEAVES_S
        while others := self._others():
            if not self._options.include_retry:
                troubles.failed(
                    ("another member", self._options.group),
                    "group %s has another member, %s: progress and lag of the group on the brokers are those of both; give each "
                    "query, and each source of one, a group of its own", self._options.group, ", ".join(others),
                )  # fmt: skip
                return
            if time.monotonic() > deadline_s:
                raise ConfigurationError(
                    f"group {self._options.group!r} has another member, {', '.join(others)}, and includeRetry is true: both would get "
                    "each retry and send it back, so that one bad row becomes 2, 4, 8; stop the other one, or give each query a group of "
                    "its own"
                )
            if tell_at_s is not None and time.monotonic() > tell_at_s:
                tell_at_s = None
                troubles.failed(
                    ("leaving", self._options.group),
                    "the query waits for %s to leave group %s, which reads retries for one query only; at most %d ms",
                    ", ".join(others), self._options.group, self._options.retry_timeout_ms,
                )  # fmt: skip
            self._stopped.wait(_ASK_EACH_S)

    def _others(self) -> list[str]:
        """The other members that the brokers know; empty if the brokers cannot be reached."""
        try:
            members = self._cluster.engine.run(self._cluster.members_of(self._options.group, self._topics()))
        except RocketMQError as error:
            log.info("whether group %s has another member is not known: %s", self._options.group, error)
            return []
        return sorted(members - {self.client_id})

    def _run(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S):
            self._beat()
            if self._options.include_retry and (others := self._others()):  # it joined after ``start``
                sentence = "group %s has another member now, %s: both get each retry and send it back; stop one of them"
                args, group = (self._options.group, ", ".join(others)), self._options.group
                troubles.failed("other members", sentence, *args, of=group, level=logging.ERROR)

    def _beat(self) -> None:
        try:
            topics = self._topics()
            self._cluster.make_retry_topic(self._options.group, topics)
            self._cluster.engine.run(self._cluster.heartbeat(self._data(topics), topics))
        except RocketMQError as error:
            sentence, group = "no heartbeat for group %s this time, the query reads on: %s", self._options.group
            self._cluster.outages.failed("heartbeats", error, sentence, group, error, of=group)

    def _topics(self) -> list[str]:
        options = self._options
        if options.topics_pattern is None:
            return list(options.topics)
        return list(self._cluster.topics_matching(options.topics_pattern))

    def _data(self, topics: list[str]) -> bodies.HeartbeatData:
        options = self._options
        subscriptions = [self._subscription(topic, options.expression, options.expression_type) for topic in topics]
        subscriptions.append(self._subscription(RETRY_PREFIX + options.group, "*", "TAG"))
        self._subscriptions = subscriptions
        member = bodies.ConsumerData(
            group_name=options.group,
            consume_type=_CONSUME_TYPE,
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            subscription_data_set=subscriptions,
            unit_mode=False,
        )
        return bodies.HeartbeatData(client_id=self.client_id, producer_data_set=[], consumer_data_set=[member])

    def _subscription(self, topic: str, expression: str, kind: str) -> bodies.SubscriptionData:
        tags = set(self._options.tags) if kind == "TAG" and expression != "*" else set()
        return bodies.SubscriptionData(
            topic=topic,
            sub_string=expression,
            tags_set=tags,
            code_set={tags_code(tag) for tag in tags},
            sub_version=self._version,
            expression_type=kind,
        )

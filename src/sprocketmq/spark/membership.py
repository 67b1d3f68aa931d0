"""A heartbeat for the stream's consumer group, so that brokers, dashboards and ``mqadmin`` see it online (Java: HEART_BEAT, 34).

It also makes the brokers create the group and its retry topic, without which a commit of progress is refused. A daemon thread of Spark's
source process; it dies with the stream, and the brokers drop the member when the connection closes.

The member says that it consumes actively (CONSUME_ACTIVELY, "pull"): its progress is Spark's, no queue is taken from anybody by it.
A push consumer in the same group would still give it a share of the queues: one group, one query.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

from sprocketmq.errors import RocketMQError
from sprocketmq.net.address import local_ip
from sprocketmq.spark.cluster import Cluster
from sprocketmq.spark.options import ReadOptions
from sprocketmq.spark.plan import RETRY_PREFIX
from sprocketmq.wire import bodies
from sprocketmq.wire.hashing import tags_code

__all__ = ["HEARTBEAT_S", "Membership"]

log = logging.getLogger("sprocketmq.spark")

# ClientConfig.heartbeatBrokerInterval
HEARTBEAT_S: Final = 30.0


class Membership:
    """One member of a consumer group. ``start`` sends the first heartbeat before it returns, then one each 30 seconds."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        self._cluster, self._options = cluster, options
        self.client_id = f"{local_ip()}@spark-{os.getpid()}"
        self._version = time.time_ns() // 1_000_000
        self._stopped = threading.Event()

    def start(self) -> None:
        self._beat()
        threading.Thread(target=self._run, name="sprocketmq-heartbeat", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S):
            self._beat()

    def _beat(self) -> None:
        try:
            topics = self._topics()
            self._cluster.engine.run(self._cluster.heartbeat(self._data(topics), topics))
        except RocketMQError as error:
            log.warning("no heartbeat for group %s this time: %s", self._options.group, error)

    def _topics(self) -> list[str]:
        options = self._options
        if options.topics_pattern is None:
            return list(options.topics)
        return list(self._cluster.topics_matching(options.topics_pattern))

    def _data(self, topics: list[str]) -> bodies.HeartbeatData:
        options = self._options
        subscriptions = [self._subscription(topic, options.expression, options.expression_type) for topic in topics]
        subscriptions.append(self._subscription(RETRY_PREFIX + options.group, "*", "TAG"))
        member = bodies.ConsumerData(
            group_name=options.group,
            consume_type="CONSUME_ACTIVELY",
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

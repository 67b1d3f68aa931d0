# SPDX-License-Identifier: Apache-2.0
"""Which queue a message is sent to: the caller's choice, or the next in turn (Java: TopicPublishInfo, MQFaultStrategy), by
``core.produce.send_latency``. Callers use names without the namespace, routes and brokers names with it."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Sequence

from sprocketmq.client.remoting.cluster import Cluster, queue_header
from sprocketmq.client.remoting.send import QueueSelector, Send
from sprocketmq.client.settings.namespace import unwrap_queue, wrap, wrap_queue
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.validators import check_queue, check_topic
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.produce.send_latency import LatencyFaultTable, QueueRoundRobin, queue_of_sharding_key
from sprocketmq.errors import ConfigurationError, NetworkError, RequestTimeout
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire import requests
from sprocketmq.wire.records.message import Message, MessageQueue

log = logging.getLogger("sprocketmq.client")


def left_until(end_s: float) -> int:
    """The milliseconds until ``end_s`` of the loop's clock, at least 1."""
    return max(1, math.ceil((end_s - asyncio.get_running_loop().time()) * 1000))


class QueueChoice:
    """The queues that one producer group sends to. ``turns``: the round robin of each topic, by the name that brokers know."""

    def __init__(self, cluster: Cluster, clock: Clock, settings: SendSettings, namespace: str | None) -> None:
        self._cluster, self._routes, self._clock = cluster, cluster.routes, clock
        self._settings, self._namespace = settings, namespace
        self._latency = LatencyFaultTable() if settings.send_latency_fault_enable else None
        self.turns: dict[str, QueueRoundRobin] = {}
        for topic in settings.topics:
            self.turn(wrap(namespace, topic))

    @property
    def topics(self) -> set[str]:
        """The topics whose routes are refreshed: those that were sent to, and those of the option ``topics``."""
        return set(self.turns)

    def has_route(self, topic: str) -> bool:
        """Whether the route of ``topic`` is known, so that its brokers have got a heartbeat or will get one with the next round."""
        return self._routes.table.route(wrap(self._namespace, topic)) is not None

    async def queues(self, topic: str, end_s: float | None = None) -> list[MessageQueue]:
        """The queues for ``topic``, as brokers know it. The name server may be asked until ``end_s`` of the loop's clock."""
        left_ms = None if end_s is None else left_until(end_s)
        settings = self._settings
        return await self._routes.publish_queues(
            topic, settings.create_topic_key, settings.default_topic_queue_nums, left_ms
        )

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        queues = await self.queues(wrap(self._namespace, check_topic(topic)))
        return [unwrap_queue(self._namespace, queue) for queue in queues]

    async def chosen_by_caller(self, send: Send) -> MessageQueue | None:
        """The queue that the caller chose by ``queue``, ``selector`` or ``sharding_key``; None when any queue will do. The name server
        may be asked until ``send.end_s``; None where the topic's queues are known."""
        queue, selector, sharding_key, topic = send.queue, send.selector, send.sharding_key, send.topic
        send.check_choice()
        self.turn(topic)
        if queue is not None:
            return self.given(queue, send)
        if sharding_key is not None:
            return queue_of_sharding_key(sharding_key, await self.queues(topic, send.end_s))
        if selector is not None:
            return self.selected(selector, await self.queues(topic, send.end_s), send.message)
        return None

    def given(self, queue: MessageQueue, send: Send) -> MessageQueue:
        """``queue`` as brokers know it. Raises ConfigurationError: it is none of the topic."""
        queue = check_queue(queue)
        if wrap(self._namespace, queue.topic) != send.topic:
            raise ConfigurationError(f"queue is {queue}, a MessageQueue of topic {send.message.topic!r} is allowed")
        return wrap_queue(self._namespace, queue)

    def selected(self, selector: QueueSelector, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        offered = [unwrap_queue(self._namespace, queue) for queue in queues]
        try:
            chosen = selector(offered, message)
        except TypeError:  # checked only after the error, because each send may have its own selector
            check_callback("selector", selector, "queues, message")
            raise
        if chosen not in offered:
            raise ConfigurationError(
                f"the selector returned {chosen!r}, one of the {len(offered)} queues it was given is allowed"
            )
        return wrap_queue(self._namespace, chosen)

    def turn(self, topic: str) -> QueueRoundRobin:
        """The round robin of ``topic``, as brokers know it; its route is refreshed from now on."""
        turn = self.turns.get(topic)
        if turn is None:
            turn = self.turns[topic] = QueueRoundRobin(random.randrange(1 << 16))
        return turn

    def next_queue(self, topic: str, queues: list[MessageQueue], last_broker: str | None) -> MessageQueue:
        """The queue for the next try; another broker than ``last_broker`` if there is one."""
        latency = self._latency
        if latency is None:
            return self.turn(topic).choose(queues, last_broker)
        now_ms = self._clock.steady_ms()
        return self.turn(topic).choose(
            queues, last_broker, lambda name: latency.is_available(name, now_ms), latency.is_reachable
        )

    def record_try(self, queue: MessageQueue, started_s: float, error: Exception | None) -> None:
        if self._latency is not None:
            spent_ms = int((asyncio.get_running_loop().time() - started_s) * 1000)
            self._latency.update(
                queue.broker_name,
                spent_ms,
                self._clock.steady_ms(),
                isolated=error is not None,
                reachable=not isinstance(error, NetworkError),
            )

    async def detect(self) -> None:
        """Ask each broker that could not be reached lately whether it answers (Java: LatencyFaultToleranceImpl.detectByOneRound)."""
        latency, topic = self._latency, next(iter(self.turns), None)
        if latency is None or topic is None:
            return
        for name in latency.to_detect(self._clock.steady_ms(), self._settings.detect_interval_ms):
            address = self._routes.table.master_address(name)
            if address is None:
                latency.remove(name)
                continue
            asked = requests.offsets.GET_MAX_OFFSET
            command = asked.command(queue_header(asked, MessageQueue(topic, name, 0)))
            try:
                await self._cluster.invoke(address, command, self._settings.detect_timeout_ms)
            except (NetworkError, RequestTimeout) as error:
                log.debug("broker %s still cannot be reached: %s", name, error)
            else:
                latency.detected(name)

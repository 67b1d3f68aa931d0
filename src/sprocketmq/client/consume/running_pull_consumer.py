# SPDX-License-Identifier: Apache-2.0
"""A started pull consumer: a running consumer whose service waits for polls, and the check for queues that topics get or lose."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from sprocketmq.client.async_client import in_order
from sprocketmq.client.consume.poll_service import MessageQueueListener, PollService, TopicQueuesListener, call_listener
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.settings.namespace import unwrap, unwrap_queue
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.client")

_FIRST_METADATA_CHECK_MS: Final = 10_000


class RunningPullConsumer:
    """The parts of one started pull consumer. Belongs to its loop.

    Args:
        assigned: read exactly these queues; None: the group shares them.
        listeners, topic_listeners: by topic, as brokers know it; they may change while it runs.

    Attributes: ``commits_at_stop``: what was handed out counts as consumed when it stops.
    """

    def __init__(
        self,
        options: ClientOptions,
        settings: PullSettings,
        subscriptions: dict[str, bodies.SubscriptionData],
        assigned: set[MessageQueue] | None,
        listeners: Mapping[str, MessageQueueListener],
        topic_listeners: Mapping[str, TopicQueuesListener],
        hooks: Hooks,
    ) -> None:
        self.commits_at_stop = False
        self.consumer = RunningConsumer(
            options,
            settings.as_push_settings(),
            subscriptions,
            lambda group: PollService(group, listeners, lambda topic: self.topics.known(topic)),
            consume_type=bodies.ConsumeType.CONSUME_ACTIVELY,
            with_retry_topic=False,
            own_settings=settings,
            suspend_ms=settings.broker_suspend_max_time_ms,
            pull_timeout_ms=settings.consumer_timeout_when_suspend_ms,
            hooks=hooks,
        )
        self.topics = TopicWatch(
            self.consumer, topic_listeners, options.namespace, settings.topic_metadata_check_interval_ms
        )
        service = self.consumer.service
        assert isinstance(service, PollService)
        self._service = service
        service.queues.max_waiting = settings.pull_threshold_for_all
        self.consumer.watcher = service
        self.consumer.rebalancer.fixed = assigned

    @property
    def runs_caller(self) -> bool:
        return self.consumer.runs_caller

    async def start(self) -> None:
        await self.consumer.start()
        self.topics.start()

    async def stop(self) -> None:
        self.topics.stop()
        if self.commits_at_stop:
            self._service.commit()
        await in_order(self.consumer.stop)


class TopicWatch:
    """Calls listeners when topics get or lose queues, which are looked up each ``interval_ms``. Belongs to the loop of its consumer."""

    def __init__(
        self,
        consumer: RunningConsumer,
        listeners: Mapping[str, TopicQueuesListener],
        namespace: str | None,
        interval_ms: int,
    ) -> None:
        self._consumer, self._listeners = consumer, listeners
        self._namespace, self._interval_ms = namespace, interval_ms
        self._queues: dict[str, list[MessageQueue]] = {}
        self._tasks = Tasks(log, f"group {consumer.member.name}: the look for new queues")
        self._is_started = False

    def known(self, topic: str) -> list[MessageQueue]:
        """The readable queues of ``topic`` by its route, sorted."""
        return sorted(self._consumer.instance.routes.table.subscribe_queues(topic))

    def start(self) -> None:
        """Begin to look; harmless when it does."""
        if self._listeners and not self._is_started:
            self._is_started = True
            self._tasks.keep(self._watch, self._consumer.member.clock)

    def stop(self) -> None:
        self._tasks.cancel()

    async def look_again(self, topic: str) -> None:
        """A listener was registered: note the present queues, so that it is called only for changes."""
        self._queues[topic] = await self._look_up(topic)
        self.start()

    async def _watch(self) -> None:
        for topic in list(self._listeners):
            if topic not in self._queues:
                self._queues[topic] = await self._look_up(topic)
        delay_ms = _FIRST_METADATA_CHECK_MS
        while True:
            await self._consumer.member.clock.sleep(min(delay_ms, self._interval_ms))
            delay_ms = self._interval_ms
            for topic, listener in list(self._listeners.items()):
                queues = await self._look_up(topic)
                if queues != self._queues.get(topic):
                    self._queues[topic] = queues
                    outside = [unwrap_queue(self._namespace, queue) for queue in queues]
                    await call_listener(listener, unwrap(self._namespace, topic), outside)

    async def _look_up(self, topic: str) -> list[MessageQueue]:
        await self._consumer.instance.routes.refresh_all([topic])
        return self.known(topic)

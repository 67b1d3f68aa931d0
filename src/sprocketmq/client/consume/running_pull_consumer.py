# SPDX-License-Identifier: Apache-2.0
"""A started pull consumer: a running consumer whose service waits for polls, and the check for queues that topics get or lose."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from sprocketmq.client.consume.poll_service import MessageQueueListener, PollService, TopicQueuesListener, call_listener
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.settings.namespace import unwrap, unwrap_queue
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullDue
from sprocketmq.net.process.clock import watch
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.client")

_FIRST_METADATA_CHECK_MS: Final = 10_000


class RunningPullConsumer(RunningConsumer):
    """One started pull consumer. ``assigned``: read exactly these queues; None: the group shares them. ``listeners``,
    ``topic_listeners``: by topic, as brokers know it; they may change while it runs. ``commits_at_stop``: what was
    handed out counts as consumed then."""

    consume_type = bodies.ConsumeType.CONSUME_ACTIVELY
    with_retry_topic = False
    own_settings: PullSettings
    service: PollService

    def __init__(
        self,
        options: ClientOptions,
        settings: PullSettings,
        subscriptions: dict[str, bodies.SubscriptionData],
        hooks: Hooks,
        assigned: set[MessageQueue] | None,
        listeners: Mapping[str, MessageQueueListener],
        topic_listeners: Mapping[str, TopicQueuesListener],
    ) -> None:
        super().__init__(options, settings.as_push_settings(), subscriptions, hooks)
        self.own_settings = settings
        self.suspend_ms = settings.broker_suspend_max_time_ms
        self.pull_timeout_ms = settings.consumer_timeout_when_suspend_ms
        self.commits_at_stop = False
        self.topic_watch = TopicWatch(self, topic_listeners)
        self.service = PollService(self, listeners)
        watch(options.clock, self.service)
        self.rebalancer.assigned = assigned

    async def start(self) -> None:
        await super().start()
        self.topic_watch.start()

    async def stop(self) -> None:
        self.topic_watch.stop()
        if self.commits_at_stop:
            self.service.commit()
        await super().stop()

    def start_loop(self, process_queue: ProcessQueue, offset: int) -> None:
        if not self.stopping:
            self.service.queue_added(process_queue, offset)
            super().start_loop(process_queue, offset)

    def pull_state(self, queue: MessageQueue) -> PullDue:
        paused = self.paused or queue in self.service.paused_queues
        return PullDue(not self.stopping, paused, queue.topic in self.subscriptions, self.service.is_full())

    def correct_offset(self, process_queue: ProcessQueue, offset: int) -> None:
        self.service.skipped(process_queue, offset)

    def offset_illegal(self, queue: MessageQueue, offset: int, has_lost_end: bool) -> None:
        """What was handed out and is not committed is not finished, if a power cut took the end of the queue behind it."""
        if has_lost_end:
            offset = min(offset, self.service.queues.done(queue, offset))
        super().offset_illegal(queue, offset, has_lost_end)

    def queues_changed(self, topic: str) -> None:
        super().queues_changed(topic)
        self.service.queues_changed(topic)


class TopicWatch:
    """Calls listeners when topics get or lose queues, which are looked up each ``topic_metadata_check_interval_ms``."""

    def __init__(self, consumer: RunningPullConsumer, listeners: Mapping[str, TopicQueuesListener]) -> None:
        self._consumer, self._listeners = consumer, listeners
        self._queues: dict[str, list[MessageQueue]] = {}  # of which the listeners know
        self._fetched: dict[str, list[MessageQueue]] = {}
        self._tasks = Tasks(log, f"group {consumer.name}: the check for new queues")
        self._is_started = False

    def known(self, topic: str) -> list[MessageQueue]:
        return sorted(self._consumer.instance.cluster.routes.table.subscribe_queues(topic))

    def fetched(self, topic: str) -> list[MessageQueue]:
        """The known queues. Who fetches them may assign these, so a listener is called also for what differs from them: a broker may be
        away for a moment between two checks."""
        queues = self.known(topic)
        if self._fetched.get(topic) in (None, self._queues.get(topic)):  # else one is still to be told of
            self._fetched[topic] = queues
        return queues

    def start(self) -> None:
        if self._listeners and not self._is_started:
            self._is_started = True
            self._tasks.keep(self._check_periodically, self._consumer.clock)

    def stop(self) -> None:
        self._tasks.cancel()

    async def note_queues(self, topic: str) -> None:
        """A listener was registered: note the present queues, so that it is called only for changes."""
        self._queues[topic] = await self._query(topic)
        self.start()

    async def _check_periodically(self) -> None:
        for topic in list(self._listeners):
            if topic not in self._queues:
                self._queues[topic] = await self._query(topic)
        consumer, delay_ms = self._consumer, _FIRST_METADATA_CHECK_MS
        while True:
            interval_ms = consumer.own_settings.topic_metadata_check_interval_ms
            await consumer.clock.sleep(min(delay_ms, interval_ms))
            delay_ms = interval_ms
            for topic, listener in list(self._listeners.items()):
                queues = await self._query(topic)
                if queues != self._queues.get(topic) or queues != self._fetched.get(topic, queues):
                    self._queues[topic] = queues
                    self._fetched.pop(topic, None)
                    outside = [unwrap_queue(consumer.namespace, queue) for queue in queues]
                    troubles = consumer.instance.cluster.outages.troubles
                    await call_listener(troubles, listener, unwrap(consumer.namespace, topic), outside)

    async def _query(self, topic: str) -> list[MessageQueue]:
        await self._consumer.instance.cluster.routes.refresh_all([topic])
        return self.known(topic)

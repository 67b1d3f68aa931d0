# SPDX-License-Identifier: Apache-2.0
"""The consume service of a pull consumer: messages wait for ``poll`` in ``core.consume.polled_queues``.

New queues wait until the listener for changed queues has returned: so if it seeks, no message from before the seek is
handed out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from sprocketmq.client.hooks import ConsumeMessageContext
from sprocketmq.client.listen.consume_service import ConsumeService
from sprocketmq.client.settings.namespace import unwrap, unwrap_queue
from sprocketmq.core.callbacks import is_async
from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus
from sprocketmq.core.consume.polled_queues import PolledQueues
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.troubles import Troubles, raised_at
from sprocketmq.wire.records.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_pull_consumer import RunningPullConsumer

log = logging.getLogger("sprocketmq.client")

MessageQueueListener = Callable[[str, "list[MessageQueue]", "list[MessageQueue]"], "Awaitable[None] | None"]
"""``(topic, all its queues, ours)``, plain or ``async def`` (Java: MessageQueueListener)."""
TopicQueuesListener = Callable[[str, "list[MessageQueue]"], "Awaitable[None] | None"]
"""``(topic, all its queues)``, plain or ``async def`` (Java: TopicMessageQueueChangeListener)."""
TakenMessages: TypeAlias = "tuple[ProcessQueue, list[MessageExt]]"


async def call_listener(troubles: Troubles, listener: Callable[..., Any], *args: object) -> None:
    """Run a listener: an ``async def`` one here, a plain one in a thread. Exceptions are logged."""
    try:
        if is_async(listener):
            await listener(*args)
        else:
            await asyncio.to_thread(listener, *args)
    except Exception as error:  # noqa: BLE001 - logged
        sentence = "a listener for queues of topic %s failed"
        troubles.failed(raised_at(error), sentence, args[0], level=logging.ERROR, error=error)


class PollService(ConsumeService):
    """The service of one pull consumer. ``listeners``: for changed queues, by topic; they may change while it runs."""

    def __init__(self, consumer: RunningPullConsumer, listeners: Mapping[str, MessageQueueListener]) -> None:
        self.queues = PolledQueues(consumer.own_settings.pull_threshold_for_all)
        self.paused_queues: set[MessageQueue] = set()
        self._consumer, self._listeners = consumer, listeners
        self._arrived = asyncio.Event()
        self._announced: dict[str, set[MessageQueue]] = {}
        self._last_queues: dict[str, tuple[list[MessageQueue], list[MessageQueue]]] = {}
        self._notifying: set[str] = set()  # topics
        self._tasks = Tasks(log, f"group {consumer.name}: a call for changed queues")
        self._waiting_for_room = False
        self._closed = False

    # -- ConsumeService ----------------------------------------------------------------------------------------------------------

    connections = ()  # none of its own (``net.process.clock.Watched``)

    @property
    def is_busy(self) -> bool:
        return len(self._tasks) > 0

    @property
    def calls(self) -> frozenset[object]:
        return frozenset(self._tasks)

    def submit(self, process_queue: ProcessQueue) -> None:
        if self.queues.arrived(process_queue):
            self._arrived.set()

    async def consume_directly(self, messages: object) -> Any:
        raise ConfigurationError("a pull consumer has no listener to consume a message with")

    async def close(self, timeout_ms: float) -> bool:
        await self._tasks.close()
        self._closed = True
        self._arrived.set()
        return True

    # -- what the running consumer calls; none of it blocks ------------------------------------------------------------------------

    def queue_added(self, process_queue: ProcessQueue, offset: int) -> None:
        queue = process_queue.queue
        assert queue is not None
        unannounced = queue.topic in self._listeners and queue not in self._announced.get(queue.topic, ())
        self.queues.queue_added(process_queue, offset, withheld=unannounced)

    def skipped(self, process_queue: ProcessQueue, offset: int) -> None:
        """Nothing is cached and the filter left out everything before ``offset``."""
        if self.queues.skipped(process_queue, offset) and process_queue.queue is not None:
            self._consumer.offset_store.progress.update(process_queue.queue, offset)

    def is_full(self) -> bool:
        if self.queues.is_full:
            self._waiting_for_room = True
        return self.queues.is_full

    def queues_changed(self, topic: str) -> None:
        self.paused_queues.difference_update(self.queues.remove_dropped())
        if topic not in self._listeners:
            return
        self._announced.setdefault(topic, set()).intersection_update(self._ours(topic))
        if topic not in self._notifying:
            self._notifying.add(topic)
            self._tasks.keep(partial(self._notify, topic), self._consumer.clock)

    async def _notify(self, topic: str) -> None:
        """Call the listener, again if the queues have changed meanwhile."""
        while True:
            everything, ours = self._consumer.topic_watch.known(topic), self._ours(topic)
            has_changed = self._last_queues.get(topic) != (everything, ours)
            if has_changed:
                self._last_queues[topic] = (everything, ours)
                namespace = self._consumer.namespace
                shown = [[unwrap_queue(namespace, queue) for queue in queues] for queues in (everything, ours)]
                troubles = self._consumer.instance.cluster.outages.troubles
                await call_listener(troubles, self._listeners[topic], unwrap(namespace, topic), *shown)
            self._announced[topic] = set(ours).intersection(self._ours(topic))
            self.queues.release(self._announced[topic])
            self._arrived.set()
            if not has_changed:
                self._notifying.discard(topic)
                return

    def _ours(self, topic: str) -> list[MessageQueue]:
        return sorted(queue for queue in self.queues.positions() if queue.topic == topic)

    # -- polling -----------------------------------------------------------------------------------------------------------------

    async def poll(self, max_messages: int, timeout_ms: float) -> list[TakenMessages]:
        """After messages are taken there is no ``await``, so a cancelled call has taken none."""
        taken = self._take(max_messages)
        if taken or timeout_ms <= 0:
            return taken
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_ms / 1000
        while not taken:
            self._arrived.clear()
            if not await self._arrives(max(end_s - loop.time(), 0)):
                return []
            if self._closed:  # no call could commit what is handed out now
                return []
            taken = self._take(max_messages)
        return taken

    async def _arrives(self, timeout_s: float) -> bool:
        # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with what was waited for.
        arrival = asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait([arrival], timeout=timeout_s)
            return arrival.done()
        finally:
            arrival.cancel()

    def _take(self, max_messages: int) -> list[TakenMessages]:
        taken = self.queues.take(max_messages, self._consumer.clock.now_ms())
        for process_queue, part in taken:
            self._consumer.messages_left(process_queue)
            if self._consumer.hooks.consume:
                self._call_hooks(process_queue, part)
        return taken

    def put_back(self, taken: Iterable[TakenMessages]) -> None:
        """The caller did not get these messages: they wait again, in their places."""
        for process_queue, messages in taken:
            self.queues.put_back(process_queue, messages)
        self._arrived.set()

    def _call_hooks(self, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        """Messages that were handed out count as consumed, as in Java."""
        consumer, queue = self._consumer, process_queue.queue
        assert queue is not None
        hook_context = ConsumeMessageContext(
            consumer.own_name,
            unwrap_queue(consumer.namespace, queue),
            messages,
            consumer.clock.now_ms(),
            consumer.client_id,
        )
        consumer.hooks.before_consume(hook_context)
        hook_context.status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        consumer.hooks.after_consume(hook_context)

    def has_room_again(self) -> bool:
        """Whether pull loops wait because too many messages waited, and now there is room."""
        if self._waiting_for_room and not self.queues.is_full:
            self._waiting_for_room = False
            return True
        return False

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> dict[MessageQueue, int]:
        """Record ``offsets``, or all uncommitted positions, as progress in memory. Returns what is recorded."""
        progress, done = self._consumer.offset_store.progress, {}
        for queue, offset in (self.queues.to_commit() if offsets is None else offsets).items():
            if self.queues.position(queue) is None:
                log.info("group %s: %s moved away, offset %d is not committed", self._consumer.name, queue, offset)
            elif progress.update(queue, offset, increase_only=False):
                self.queues.committed(queue, offset)
                done[queue] = offset
        return done

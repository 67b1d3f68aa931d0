"""Consuming by asking: AsyncPullConsumer, and PullConsumer, its blocking face (Java: DefaultLitePullConsumer).

    subscribe(topic): the group shares the queues, as push consumers do       assign([...]): exactly these queues, no group
                                   \\                                           /
                                    `--> pull loops --> process queues --> poll() hands out, commit() records

It is a push consumer whose listener is the caller: same rebalance, pull loops, flow control and offset store. Progress is the offset after
the messages that ``poll`` handed out before the present call: with auto commit, a message counts as done when the next ``poll`` is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sprocketmq.client.face import BlockingFace
from sprocketmq.client.group import Group
from sprocketmq.client.options import ClientOptions
from sprocketmq.client.push_settings import PushSettings
from sprocketmq.client.running_consumer import RunningConsumer
from sprocketmq.client.split_options import split_options
from sprocketmq.client.validators import check_range, check_topic
from sprocketmq.core.process_queue import ProcessQueue
from sprocketmq.core.subscription import FilterExpression, build_subscription
from sprocketmq.errors import ClosedError, ConfigurationError
from sprocketmq.net.engine import Engine
from sprocketmq.wire import bodies
from sprocketmq.wire.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AsyncPullConsumer", "PullConsumer"]


class _PollService:
    """The consume service of a pull consumer: messages wait in their process queues until somebody polls."""

    orderly = False

    def __init__(self, group: Group) -> None:
        self._group = group
        self._ready: dict[ProcessQueue, None] = {}  # in order of arrival: no queue starves
        self._handed_out: dict[ProcessQueue, list[MessageExt]] = {}
        self._arrived = asyncio.Event()

    def start(self) -> None:
        """Nothing to start."""

    def resize(self, workers: int) -> None:
        """There are no workers."""

    def submit(self, process_queue: ProcessQueue) -> None:
        self._ready[process_queue] = None
        self._arrived.set()

    async def close(self, timeout_ms: float) -> bool:
        self._ready.clear()
        self._arrived.set()
        return True

    async def consume_directly(self, messages: object) -> Any:
        raise ConfigurationError("a pull consumer has no listener to consume a message with")

    async def poll(self, count: int, timeout_ms: float) -> list[MessageExt]:
        messages = self._take(count)
        if messages or timeout_ms <= 0:
            return messages
        end_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        while not messages:
            left_s = end_s - asyncio.get_running_loop().time()
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), max(left_s, 0))
            except asyncio.TimeoutError:
                return []
            messages = self._take(count)
            if not messages and not self._ready and left_s <= 0:
                return []
        return messages

    def _take(self, count: int) -> list[MessageExt]:
        messages: list[MessageExt] = []
        now_ms = self._group.clock.now_ms()
        for process_queue in list(self._ready):
            taken = process_queue.take(count - len(messages), now_ms)
            if taken:
                self._handed_out.setdefault(process_queue, []).extend(taken)
                messages += taken
            if process_queue.dropped or not process_queue.pending_count:
                del self._ready[process_queue]
            if len(messages) >= count:
                break
        return messages

    def settle(self) -> None:
        """Everything handed out so far is done: progress moves behind it."""
        handed_out, self._handed_out = self._handed_out, {}
        for process_queue, messages in handed_out.items():
            offset = process_queue.done(messages)
            if offset is not None and process_queue.queue is not None:
                self._group.offset_store.progress.update(process_queue.queue, offset)
                self._group.settled(process_queue)


class AsyncPullConsumer:
    """Receives messages by ``poll`` on a running event loop.

    ::

        async with AsyncPullConsumer("backfill", namesrv_addr="127.0.0.1:9876") as consumer:
            await consumer.subscribe("flights")
            for message in await consumer.poll(timeout_ms=1000): ...

    Args:
        group: the consumer group.
        auto_commit: a message counts as consumed when the next ``poll`` is made; False leaves it to ``commit``.
        options: those of ``ClientOptions`` and ``PushSettings`` (``consume_from_where``, ``pull_batch_size``, thresholds, ...).
    """

    def __init__(self, group: str, *, auto_commit: bool = True, **options: Any) -> None:
        self._options, settings = split_options(options, ClientOptions, PushSettings, "a pull consumer")
        self._settings = PushSettings(group=group, **settings)
        self._auto_commit = auto_commit
        self._subscriptions: dict[str, bodies.SubscriptionData] = {}
        self._assigned: set[MessageQueue] | None = None
        self._running: RunningConsumer | None = None

    @property
    def group(self) -> str:
        return self._settings.group

    async def start(self) -> None:
        """Join the client instance. Harmless when started already."""
        if self._running is None:
            running = RunningConsumer(
                self._options,
                self._settings,
                self._subscriptions,
                _PollService,
                consume_type=bodies.ConsumeType.CONSUME_ACTIVELY,
                with_retry_topic=False,
            )
            running.rebalancer.fixed = self._assigned
            try:
                await running.start()
            except BaseException:
                await running.stop()
                raise
            self._running = running

    async def shutdown(self) -> None:
        """Commit what was handed out (with ``auto_commit``), persist progress, leave. Harmless twice."""
        running, self._running = self._running, None
        if running is not None:
            if self._auto_commit:
                self._service(running).settle()
            await running.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    async def subscribe(self, topic: str, expression: FilterExpression | str | None = "*") -> None:
        """Share the queues of ``topic`` with the other members of the group."""
        if self._assigned is not None:
            raise ConfigurationError("queues were assigned by hand, a consumer either subscribes or is assigned")
        check_topic(topic)
        self._subscriptions[topic] = build_subscription(topic, expression, self._options.clock.now_ms())
        await self._changed()

    async def assign(self, queues: Iterable[MessageQueue], expression: FilterExpression | str | None = "*") -> None:
        """Read exactly these queues, whatever the group does."""
        if self._subscriptions and self._assigned is None:
            raise ConfigurationError("topics were subscribed, a consumer either subscribes or is assigned")
        self._assigned = set(queues)
        now_ms = self._options.clock.now_ms()
        self._subscriptions.clear()
        self._subscriptions.update(
            {queue.topic: build_subscription(queue.topic, expression, now_ms) for queue in self._assigned}
        )
        await self._changed()

    async def _changed(self) -> None:
        running = self._running
        if running is not None:
            running.rebalancer.fixed = self._assigned
            for topic in self._subscriptions:
                await running.instance.routes.refresh(topic)
            await running.instance.heartbeat()
            await running.rebalance()

    async def poll(self, max_messages: int = 32, *, timeout_ms: float = 5_000) -> list[MessageExt]:
        """The next messages, oldest first per queue; waits up to ``timeout_ms`` for the first, returns [] when none came."""
        running = self._started()
        check_range("max_messages", max_messages, 1, 1 << 20)
        service = self._service(running)
        if self._auto_commit:
            service.settle()
        return await service.poll(max_messages, timeout_ms)

    async def commit(self) -> None:
        """Everything handed out is done; written to the offset store before this returns."""
        running = self._started()
        self._service(running).settle()
        for queue in running.rebalancer.owned():
            await running.group.offset_store.persist(queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The stored progress, None when there is none."""
        offset = await self._started().group.offset_store.read(queue)
        return offset if offset >= 0 else None

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at ``offset`` in a queue that this consumer reads now; what was fetched and not polled is forgotten."""
        running = self._started()
        check_range("offset", offset, 0, 1 << 62)
        if queue not in running.rebalancer.owned():
            raise ConfigurationError(f"{queue} is not read by this consumer, it reads {running.rebalancer.owned()}")
        await running.rebalancer.drop_at(queue, offset)
        await running.rebalance()

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that is still there."""
        instance = self._started().instance
        address = instance.routes.broker_address(queue.broker_name)
        await self.seek(queue, await instance.api.min_offset(address, queue) if address else 0)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that arrives."""
        instance = self._started().instance
        address = instance.routes.broker_address(queue.broker_name)
        await self.seek(queue, await instance.api.max_offset(address, queue) if address else 0)

    def pause(self) -> None:
        """Fetch nothing more until ``resume``."""
        self._started().paused = True

    def resume(self) -> None:
        """End ``pause``."""
        running = self._started()
        running.paused = False
        running.wake()

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues read now, sorted."""
        return sorted(self._running.rebalancer.owned()) if self._running is not None else []

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """Progress in memory per queue: the next offset that counts as not consumed."""
        return self._started().group.offset_store.progress.snapshot()

    @staticmethod
    def _service(running: RunningConsumer) -> _PollService:
        assert isinstance(running.service, _PollService)
        return running.service

    def _started(self) -> RunningConsumer:
        if self._running is None:
            raise ClosedError(
                f"consumer {self.group!r} is not started or was shut down; call start(), or use it in a with block"
            )
        return self._running


class PullConsumer(BlockingFace):
    """AsyncPullConsumer for callers without an event loop: the same verbs, each waits.

    ::

        with PullConsumer("backfill", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("flights")
            while messages := consumer.poll(timeout_ms=1000): ...
    """

    def __init__(self, group: str, *, engine: Engine | None = None, auto_commit: bool = True, **options: Any) -> None:
        self._async = AsyncPullConsumer(group, auto_commit=auto_commit, **options)
        super().__init__(engine)

    @property
    def group(self) -> str:
        return self._async.group

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues read now, sorted."""
        return self._async.assigned_queues

    def start(self) -> None:
        """Join the client instance. Harmless when started already."""
        self._run(self._async.start())

    def shutdown(self) -> None:
        """As ``AsyncPullConsumer.shutdown``."""
        self._run(self._async.shutdown())

    def subscribe(self, topic: str, expression: FilterExpression | str | None = "*") -> None:
        """As ``AsyncPullConsumer.subscribe``."""
        self._run(self._async.subscribe(topic, expression))

    def assign(self, queues: Iterable[MessageQueue], expression: FilterExpression | str | None = "*") -> None:
        """As ``AsyncPullConsumer.assign``."""
        self._run(self._async.assign(queues, expression))

    def poll(self, max_messages: int = 32, *, timeout_ms: float = 5_000) -> list[MessageExt]:
        """As ``AsyncPullConsumer.poll``."""
        return self._run(self._async.poll(max_messages, timeout_ms=timeout_ms))

    def commit(self) -> None:
        """As ``AsyncPullConsumer.commit``."""
        self._run(self._async.commit())

    def committed(self, queue: MessageQueue) -> int | None:
        """As ``AsyncPullConsumer.committed``."""
        return self._run(self._async.committed(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """As ``AsyncPullConsumer.seek``."""
        self._run(self._async.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """As ``AsyncPullConsumer.seek_to_begin``."""
        self._run(self._async.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """As ``AsyncPullConsumer.seek_to_end``."""
        self._run(self._async.seek_to_end(queue))

    def pause(self) -> None:
        """Fetch nothing more until ``resume``."""
        self._async.pause()

    def resume(self) -> None:
        """End ``pause``."""
        self._engine.call(self._async.resume)

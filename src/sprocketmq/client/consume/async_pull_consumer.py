# SPDX-License-Identifier: Apache-2.0
"""The pull consumer: ``poll`` returns messages, ``commit`` records progress (Java: DefaultLitePullConsumer and its Impl).

With auto commit, the messages of one poll count as consumed when the next poll begins. What prevents that (a crash, an exception, a
queue that moves to another member) repeats them and loses none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final

from sprocketmq.client.async_client import AsyncClient
from sprocketmq.client.consume.poll_service import MessageQueueListener, PollService, TakenMessages, TopicQueuesListener
from sprocketmq.client.consume.running_pull_consumer import RunningPullConsumer
from sprocketmq.client.hooks import ConsumeMessageHook, FilterMessageHook, Hooks
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.queue_offsets import commit_offset, committed_offset
from sprocketmq.client.settings.namespace import unwrap, unwrap_queue, wrap, wrap_queue
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.client.settings.split_options import split_options
from sprocketmq.client.settings.subscriptions import subscription_of
from sprocketmq.client.settings.validators import (
    MAX_OFFSET,
    check_duration,
    check_group,
    check_queue,
    check_range,
    check_time_ms,
    check_topic,
)
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.errors import ConfigurationError, TopicNotExist
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import PullConsumerOptions

Expression = FilterExpression | str | None

_HOOKS: Final = ("consume", "filter")


class AsyncPullConsumer(AsyncClient[RunningPullConsumer]):
    """Receives messages by ``poll``, on a running event loop.

    ::

        async with AsyncPullConsumer("backfill", namesrv_addr="127.0.0.1:9876") as consumer:
            await consumer.subscribe("flights")
            for message in await consumer.poll(timeout_ms=1000): ...

    Args:
        group: the consumer group.
        options: those of PullConsumerOptions and CommonOptions (``help(sprocketmq.PullConsumerOptions)``).

    Every method takes topic, broker name and queue id as ``queue``; it must be a queue that this consumer reads, unless only offsets are
    asked for. ``timestamp_ms`` is in milliseconds since 1970 (0 is the beginning), or a datetime with a time zone.

    Every method raises ConfigurationError (an argument is wrong, or this consumer does not read that queue), RemoteError, NetworkError or
    RequestTimeout (a server refused or did not answer), and ClosedError (the consumer is not running). A future has the exception
    instead.
    """

    def __init__(self, group: str, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__()
        self._options, settings = split_options(options, ClientOptions, PullSettings, "a pull consumer")
        group = check_group(group, "the consumer group")
        self._settings = PullSettings(group=wrap(self._options.namespace, group), **settings)
        self._group = group
        self._auto_commit = self._settings.auto_commit
        self._subscriptions: dict[str, bodies.SubscriptionData] = {}
        self._assigned: set[MessageQueue] | None = None
        self._listeners: dict[str, MessageQueueListener] = {}
        self._topic_listeners: dict[str, TopicQueuesListener] = {}
        self._hooks = Hooks.of_client(_HOOKS)
        self._next_write_ms = 0

    # -- life ------------------------------------------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The consumer group, as it was given; at the brokers its name begins with the namespace."""
        return self._group

    @property
    def is_running(self) -> bool:
        """Whether the consumer is started and not shut down."""
        return self._running is not None

    @property
    def auto_commit(self) -> bool:
        """Whether progress is committed automatically; a change takes effect with the next ``poll`` or ``commit``."""
        return self._auto_commit

    @auto_commit.setter
    def auto_commit(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise ConfigurationError(f"auto_commit is {value!r}, True or False is allowed")
        self._auto_commit = value

    async def start(self) -> None:
        """Start the consumer. Does nothing if it is started already."""
        await super().start()

    async def shutdown(self) -> None:
        """Commit the returned messages (with ``auto_commit``), write progress, and leave the group. A second call does nothing."""
        await self._end(commit=self._auto_commit)

    async def _end(self, *, commit: bool) -> None:
        if self._running is not None:  # else another call ends it already
            self._running.commits_at_stop = commit
        await super().shutdown()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # With an exception, the messages of the last poll are not committed, so they are delivered again.
        await self._end(commit=self._auto_commit and error is None)

    @property
    def _name(self) -> str:
        return f"consumer {self.group!r}"

    def _make(self) -> RunningPullConsumer:
        return RunningPullConsumer(
            self._options,
            self._settings,
            self._subscriptions,
            self._hooks,
            self._assigned,
            self._listeners,
            self._topic_listeners,
        )

    def _use(self, parts: RunningPullConsumer | None) -> None:
        super()._use(parts)
        if parts is not None and parts.rebalancer.assigned is not self._assigned:  # assigned while it started
            parts.rebalancer.assigned = self._assigned
            parts.subscription_changed()

    def add_hook(self, hook: ConsumeMessageHook | FilterMessageHook) -> None:
        """Let ``hook`` see or filter the messages of ``poll`` (``sprocketmq.client.hooks``); before ``start``."""
        if self._running is not None:
            raise ConfigurationError(f"consumer {self.group!r} is running, hooks are added before start()")
        self._hooks.add(hook, _HOOKS)

    def update_name_server_address(self, namesrv_addr: str) -> None:
        """Use these name servers from now on, in all clients of this instance: ``host:9876``, several separated by ``;``."""
        self._started().instance.cluster.name_servers.replace(parse_addresses(namesrv_addr))

    # -- what is read ----------------------------------------------------------------------------------------------------------

    async def subscribe(
        self, topic: str, expression: Expression = "*", *, on_queues_changed: MessageQueueListener | None = None
    ) -> None:
        """Share the queues of ``topic``, which need not exist yet, with the other members of the group. ``expression``: tags as
        ``"a || b"``, or ``sql92("...")``. ``on_queues_changed``: a function of (topic, all its queues, queues of this consumer),
        called after each rebalance that changed one of them, in a thread if it is not ``async def``. ``poll`` returns messages of
        a new queue only after the call, so it may ``seek``. Default: none."""
        if self._assigned is not None:
            raise ConfigurationError("queues were assigned by hand, a consumer either subscribes or is assigned")
        if on_queues_changed is not None:
            check_callback("on_queues_changed", on_queues_changed, "topic, queues, own_queues", may_be_async=True)
        topic = wrap(self._options.namespace, check_topic(topic))
        subscription = subscription_of(self._group, topic, expression, self._options.clock.now_ms())
        await self._check_expressions([subscription])
        self._subscriptions[topic] = subscription
        if on_queues_changed is not None:
            self._listeners[topic] = on_queues_changed
        else:
            self._listeners.pop(topic, None)
        await self._changed()

    async def unsubscribe(self, topic: str) -> None:
        """Write progress in ``topic`` and leave its queues to other members. Does nothing if it is not subscribed."""
        topic = wrap(self._options.namespace, check_topic(topic))
        self._subscriptions.pop(topic, None)
        self._listeners.pop(topic, None)
        if self._assigned is not None:
            self._assigned = {queue for queue in self._assigned if queue.topic != topic}
        await self._changed()

    async def assign(
        self, queues: Iterable[MessageQueue], expression: Expression | Mapping[str, Expression] = "*"
    ) -> None:
        """Read exactly these queues, independent of the group's other members. A second call replaces the first. ``expression``: one for
        all queues, or one for each topic."""
        if self._subscriptions and self._assigned is None:
            raise ConfigurationError("topics were subscribed, a consumer either subscribes or is assigned")
        assigned = {self._inside(queue) for queue in _several("queues", queues)}
        if not assigned:
            raise ConfigurationError(
                "no queue is given to assign, at least one is needed; unsubscribe gives up a topic"
            )
        if isinstance(expression, Mapping) and not expression.keys() <= {
            queue.topic for queue in map(self._outside, assigned)
        }:
            raise ConfigurationError(f"expression is {expression!r}, topics of the assigned queues are allowed in it")
        now_ms, subscriptions = self._options.clock.now_ms(), {}
        for topic in sorted({queue.topic for queue in assigned}):
            named = unwrap(self._options.namespace, topic)
            wanted = expression.get(named, "*") if isinstance(expression, Mapping) else expression
            subscriptions[topic] = subscription_of(self._group, check_topic(topic), wanted, now_ms)
        await self._check_expressions(subscriptions.values())
        self._assigned = assigned
        self._subscriptions.clear()
        self._subscriptions.update(subscriptions)
        await self._changed()

    async def _check_expressions(self, subscriptions: Iterable[bodies.SubscriptionData]) -> None:
        if self._running is not None:
            for subscription in subscriptions:
                await self._running.check_expression(subscription)

    async def _changed(self) -> None:
        running = self._running
        if running is not None:
            running.rebalancer.assigned = self._assigned
            for topic in self._subscriptions:
                await running.instance.cluster.routes.refresh(topic)
            await running.announce()
            await running.rebalance()

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that are read now, sorted (Java: assignment)."""
        owned = self._running.rebalancer.owned() if self._running is not None else []
        return sorted(map(self._outside, owned))

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of ``topic``, sorted. Raises TopicNotExist (there are none)."""
        running = self._started_here()
        wrapped = wrap(self._options.namespace, check_topic(topic))
        await running.instance.cluster.routes.refresh(wrapped)
        queues = [self._outside(queue) for queue in running.topic_watch.fetched(wrapped)]
        if not queues:
            raise TopicNotExist(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic!r} has no readable queue; check the spelling or create the topic first",
                running.instance.cluster.name_servers.chosen,
            )
        return queues

    async def register_topic_message_queue_change_listener(self, topic: str, listener: TopicQueuesListener) -> None:
        """Call ``listener`` when a topic gets or loses queues, which is checked every ``topic_metadata_check_interval_ms``; for consumers
        that use ``assign``. ``listener``: a function of (topic, all its queues); one that is not ``async def`` runs in a thread."""
        topic = wrap(self._options.namespace, check_topic(topic))
        check_callback("listener", listener, "topic, queues", may_be_async=True)
        self._topic_listeners[topic] = listener
        if self._running is not None:
            await self._running.topic_watch.note_queues(topic)

    # -- messages --------------------------------------------------------------------------------------------------------------

    async def poll(self, max_messages: int = 32, *, timeout_ms: float | None = None) -> list[MessageExt]:
        """Return the next messages, in order within each queue. With ``auto_commit``, the messages of earlier polls count as
        consumed now. If a poll is cancelled or interrupted (Ctrl-C, a signal), the next one returns its messages.
        ``max_messages``: over all queues. ``timeout_ms``: how many milliseconds to wait for the first message; default:
        ``poll_timeout_ms``; 0 does not wait."""
        return messages_of(await self._poll(max_messages, timeout_ms))

    async def _poll(self, max_messages: int, timeout_ms: float | None) -> list[TakenMessages]:
        running = self._started_here()
        if not self._subscriptions and self._assigned is None:
            raise ConfigurationError(
                f"consumer {self.group!r} subscribes to nothing; call subscribe(topic) or assign(queues) before poll()"
            )
        max_messages = check_range("max_messages", max_messages, 1, 1 << 20)
        if timeout_ms is None:
            timeout_ms = self._settings.poll_timeout_ms
        else:
            timeout_ms = check_duration("timeout_ms", timeout_ms)
        service = running.service
        if self._auto_commit:
            service.commit()
            self._write_if_due(running)
        taken = await service.poll(max_messages, timeout_ms)
        if service.has_room_again():
            running.wake()
        return taken

    def _put_back(self, taken: list[TakenMessages]) -> None:
        """The caller of ``_poll`` was interrupted before it had them."""
        if self._running is not None:
            self._running.service.put_back(taken)

    def _write_if_due(self, running: RunningPullConsumer) -> None:
        interval_ms = self._settings.auto_commit_interval_ms
        if interval_ms < self._options.persist_consumer_offset_interval_ms:
            now_ms = running.clock.steady_ms()
            if now_ms >= self._next_write_ms:
                self._next_write_ms = now_ms + interval_ms
                running.instance.spawn(running.persist_offsets())

    def pause(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Stop fetching from ``queues`` (default: all) until ``resume``. Messages that are fetched already are still returned."""
        running = self._started()
        if queues is None:
            running.paused = True
        else:
            inside = [self._inside(queue) for queue in _several("queues", queues)]
            running.service.paused_queues.update(self._ours(running, inside))

    def resume(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Continue to fetch from ``queues`` (default: all) after ``pause``."""
        running = self._started()
        if queues is None:
            running.paused = False
            running.service.paused_queues.clear()
        else:
            running.service.paused_queues.difference_update(map(self._inside, _several("queues", queues)))
        running.wake()

    @property
    def paused_queues(self) -> list[MessageQueue]:
        """The paused queues, sorted. A queue that was allocated to another member in between is not paused any more."""
        running = self._started()
        paused = running.service.paused_queues
        return sorted(self._outside(queue) for queue in running.rebalancer.owned() if running.paused or queue in paused)

    # -- places ----------------------------------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset`` in a queue that this consumer reads now; messages that are fetched and not returned yet are dropped.
        The next commit sets the progress accordingly, also backwards. The offset must be between its oldest message and its end."""
        running = self._started_here()
        offset = check_range("offset", offset, 0, MAX_OFFSET)
        queue = self._inside(queue)
        self._ours(running, [queue])
        low, high = await all_ended([self.min_offset(queue), self.max_offset(queue)])
        if not low <= offset <= high:
            raise ConfigurationError(f"offset {offset} of {queue} is not there, {low} to {high} is allowed")
        self._seek(running, queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue with the oldest message of ``queue``, as ``seek`` does."""
        running, queue = self._started_here(), self._inside(queue)
        self._ours(running, [queue])
        self._seek(running, queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the end of ``queue``, with new messages, as ``seek`` does."""
        running, queue = self._started_here(), self._inside(queue)
        self._ours(running, [queue])
        self._seek(running, queue, await self.max_offset(queue))

    def _seek(self, running: RunningPullConsumer, queue: MessageQueue, offset: int) -> None:
        queues = running.service.queues
        done = queues.done(queue, offset)
        if not running.rebalancer.seek(queue, offset):
            raise ConfigurationError(f"{queue} moved to another member meanwhile, it cannot be sought here")
        queues.sought(queue, done)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int | datetime) -> int:
        """The offset of the first message stored at or after ``timestamp_ms``. If there is none, the end of the queue; a 4.9 broker
        returns the offset of the last message then."""
        timestamp_ms = check_time_ms("timestamp_ms", timestamp_ms, or_zero=True)
        running, queue = self._started_here(), self._inside(queue)
        asked = requests.offsets.SEARCH_OFFSET_BY_TIMESTAMP
        answer = await running.instance.cluster.ask_queue(asked, queue, or_replica=True, timestamp=timestamp_ms)
        return answer.offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that is still stored."""
        running, queue = self._started_here(), self._inside(queue)
        asked = requests.offsets.GET_MIN_OFFSET
        return (await running.instance.cluster.ask_queue(asked, queue, or_replica=True)).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The end of the queue: one more than the offset of its newest message."""
        running, queue = self._started_here(), self._inside(queue)
        asked = requests.offsets.GET_MAX_OFFSET
        return (await running.instance.cluster.ask_queue(asked, queue, or_replica=True)).offset

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """For each queue that is read now, the offset behind the messages that ``poll`` has returned."""
        positions = self._started().service.queues.positions()
        return {self._outside(queue): offset for queue, offset in positions.items()}

    # -- progress --------------------------------------------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> dict[MessageQueue, int]:
        """Commit the messages that ``poll`` has returned, and wait until the brokers have the progress. ``offsets``: for each
        queue the offset of the next message to consume, or the queues to commit; default: all queues. ``persist``: False: only
        the periodic task writes to the brokers. Returns what was committed, without queues that this consumer no longer reads.
        If a broker refused it, call again, or wait for the periodic task."""
        running = self._started_here()
        if not isinstance(persist, bool):
            raise ConfigurationError(f"persist is {persist!r}, True or False is allowed")
        service = running.service
        wanted = self._to_commit(service, offsets)
        done = service.commit(wanted)
        if persist:
            progress = running.offset_store.progress
            named = service.queues.positions() if offsets is None else done
            await self._persist(running, {queue: progress.read(queue) for queue in named if progress.read(queue) >= 0})
        return {self._outside(queue): offset for queue, offset in done.items()}

    def commit_async(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> asyncio.Future[dict[MessageQueue, int]]:
        """``commit`` as a future: without waiting. ``offsets`` (default: all queues) and ``persist`` are those of ``commit``."""
        return asyncio.ensure_future(self.commit(offsets, persist=persist))

    def _to_commit(
        self, service: PollService, offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None
    ) -> Mapping[MessageQueue, int] | None:
        if offsets is None:
            return None
        if isinstance(offsets, Mapping):
            return {
                self._inside(queue): check_range(f"offset of {queue}", offset, 0, MAX_OFFSET)
                for queue, offset in offsets.items()
            }
        positions = service.queues.positions()
        return {
            queue: positions[queue] for queue in map(self._inside, _several("offsets", offsets)) if queue in positions
        }

    async def _persist(self, running: RunningPullConsumer, offsets: Mapping[MessageQueue, int]) -> None:
        """Write progress and wait for the brokers; the periodic writing does not wait."""
        queues = running.service.queues
        changed = {queue: offset for queue, offset in offsets.items() if not queues.is_persisted(queue, offset)}

        async def write(queue: MessageQueue, offset: int) -> None:
            if running.clustering:
                await commit_offset(running.instance.cluster, self._settings.group, queue, offset)
            else:
                await running.offset_store.persist(queue)
            queues.persisted(queue, offset)

        await all_ended(write(*item) for item in changed.items())

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's progress in ``queue``: what this consumer committed last, or else what is stored; None if there is none."""
        running, queue = self._started_here(), self._inside(queue)
        offset = running.offset_store.progress.read(queue)
        if offset >= 0:
            return offset
        if running.clustering:
            return await committed_offset(running.instance.cluster, self._settings.group, queue)
        offset = await running.offset_store.read(queue)
        return offset if offset >= 0 else None

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _inside(self, queue: MessageQueue) -> MessageQueue:
        """A queue as brokers name it: within the namespace."""
        return wrap_queue(self._options.namespace, check_queue(queue))

    def _outside(self, queue: MessageQueue) -> MessageQueue:
        return unwrap_queue(self._options.namespace, queue)

    @staticmethod
    def _ours(running: RunningPullConsumer, queues: Collection[MessageQueue]) -> Collection[MessageQueue]:
        owned = running.rebalancer.owned()
        for queue in queues:
            if queue not in owned:
                raise ConfigurationError(f"{queue} is not read by this consumer, it reads {sorted(owned)}")
        return queues


def messages_of(taken: list[TakenMessages]) -> list[MessageExt]:
    return [message for _, part in taken for message in part]


def _several(name: str, queues: Iterable[MessageQueue]) -> Iterable[MessageQueue]:
    if not isinstance(queues, Iterable) or isinstance(queues, str | bytes | MessageQueue):
        raise ConfigurationError(f"{name} is {queues!r}, a list of queues is allowed, as in [queue]")
    return queues

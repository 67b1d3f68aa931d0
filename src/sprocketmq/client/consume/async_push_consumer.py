# SPDX-License-Identifier: Apache-2.0
"""The push consumer: pulls by itself and calls a listener (Java: DefaultMQPushConsumer and its Impl). The first start
imports the parts that run (``running_consumer``)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, overload

from sprocketmq.client.async_client import AsyncClient
from sprocketmq.client.consume.forgotten_members import calling_line, settle_forgotten
from sprocketmq.client.hooks import ConsumeMessageHook, FilterMessageHook, Hooks
from sprocketmq.client.listen.listener_call import OneAtATime, is_async_listener
from sprocketmq.client.settings.namespace import wrap
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.client.settings.split_options import split_options
from sprocketmq.client.settings.subscriptions import subscription_of
from sprocketmq.client.settings.validators import MAX_INT, check_group, check_range, check_topic
from sprocketmq.core.callbacks import check_callback
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.core.lifecycle import LifeState
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.stop_signals import stop_event
from sprocketmq.wire.records.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.consume.consumer_health import ConsumerHealth
    from sprocketmq.client.consume.message_iterator import AsyncMessageIterator
    from sprocketmq.client.consume.running_consumer import RunningConsumer
    from sprocketmq.client.keyword_options import PushConsumerOptions
    from sprocketmq.client.listen.message_stream import MessageStream
    from sprocketmq.client.listen.stuck_listener import StuckListenerCallback
    from sprocketmq.client.results import ConsumeConcurrentlyContext, ConsumeOrderlyContext
    from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus
    from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus
    from sprocketmq.core.consume.process_queue import QueueSnapshot
    from sprocketmq.core.statistics import ConsumerStatistics
    from sprocketmq.wire import bodies

    # A listener gets a list. It may declare its parameter as a Sequence, Collection, Iterable or tuple if it only reads.
    ConcurrentAnswer = ConsumeConcurrentlyStatus | Awaitable[ConsumeConcurrentlyStatus | None] | None
    ConcurrentListener = (
        Callable[[list[MessageExt], ConsumeConcurrentlyContext], ConcurrentAnswer]
        | Callable[[tuple[MessageExt, ...], ConsumeConcurrentlyContext], ConcurrentAnswer]
    )
    OrderlyAnswer = ConsumeOrderlyStatus | Awaitable[ConsumeOrderlyStatus | None] | None
    OrderlyListener = (
        Callable[[list[MessageExt], ConsumeOrderlyContext], OrderlyAnswer]
        | Callable[[tuple[MessageExt, ...], ConsumeOrderlyContext], OrderlyAnswer]
    )

_HOOKS: Final = ("consume", "filter")
_OF_SEVERAL: Final = "concurrent_listener and orderly_listener take one of (messages, context)"
_OF_ONE: Final = "on_message takes one of (message)"

L = TypeVar("L", bound=Callable[..., Any])
# What each decorator takes, so that a listener of another kind is refused by type checkers.
OneListener = TypeVar("OneListener", bound=Callable[[MessageExt], object])
Concurrent = TypeVar("Concurrent", bound="ConcurrentListener")
Orderly = TypeVar("Orderly", bound="OrderlyListener")
C = TypeVar("C", bound="StuckListenerCallback")


class AsyncPushConsumer(AsyncClient["RunningConsumer"]):
    """Receives messages by calling a listener.

    ::

        consumer = AsyncPushConsumer("delays", namesrv_addr="127.0.0.1:9876")
        consumer.subscribe("flights", "UA || DL")

        @consumer.on_message
        async def handle(message): ...

        async with consumer:
            await consumer.wait()

    ``run_forever`` in the main thread takes SIGTERM and SIGINT from the loop while it runs, and a signal ends all consumers of the loop.
    Handlers of ``signal.signal`` are put back at the end; those of ``loop.add_signal_handler`` cannot be.

    Args:
        group: the consumer group. Its members share the messages, and all of them must have the same subscriptions.
        options: those of PushConsumerOptions and CommonOptions (``help(sprocketmq.PushConsumerOptions)``).

    Delivery is at least once: a message is delivered again if its listener call did not succeed, or if the process crashed.

    Every method raises ConfigurationError (an argument is wrong, or the consumer runs and may not, has no listener or subscription, or two
    listeners) and ClosedError (it is not running). A method that registers a function returns it, for use as a decorator.
    """

    _restarts: ClassVar[bool] = False

    _runs_by_itself = True  # but not while it is iterated

    def __init__(self, group: str, **options: Unpack[PushConsumerOptions]) -> None:
        super().__init__()
        self._options, settings = split_options(options, ClientOptions, PushSettings, "a push consumer")
        group = check_group(group, "the consumer group")
        self._settings = PushSettings(group=wrap(self._options.namespace, group), **settings)
        self._group = group
        self._made_at = calling_line()
        self._subscriptions: dict[str, bodies.SubscriptionData] = {}
        self._listener: Callable[..., Any] | None = None
        self._orderly = False
        self._batch_size: int | None = None
        self._stream: MessageStream | None = None  # instead of a listener
        self._hooks = Hooks.of_client(_HOOKS)
        self._stuck_callbacks: list[StuckListenerCallback] = []

    # -- before start ----------------------------------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The consumer group, as it was given; at the brokers its name begins with the namespace."""
        return self._group

    @property
    def settings(self) -> PushSettings:
        """All options with their defaults. Do not change them."""
        return self._settings

    def subscribe(self, topic: str, expression: FilterExpression | str | None = "*") -> None:
        """Subscribe to ``topic``, before ``start`` or while the consumer runs. ``topic``: the name of the topic; it need not exist
        yet. ``expression``: ``"*"``, tags as in ``"UA || DL"``, or ``sql92("distance > 1000")``."""
        topic = wrap(self._options.namespace, check_topic(topic))
        self._subscriptions[topic] = subscription_of(self._group, topic, expression, self._options.clock.now_ms())
        if self._running is not None:
            self._running.subscription_changed()

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming ``topic``. Does nothing if it is not subscribed."""
        topic = wrap(self._options.namespace, check_topic(topic))
        if self._subscriptions.pop(topic, None) is not None and self._running is not None:
            self._running.subscription_changed()

    def on_message(self, listener: OneListener) -> OneListener:
        """Register a listener of single messages. If it returns, the message is consumed; if it raises, the message is retried.
        ``listener``: a function of one MessageExt, ``def`` or ``async def``."""
        one = OneAtATime(self.group, listener)
        check_callback("the listener", listener, "message", _OF_SEVERAL, may_be_async=True)
        self._set_listener(one, orderly=False, batch_size=1)
        return listener

    @overload
    def concurrent_listener(self, listener: Concurrent, /) -> Concurrent: ...
    @overload
    def concurrent_listener(self, /, *, batch_size: int | None = None) -> Callable[[Concurrent], Concurrent]: ...
    def concurrent_listener(
        self, listener: Callable[..., Any] | None = None, /, *, batch_size: int | None = None
    ) -> Any:
        """Register a listener of batches, as in Java: ``(messages, context) -> ConsumeConcurrentlyStatus``, ``def`` or
        ``async def``. With None, an exception, or anything else than CONSUME_SUCCESS the messages are retried;
        ``context.ack_index`` and ``context.delay_level_when_next_consume`` may be set. ``listener``: default: none, as in
        ``@consumer.concurrent_listener(batch_size=32)``. ``batch_size``: the maximum number of messages of a call, 1 to 1024;
        default: ``consume_message_batch_max_size``."""
        return self._register(listener, batch_size, orderly=False)

    @overload
    def orderly_listener(self, listener: Orderly, /) -> Orderly: ...
    @overload
    def orderly_listener(self, /, *, batch_size: int | None = None) -> Callable[[Orderly], Orderly]: ...
    def orderly_listener(self, listener: Callable[..., Any] | None = None, /, *, batch_size: int | None = None) -> Any:
        """Register a listener that gets each queue's messages in order: ``(messages, context) -> ConsumeOrderlyStatus``. After
        SUSPEND_CURRENT_QUEUE_A_MOMENT, None or an exception the queue pauses, and the same messages are delivered again. With
        ``context.auto_commit = False``, COMMIT and ROLLBACK apply to all messages since the last COMMIT. ``listener`` and
        ``batch_size`` have the defaults of ``concurrent_listener``."""
        return self._register(listener, batch_size, orderly=True)

    def messages(self, *, orderly: bool = False) -> AsyncMessageIterator:
        """Iterate over the messages and ack each, instead of registering a listener; before ``start``.

        ::

            async with consumer.messages() as messages:     # starts the consumer, and shuts it down at the end
                async for message in messages:
                    await handle(message)
                    message.ack()                           # or nack(delay_ms=60_000), dead_letter("no such carrier")

        ``orderly``: the next message of a queue comes when the one before it is acked. At most ``consume_thread_count`` messages are
        handed out and neither acked nor sent back at a time.
        """
        from sprocketmq.client.consume.message_iterator import AsyncMessageIterator  # not at import: few use it
        from sprocketmq.client.listen.message_stream import MessageStream

        if not isinstance(orderly, bool):
            raise ConfigurationError(f"orderly is {orderly!r}, True or False is allowed")
        if self._listener is not None:
            has = "is iterated already" if self._stream is not None else "has a listener"
            raise ConfigurationError(
                f"consumer {self.group!r} {has}, one listener or one messages() is allowed; make a second consumer"
            )
        stream = MessageStream()
        self._set_listener(
            stream.in_order if orderly else OneAtATime(self.group, stream), orderly=orderly, batch_size=1
        )
        self._stream = stream
        self._runs_by_itself = False  # without a reference to it no code gets its messages
        return AsyncMessageIterator(self, stream)

    def add_hook(self, hook: ConsumeMessageHook | FilterMessageHook) -> None:
        """Call ``hook`` around each listener call, or to filter (``sprocketmq.client.hooks``); before ``start``."""
        if self._running is not None:
            raise ConfigurationError(f"consumer {self.group!r} is running, hooks are added before start()")
        self._hooks.add(hook, _HOOKS)

    def on_consume_timeout(self, callback: C) -> C:
        """Register a function of one StuckListener, before ``start``. It is called once for each listener call that takes longer than
        ``consume_timeout_ms``, at its deadline, in a thread, or on the consumer's loop if it is ``async def``. Its exceptions are
        logged. The messages are sent back with and without it, and ``statistics`` count the timeout, too."""
        check_callback("the callback", callback, "stuck", may_be_async=True)
        self._stuck_callbacks.append(callback)
        return callback

    def _register(self, listener: Callable[..., Any] | None, batch_size: int | None, *, orderly: bool) -> Any:
        if batch_size is not None:
            batch_size = check_range("batch_size", batch_size, 1, 1024)
        if listener is not None:
            self._set_listener(listener, orderly=orderly, batch_size=batch_size)
            return listener

        def decorate(decorated: L) -> L:
            self._set_listener(decorated, orderly=orderly, batch_size=batch_size)
            return decorated

        return decorate

    def _set_listener(self, listener: Callable[..., Any], *, orderly: bool, batch_size: int | None) -> None:
        is_async_listener(listener)  # refuses what is no function, and generators
        if not isinstance(listener, OneAtATime):
            check_callback("the listener", listener, "messages, context", _OF_ONE, may_be_async=True)
        if self._running is not None:
            raise ConfigurationError("the consumer is running, register the listener before start()")
        if self._stream is not None:
            raise ConfigurationError(
                f"consumer {self.group!r} is iterated by messages(), one of them or a listener is allowed"
            )
        self._listener, self._orderly, self._batch_size = listener, orderly, batch_size

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to consume if not started. Raises NetworkError, RequestTimeout (no name server
        answers)."""
        if self._life.state is LifeState.NEW:
            await settle_forgotten(*self._membership[:2])
        await super().start()

    @property
    def _membership(self) -> tuple[str, frozenset[str], str]:
        """Its group as brokers see it, its name servers, and the line of the program that made it."""
        return self._settings.group, frozenset(parse_addresses(self._options.addresses)), self._made_at

    @property
    def _name(self) -> str:
        return f"consumer {self.group!r}"

    def _make(self) -> RunningConsumer:
        if self._listener is None:
            raise ConfigurationError(
                f"consumer {self.group!r} has no listener; register one with on_message, concurrent_listener or orderly_listener, or "
                "iterate over messages()"
            )
        if not self._subscriptions:
            raise ConfigurationError(
                f"consumer {self.group!r} subscribes to nothing; call subscribe(topic) before start()"
            )
        # Not at import: a program may only import the class.
        from sprocketmq.client.consume.running_consumer import RunningConsumer

        listener, orderly = self._listener, self._orderly
        running = RunningConsumer(self._options, self._settings, self._subscriptions, self._hooks, orderly=orderly)
        running.stuck_callbacks = self._stuck_callbacks
        batch_size = self._batch_size or self._settings.consume_message_batch_max_size
        if orderly:
            from sprocketmq.client.listen.orderly_service import OrderlyService

            running.service = OrderlyService(running, listener, batch_size, self._stream)
            return running
        from sprocketmq.client.listen.concurrent_service import ConcurrentService, OneAtATimeService

        if isinstance(listener, OneAtATime) and not (running.hooks.consume or self._options.enable_trace):
            running.service = OneAtATimeService(running, listener, batch_size, self._stream)
        else:
            running.service = ConcurrentService(running, listener, batch_size, self._stream)
        return running

    async def shutdown(self) -> None:
        """Stop pulling, wait for running listener calls (``await_termination_ms``), write progress, and leave the group. A second
        call does nothing. A listener may call it. Then it returns at once, and the result of that listener call still counts."""
        await super().shutdown()

    async def wait(self) -> None:
        """Wait until ``shutdown`` is complete. Returns at once if the consumer is not started."""
        await super().wait()

    async def run_forever(self) -> None:
        """Start, consume until SIGTERM, SIGINT, SIGHUP (not under ``nohup``) or a ``shutdown`` of another thread or task, and shut
        down. Raises NetworkError, RequestTimeout (no name server can be reached)."""
        self._check_listens()
        with stop_event() as stop:
            async with self:
                ended = asyncio.ensure_future(self.wait())
                stopped = asyncio.ensure_future(stop.wait())
                await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                stopped.cancel()

    def _check_listens(self) -> None:
        if self._stream is not None:
            raise ConfigurationError(
                f"consumer {self.group!r} is iterated by messages(), run_forever would hand them to nobody; loop over the iterator"
            )

    # -- while running ---------------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """The client id, ``ip@instanceName``; empty before ``start``."""
        return self._running.client_id if self._running is not None else ""

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that this consumer consumes now, sorted."""
        return sorted(self._running.rebalancer.owned()) if self._running is not None else []

    @property
    def statistics(self) -> ConsumerStatistics:
        """Rates and times of pulling and consuming for each topic."""
        return self._started().statistics

    @property
    def process_queues(self) -> dict[MessageQueue, QueueSnapshot]:
        """A snapshot of each queue's cached and unfinished messages."""
        return self._started().queue_snapshots()

    def health(self) -> ConsumerHealth:
        """Whether it works, as far as its own process can tell: for the health check of a container or service. Unhealthy is one
        that is not running, or that a restart mends: a queue was not pulled for 120 s, a listener call runs longer than
        ``consume_timeout_ms``. For lag, failing listeners and brokers that are away see ``Admin.diagnose_group``."""
        from sprocketmq.client.consume.consumer_health import ConsumerHealth, health_of

        if self._running is None:
            return ConsumerHealth(state=self._life.state.value)
        return health_of(self._running)

    def pause(self) -> None:
        """Stop pulling until ``resume``. Cached messages are still consumed."""
        self._started().paused = True

    def resume(self) -> None:
        """Continue pulling after ``pause``."""
        running = self._started()
        running.paused = False
        running.wake()

    async def set_consume_timeout_ms(self, limit_ms: int) -> None:
        """Change the timeout, also of running calls (orderly: only reported). ``limit_ms``: milliseconds; 0: none."""
        limit_ms = check_range("consume_timeout_ms", limit_ms, 0, MAX_INT)
        self._started_here().service.set_consume_timeout_ms(limit_ms)

    async def set_consume_thread_count(self, count: int) -> None:
        """Change how many listener calls may run at the same time. ``count``: 1 to 1000."""
        self._started_here().resize(check_range("consume_thread_count", count, 1, 1000))

    async def rebalance_now(self) -> None:
        """Rebalance once, now (Java: rebalanceImmediately)."""
        await self._started_here().rebalance()

    async def persist_offsets(self) -> None:
        """Write progress to the brokers now instead of within 5 s."""
        await self._started_here().persist_offsets()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(group={self.group!r}, topics={sorted(self._subscriptions)}, {self._life.state.value})"

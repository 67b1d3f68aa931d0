# SPDX-License-Identifier: Apache-2.0
"""The blocking push consumer: each method runs its async twin on the engine's loop (Java: DefaultMQPushConsumer)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer, C, Concurrent, OneListener, Orderly
from sprocketmq.client.hooks import ConsumeMessageHook, FilterMessageHook
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.consume.message_iterator import MessageIterator
    from sprocketmq.client.keyword_options import PushConsumerOptions
    from sprocketmq.core.consume.process_queue import QueueSnapshot
    from sprocketmq.core.statistics import ConsumerStatistics

__all__ = ["PushConsumer"]

T = TypeVar("T")


class PushConsumer(BlockingClient):
    """Receives messages by calling a listener (AsyncPushConsumer: for callers with an event loop). Listeners run in
    ``consume_thread_count`` threads (``async def`` ones on the engine's loop), never on the caller's thread.

    ::

        consumer = PushConsumer("delays", namesrv_addr="127.0.0.1:9876")
        consumer.subscribe("flights")

        @consumer.on_message
        def handle(message): ...

        consumer.run_forever()          # or start() ... shutdown(), or ``with consumer:``

    Args:
        group: the consumer group. Members share the work and must all subscribe alike.
        options: as PushConsumerOptions and CommonOptions say (``help(sprocketmq.PushConsumerOptions)``): ``namesrv_addr``,
            ``instance_name``, ``consume_from_where``, ``message_model``, ``max_reconsume_times``, ``consume_timeout_ms``, ...
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Raises:
        ConfigurationError: an option is unknown or out of range; nothing was opened.

    At least once: a message whose listener call did not succeed, or was cut short by a crash, comes again.
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[PushConsumerOptions]) -> None:
        self._async = AsyncPushConsumer(group, **options)
        super().__init__(engine)
        self._over = threading.Event()

    @property
    def group(self) -> str:
        """The consumer group, as it was given; brokers see it within the namespace."""
        return self._async.group

    @property
    def settings(self) -> PushSettings:
        """All options with their defaults; not to be changed."""
        return self._async.settings

    @property
    def client_id(self) -> str:
        """``ip@instanceName``; empty before start."""
        return self._async.client_id

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues this member consumes now, sorted."""
        return self._on_loop(lambda: self._async.assigned_queues)

    @property
    def statistics(self) -> ConsumerStatistics:
        """Pull and consume rates and times per topic."""
        return self._async.statistics

    @property
    def process_queues(self) -> dict[MessageQueue, QueueSnapshot]:
        """What is cached and unfinished of each queue, as it is at this moment."""
        return self._on_loop(lambda: self._async.process_queues)

    def subscribe(self, topic: str, expression: FilterExpression | str | None = "*") -> None:
        """Take part in ``topic``; before ``start``, or while running.

        Args:
            topic: its name; it may not exist yet.
            expression: ``"*"``, tags as in ``"UA || DL"``, or ``sql92("distance > 1000")``.

        Raises:
            ConfigurationError: the topic or the expression is wrong.
        """
        self._on_loop(lambda: self._async.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Leave ``topic``; harmless when not subscribed.

        Args:
            topic: its name.

        Raises:
            ConfigurationError: that is no name of a topic.
        """
        self._on_loop(lambda: self._async.unsubscribe(topic))

    def on_message(self, listener: OneListener) -> OneListener:
        """Register a listener called with one message at a time: returning is success, raising is retry.

        Args:
            listener: a function of one MessageExt, plain or ``async def``.

        Returns:
            The listener itself: use it as a decorator.

        Raises:
            ConfigurationError: it is no function of one message, or the consumer is running.
        """
        return self._async.on_message(listener)

    @overload
    def concurrent_listener(self, listener: Concurrent, /) -> Concurrent: ...
    @overload
    def concurrent_listener(self, /, *, batch_size: int | None = None) -> Callable[[Concurrent], Concurrent]: ...
    def concurrent_listener(
        self, listener: Callable[..., Any] | None = None, /, *, batch_size: int | None = None
    ) -> Any:
        """Register the classic listener: ``(messages, context) -> ConsumeConcurrentlyStatus``.

        None, an exception, or anything else than CONSUME_SUCCESS means that the messages come again; ``context.ack_index`` and
        ``context.delay_level_when_next_consume`` refine it.

        Args:
            listener: a function of (messages, context), plain or ``async def``; ``messages`` is a new list for each call. Default:
                use it as a decorator, ``@consumer.concurrent_listener`` or ``@consumer.concurrent_listener(batch_size=32)``.
            batch_size: messages per call, 1 to 1024; default ``consume_message_batch_max_size``.

        Returns:
            The listener itself, or with ``batch_size`` alone a decorator.

        Raises:
            ConfigurationError: it is no function of these two, ``batch_size`` is out of range, or the consumer is running.
        """
        return self._async._register(listener, batch_size, orderly=False)

    @overload
    def orderly_listener(self, listener: Orderly, /) -> Orderly: ...
    @overload
    def orderly_listener(self, /, *, batch_size: int | None = None) -> Callable[[Orderly], Orderly]: ...
    def orderly_listener(self, listener: Callable[..., Any] | None = None, /, *, batch_size: int | None = None) -> Any:
        """Register a listener that gets each queue's messages in order: ``(messages, context) -> ConsumeOrderlyStatus``.

        SUCCESS goes on; SUSPEND_CURRENT_QUEUE_A_MOMENT, None or an exception pauses this queue and gives the same messages again. With
        ``context.auto_commit = False``, COMMIT and ROLLBACK decide about all messages since the last COMMIT.

        Args:
            listener: a function of (messages, context), plain or ``async def``; ``messages`` is a new list for each call. Default:
                use it as a decorator, ``@consumer.orderly_listener`` or ``@consumer.orderly_listener(batch_size=32)``.
            batch_size: messages per call, 1 to 1024; default ``consume_message_batch_max_size``.

        Returns:
            The listener itself, or with ``batch_size`` alone a decorator.

        Raises:
            ConfigurationError: it is no function of these two, ``batch_size`` is out of range, or the consumer is running.
        """
        return self._async._register(listener, batch_size, orderly=True)

    def messages(self, *, orderly: bool = False) -> MessageIterator:
        """Iterate over the messages and ack each, instead of registering a listener; before ``start``.

        ::

            with consumer.messages() as messages:     # starts the consumer, and shuts it down at the end
                for message in messages:
                    handle(message)
                    message.ack()                           # or nack(delay_ms=60_000), dead_letter("no such carrier")

        Args:
            orderly: each queue's messages in order: the next one of a queue comes when the one before it is acked.

        Returns:
            The iterator. At most ``consume_thread_count`` messages are handed out and neither acked nor sent back at a time.

        Raises:
            ConfigurationError: the consumer has a listener, is iterated already, or is running.
        """
        from sprocketmq.client.consume.message_iterator import MessageIterator  # few iterate

        return MessageIterator(self, self._async.messages(orderly=orderly))

    def add_hook(self, hook: ConsumeMessageHook | FilterMessageHook) -> None:
        """Call ``hook`` around every listener call, or before messages are cached; before ``start``.

        Args:
            hook: has ``before_consume`` and ``after_consume``, or ``filter_messages``, or all three; see ``sprocketmq.client.hooks``.

        Raises:
            ConfigurationError: it has none of them, or the consumer is running.
        """
        self._async.add_hook(hook)

    def on_consume_timeout(self, callback: C) -> C:
        """Be told when a listener call runs for longer than ``consume_timeout_ms``; before ``start``, usable as a decorator.

        Args:
            callback: called with a StuckListener, once per call that is stuck, at its deadline; in a thread, or on the consumer's loop when
                it is ``async def``. What it raises is logged. The messages are sent back (and progress passes them) whether or not anybody
                listens here; the same is in the log, with the stack, and in ``statistics``.

        Returns:
            The callback itself: use it as a decorator.

        Raises:
            ConfigurationError: it is no function of one argument.
        """
        return self._async.on_consume_timeout(callback)

    def start(self) -> None:
        """Join the group and begin to receive. Harmless when started already.

        Raises:
            ConfigurationError: no listener, no subscription, or a second consumer of this group in the same instance.
            NetworkError, RequestTimeout: no name server can be reached.
            ClosedError: it was shut down before; make a new one.
        """
        self._run(self._async.start())

    def shutdown(self) -> None:
        """Stop pulling, wait for running listeners (``await_termination_ms``), persist progress, leave the group. Harmless twice.

        A listener may call it: it returns at once there, and the listener's own result still counts.
        """
        self._run(self._async.shutdown())
        self._over.set()

    def run_forever(self) -> None:
        """Start, consume until SIGTERM or SIGINT (or ``shutdown`` from elsewhere), shut down.

        Raises:
            ConfigurationError: no listener, no subscription, or a second consumer of this group in the same instance.
            NetworkError, RequestTimeout: no name server can be reached.
            ClosedError: it was shut down before; make a new one.

        Note:
            Signals are watched when called in the main thread; elsewhere it waits for ``shutdown``.
        """
        self._async._check_listens()
        previous: dict[int, Any] = {}

        def stop(number: int, frame: FrameType | None) -> None:
            self._over.set()

        if threading.current_thread() is threading.main_thread():
            previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            with self:
                self._over.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def pause(self) -> None:
        """Pull nothing more until ``resume``; what is cached is still consumed.

        Raises:
            ClosedError: the consumer is not started, or was shut down.
        """
        self._on_loop(self._async.pause)

    def resume(self) -> None:
        """End ``pause``.

        Raises:
            ClosedError: the consumer is not started, or was shut down.
        """
        self._on_loop(self._async.resume)

    def set_consume_timeout_ms(self, limit_ms: int) -> None:
        """Change the consume timeout; holds at once, also for messages that already run.

        Orderly consumption only tells of a call that is over it.

        Args:
            limit_ms: milliseconds; 0 switches it off.

        Raises:
            ConfigurationError: it is out of range.
            ClosedError: the consumer is not started, or was shut down.
        """
        self._run(self._async.set_consume_timeout_ms(limit_ms))

    def set_consume_thread_count(self, count: int) -> None:
        """Change how many listener calls run at once.

        Args:
            count: 1 to 1000.

        Raises:
            ConfigurationError: it is out of range.
            ClosedError: the consumer is not started, or was shut down.
        """
        self._run(self._async.set_consume_thread_count(count))

    def rebalance_now(self) -> None:
        """One rebalance round now (Java: rebalanceImmediately).

        Raises:
            ClosedError: the consumer is not started, or was shut down.
        """
        self._run(self._async.rebalance_now())

    def persist_offsets(self) -> None:
        """Write progress now instead of within 5 s.

        Raises:
            ClosedError: the consumer is not started, or was shut down.
        """
        self._run(self._async.persist_offsets())

    def _on_loop(self, call: Callable[[], T]) -> T:
        """Run a plain call on the loop that owns the consumer's state (a listener on that loop already is there)."""
        if self._engine.on_engine_thread:
            return call()

        async def run() -> T:
            return call()

        return self._run(run())

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncPushConsumer", "PushConsumer", 1)

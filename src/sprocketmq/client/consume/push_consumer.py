# SPDX-License-Identifier: Apache-2.0
"""The blocking push consumer: each method runs its async twin on the engine's loop (Java: DefaultMQPushConsumer)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, overload

from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer, C, Concurrent, OneListener, Orderly
from sprocketmq.client.hooks import ConsumeMessageHook, FilterMessageHook
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.group.subscription import FilterExpression
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.process.stop_signals import stop_signals
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.consume.consumer_health import ConsumerHealth
    from sprocketmq.client.consume.message_iterator import MessageIterator
    from sprocketmq.client.keyword_options import PushConsumerOptions
    from sprocketmq.core.consume.process_queue import QueueSnapshot
    from sprocketmq.core.statistics import ConsumerStatistics

# How long ``run_forever`` waits at a time. A signal that arrives as the wait begins, or in another thread, does not end the wait, and on
# Windows none does before Python 3.14; the handler then runs when the wait is over.
_WAIT_S: Final = 0.5


class PushConsumer(BlockingClient[AsyncPushConsumer]):
    """Receives messages by calling a listener (AsyncPushConsumer: for callers with an event loop). Listeners run in
    ``consume_thread_count`` threads (``async def`` ones on the engine's loop), never on the caller's thread.

    ::

        consumer = PushConsumer("delays", namesrv_addr="127.0.0.1:9876")
        consumer.subscribe("flights")

        @consumer.on_message
        def handle(message): ...

        consumer.run_forever()          # or start() ... shutdown(), or ``with consumer:``

    Args:
        group: the consumer group. Its members share the messages, and all of them must have the same subscriptions.
        options: those of PushConsumerOptions and CommonOptions (``help(sprocketmq.PushConsumerOptions)``).
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Delivery is at least once: a message is delivered again if its listener call did not succeed, or if the process crashed.

    Every method raises ConfigurationError (an argument is wrong, or the consumer runs and may not, has no listener or subscription, or two
    listeners) and ClosedError (it is not running). A method that registers a function returns it, for use as a decorator.
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[PushConsumerOptions]) -> None:
        super().__init__(AsyncPushConsumer(group, **options), engine)
        # Not an Event: a signal handler that sets one waits forever if the signal arrives while the same thread is about to wait for it,
        # because both take its lock. ``put`` of this queue may be called in the middle of ``get``.
        self._over: SimpleQueue[None] = SimpleQueue()

    def messages(self, *, orderly: bool = False) -> MessageIterator:
        """Iterate over the messages and ack each, instead of registering a listener; before ``start``.

        ::

            with consumer.messages() as messages:     # starts the consumer, and shuts it down at the end
                for message in messages:
                    handle(message)
                    message.ack()                           # or nack(delay_ms=60_000), dead_letter("no such carrier")

        ``orderly``: the next message of a queue comes when the one before it is acked. At most ``consume_thread_count`` messages are
        handed out and neither acked nor sent back at a time.
        """
        from sprocketmq.client.consume.message_iterator import MessageIterator  # few iterate

        return MessageIterator(self, self._async.messages(orderly=orderly))

    def shutdown(self) -> None:
        """Stop pulling, wait for running listener calls (``await_termination_ms``), write progress, and leave the group. A second
        call does nothing. A listener may call it. Then it returns at once, and the result of that listener call still counts."""
        try:
            self._run_shutdown()
        finally:
            # Also after an interrupt of the wait for listeners: the shutdown goes on, and ``run_forever`` of another thread must end, too.
            self._over.put(None)

    def run_forever(self) -> None:
        """Start, consume until SIGTERM, SIGINT, SIGHUP (not under ``nohup``) or a ``shutdown`` of another thread or task, and shut
        down. Raises NetworkError, RequestTimeout (no name server can be reached).

        Note:
            Signals are watched when called in the main thread; elsewhere it waits for ``shutdown``.
        """
        self._async._check_listens()
        previous: dict[signal.Signals, Any] = {}

        def stop(number: int, frame: FrameType | None) -> None:
            self._over.put(None)

        try:
            if threading.current_thread() is threading.main_thread():
                for number in stop_signals():
                    # Noted first, because an interrupt may follow the installation at once.
                    previous[number] = signal.getsignal(number)
                    signal.signal(number, stop)
            with self:
                self._wait_until_over()
                self._over.put(None)  # for another thread that called this, too
        finally:
            for number, handler in previous.items():
                # One that was not installed from Python (None) cannot be put back. What a program begins with is better than one that stops
                # nothing.
                at_first = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
                signal.signal(number, at_first if handler is None else handler)

    def _wait_until_over(self) -> None:
        while True:
            try:
                return self._over.get(timeout=_WAIT_S)
            except Empty:
                continue

    # Written by `make generate` from here on, from the methods of AsyncPushConsumer.

    @property
    def group(self) -> str:
        """The consumer group, as it was given; at the brokers its name begins with the namespace."""
        return self._async.group

    @property
    def settings(self) -> PushSettings:
        """All options with their defaults. Do not change them."""
        return self._async.settings

    def subscribe(self, topic: str, expression: FilterExpression | str | None = "*") -> None:
        """Subscribe to ``topic``, before ``start`` or while the consumer runs. ``topic``: the name of the topic; it need not exist
        yet. ``expression``: ``"*"``, tags as in ``"UA || DL"``, or ``sql92("distance > 1000")``."""
        self._on_loop(lambda: self._async.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming ``topic``. Does nothing if it is not subscribed."""
        self._on_loop(lambda: self._async.unsubscribe(topic))

    def on_message(self, listener: OneListener) -> OneListener:
        """Register a listener of single messages. If it returns, the message is consumed; if it raises, the message is retried.
        ``listener``: a function of one MessageExt, ``def`` or ``async def``."""
        return self._async.on_message(listener)

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
        return self._async.concurrent_listener(listener, batch_size=batch_size)  # type: ignore[call-overload]

    @overload
    def orderly_listener(self, listener: Orderly, /) -> Orderly: ...
    @overload
    def orderly_listener(self, /, *, batch_size: int | None = None) -> Callable[[Orderly], Orderly]: ...

    def orderly_listener(self, listener: Callable[..., Any] | None = None, /, *, batch_size: int | None = None) -> Any:
        """Register a listener that gets each queue's messages in order: ``(messages, context) -> ConsumeOrderlyStatus``. After
        SUSPEND_CURRENT_QUEUE_A_MOMENT, None or an exception the queue pauses, and the same messages are delivered again. With
        ``context.auto_commit = False``, COMMIT and ROLLBACK apply to all messages since the last COMMIT. ``listener`` and
        ``batch_size`` have the defaults of ``concurrent_listener``."""
        return self._async.orderly_listener(listener, batch_size=batch_size)  # type: ignore[call-overload]

    def add_hook(self, hook: ConsumeMessageHook | FilterMessageHook) -> None:
        """Call ``hook`` around each listener call, or to filter (``sprocketmq.client.hooks``); before ``start``."""
        self._async.add_hook(hook)

    def on_consume_timeout(self, callback: C) -> C:
        """Register a function of one StuckListener, before ``start``. It is called once for each listener call that takes longer than
        ``consume_timeout_ms``, at its deadline, in a thread, or on the consumer's loop if it is ``async def``. Its exceptions are
        logged. The messages are sent back with and without it, and ``statistics`` count the timeout, too."""
        return self._async.on_consume_timeout(callback)

    def start(self) -> None:
        """Join the group and begin to consume if not started. Raises NetworkError, RequestTimeout (no name server
        answers)."""
        self._run(self._async.start())

    @property
    def client_id(self) -> str:
        """The client id, ``ip@instanceName``; empty before ``start``."""
        return self._async.client_id

    @property
    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that this consumer consumes now, sorted."""
        return self._on_loop(lambda: self._async.assigned_queues)

    @property
    def statistics(self) -> ConsumerStatistics:
        """Rates and times of pulling and consuming for each topic."""
        return self._async.statistics

    @property
    def process_queues(self) -> dict[MessageQueue, QueueSnapshot]:
        """A snapshot of each queue's cached and unfinished messages."""
        return self._on_loop(lambda: self._async.process_queues)

    def health(self) -> ConsumerHealth:
        """Whether it works, as far as its own process can tell: for the health check of a container or service. Unhealthy is one
        that is not running, or that a restart mends: a queue was not pulled for 120 s, a listener call runs longer than
        ``consume_timeout_ms``. For lag, failing listeners and brokers that are away see ``Admin.diagnose_group``."""
        return self._on_loop(lambda: self._async.health())

    def pause(self) -> None:
        """Stop pulling until ``resume``. Cached messages are still consumed."""
        self._on_loop(lambda: self._async.pause())

    def resume(self) -> None:
        """Continue pulling after ``pause``."""
        self._on_loop(lambda: self._async.resume())

    def set_consume_timeout_ms(self, limit_ms: int) -> None:
        """Change the timeout, also of running calls (orderly: only reported). ``limit_ms``: milliseconds; 0: none."""
        self._run(self._async.set_consume_timeout_ms(limit_ms))

    def set_consume_thread_count(self, count: int) -> None:
        """Change how many listener calls may run at the same time. ``count``: 1 to 1000."""
        self._run(self._async.set_consume_thread_count(count))

    def rebalance_now(self) -> None:
        """Rebalance once, now (Java: rebalanceImmediately)."""
        self._run(self._async.rebalance_now())

    def persist_offsets(self) -> None:
        """Write progress to the brokers now instead of within 5 s."""
        self._run(self._async.persist_offsets())

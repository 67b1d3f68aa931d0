# SPDX-License-Identifier: Apache-2.0
"""Sending messages without an event loop: Producer, the blocking form of AsyncProducer (Java: DefaultMQProducer)."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.client.produce.send_future import SendFuture, begin_all, fail_all
from sprocketmq.client.remoting.send import Send, send_of
from sprocketmq.client.results import SendResult
from sprocketmq.errors import ClosedError
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.hooks import CheckForbiddenHook, EndTransactionHook, SendMessageHook
    from sprocketmq.client.keyword_options import ProducerOptions, RequestArguments, SendArguments
    from sprocketmq.client.remoting.send import QueueSelector

_TAKEN_AT_ONCE: Final = 1_000  # messages of ``send_async`` that the engine takes under one lock


class Producer(BlockingClient[AsyncProducer]):
    """Sends messages; each verb waits for its result (AsyncProducer: for callers with an event loop). Safe to use from several threads.

    ::

        with Producer("ops", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("flights", b"..."))

    Args:
        group: the producer group: a name that all producers with the same purpose share.
        options: those of ProducerOptions and CommonOptions (``help(sprocketmq.ProducerOptions)``), such as ``namesrv_addr``.
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Every method that sends takes the choice of a queue (``queue``, ``selector`` or ``sharding_key``) and a delay (``delay_level``,
    ``delay_ms`` in milliseconds, or ``deliver_time_ms`` in milliseconds since 1970) as ``send`` explains them; default: none.
    ``timeout_ms`` is the time limit for all tries together, in milliseconds; default: ``send_msg_timeout_ms``.

    Every method raises ConfigurationError (the message or an argument is wrong; nothing was sent), TopicNotExist (the topic has no
    route and no broker creates it), RemoteError (the broker refused it, after the retries that are useful), NetworkError or
    RequestTimeout (no server answered; the message may nevertheless be stored), and ClosedError (the producer is not started, or
    was shut down). A future has the exception instead. The class raises ConfigurationError (an option is unknown or out of range;
    nothing was opened).
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._wrap(AsyncProducer(group, **options), engine)

    def _wrap(self, producer: AsyncProducer, engine: Engine | None) -> None:
        super().__init__(producer, engine)
        self._inbox: deque[tuple[Message, SendFuture, Send | None]] = deque()
        self._is_awake = False

    def send_async(self, message: Message, **how: Unpack[SendArguments]) -> concurrent.futures.Future[SendResult]:
        """Like ``send``, without waiting: a future of the SendResult, or of the exception of ``send``. Do not change ``message``
        before the future has ended: it may be read until then. Raises TooMuchRequest: with back-pressure, the send could not begin
        in time; nothing was sent.

        Note:
            With ``enable_backpressure_for_async_mode`` the call itself waits for its turn.
        """
        producer = self._async
        send = send_of(message, how) if how else None
        if producer._permits is not None:
            send = send or Send(message)
            self._run(producer._take_permit(send))
        elif producer._can_be_batched(message, send) and not self._engine.is_inherited:
            # Many messages are handed over by one call of the engine: the first of a burst wakes it, the others join.
            future: SendFuture = SendFuture()
            self._inbox.append((message, future, send))
            if not self._is_awake:
                self._wake()
            return future
        return self._engine.submit(producer._send_begun(send or Send(message)))

    def _wake(self) -> None:
        self._is_awake = True
        try:
            self._engine.call(self._empty_inbox)
        except ClosedError as error:
            self._is_awake = False
            with contextlib.suppress(IndexError):  # it is empty; other threads may be taking from it, too
                while True:
                    fail_all([self._inbox.popleft()[1]], error)

    def _empty_inbox(self) -> None:
        self._is_awake = False  # before taking: what is appended from here on wakes the engine again
        inbox = self._inbox
        while inbox:
            taken = [inbox.popleft() for _ in range(min(len(inbox), _TAKEN_AT_ONCE))]
            cancelled = begin_all([future for _, future, _ in taken])
            if cancelled:
                taken = [one for one in taken if one[1] not in cancelled]
            self._async._add_to_batches(taken)

    def request_async(self, message: Message, **how: Unpack[RequestArguments]) -> concurrent.futures.Future[MessageExt]:
        """Like ``request``, without waiting: a future of the reply, or of the exception of ``request``."""
        return self._engine.submit(self._async.request(message, **how))

    # Written by `make generate` from here on, from the methods of AsyncProducer.

    @property
    def group(self) -> str:
        """The producer group, as it was given; at the brokers its name begins with the namespace."""
        return self._async.group

    @property
    def client_id(self) -> str:
        """The client id, ``ip@instanceName``; empty before ``start``."""
        return self._async.client_id

    def add_hook(self, hook: SendMessageHook | CheckForbiddenHook | EndTransactionHook) -> None:
        """Call ``hook`` around each try of a send or when a transaction ends, before ``start``. ``hook``: an object with methods of the
        classes in ``sprocketmq.client.hooks``. Raises ConfigurationError (it has none of these methods, or the producer is started)."""
        self._async.add_hook(hook)

    def start(self) -> None:
        """Start the producer; connections open with the first send. Does nothing if it is started already. Raises
        ConfigurationError (the instance has a producer of that group already), ClosedError (it has been shut down)."""
        self._run(self._async.start())

    def shutdown(self) -> None:
        """Stop the producer. Sends of ``send_async`` are completed first, or fail within their timeout; other sends that still
        run fail with ClosedError or ConnectionLost. Does nothing if the producer is not started."""
        self._run_shutdown()

    def flush(self) -> None:
        """Wait until everything that was given to ``send_async`` before is stored or has failed, each within its own timeout. The
        futures have the results. Messages that wait in a batch are sent at once."""
        self._run(self._async.flush())

    def message(
        self,
        topic: str,
        value: Any,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
    ) -> Message:
        """A message whose body ``value_serializer`` makes of ``value``; any verb sends it.

        ::

            producer = Producer("ops", namesrv_addr="127.0.0.1:9876", value_serializer=json_serializer)
            producer.send(producer.message("orders", {"id": 7}, keys="order-7"))

        ``tags`` (one tag), ``keys`` (one or many, without blanks), ``properties``: default none. ``delay_level``: as of ``send``.
        Raises ConfigurationError (there is no ``value_serializer`` for the topic, it failed or returned no bytes, or an argument is
        wrong).
        """
        return self._async.message(topic, value, tags=tags, keys=keys, properties=properties, delay_level=delay_level)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_time_ms: int | datetime | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until the broker has stored it.

        Args:
            queue: exactly this queue (see ``publish_queues``), and no other one is tried; default: the queues in turn.
            selector: a function of (queues, message) that returns one of the queues; default: none.
            sharding_key: messages of one key stay in order in one queue, which all clients choose by Java's hash; default: none.
            delay_level: 1 to ``max_delay_level`` (1s 5s 10s 30s 1m ... 2h, unless the brokers have others); 0 means no delay.
            delay_ms: the delay in milliseconds, accurate to the second (5.x; a 4.9 broker delivers at once); default: none.
            deliver_time_ms: milliseconds since 1970, or a datetime with a time zone (5.x); default: none.
            timeout_ms: the time limit for all tries together, in milliseconds; default: ``send_msg_timeout_ms``.

        Returns the SendResult; whatever its status is, the message is stored. Raises TooMuchRequest: with back-pressure, the send
        could not begin in time; nothing was sent.
        """
        return self._run(
            self._async.send(
                message,
                queue=queue,
                selector=selector,
                sharding_key=sharding_key,
                delay_level=delay_level,
                delay_ms=delay_ms,
                deliver_time_ms=deliver_time_ms,
                timeout_ms=timeout_ms,
            )
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_time_ms: int | datetime | None = None,
    ) -> None:
        """Send one message without waiting for an answer: fast, but whether it was stored is not known. Raises NetworkError,
        RequestTimeout (no route, or no connection to the broker, within ``send_msg_timeout_ms``)."""
        self._run(
            self._async.send_oneway(
                message,
                queue=queue,
                selector=selector,
                sharding_key=sharding_key,
                delay_level=delay_level,
                delay_ms=delay_ms,
                deliver_time_ms=deliver_time_ms,
            )
        )

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic, which is not a retry topic, in one request: without delays, of at most ``max_message_bytes``
        together. Either all or none are stored, one after the other in one queue. ``queue_offset`` of the result is that of the
        first message, and ``message_id`` has all ids, separated by commas."""
        return self._run(
            self._async.send_batch(messages, queue=queue, sharding_key=sharding_key, timeout_ms=timeout_ms)
        )

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int = 3000,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
    ) -> MessageExt:
        """Send one message and wait for the reply of its consumer (see ``reply``).

        Args:
            timeout_ms: the time limit for sending and waiting, in milliseconds; the message carries it as TTL.

        Raises RequestTimeout: no reply came in time; the request may nevertheless have been stored and consumed.
        """
        return self._run(
            self._async.request(
                message, timeout_ms=timeout_ms, queue=queue, selector=selector, sharding_key=sharding_key
            )
        )

    def reply(
        self,
        request: Message,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Reply to a message that was sent by ``request``, in the listener that received it or later. ``body`` has at least one
        byte; ``properties``: default: none. Raises ConfigurationError (``request`` is not a request, or an argument is wrong),
        RemoteError (with code 1, the broker could not reach the sender of the request, which left or no longer waits)."""
        return self._run(self._async.reply(request, body, properties=properties, timeout_ms=timeout_ms))

    def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a message that waits for its delivery time, by the handle in its SendResult (5.x brokers with
        ``recallMessageEnable=true``). Returns the message id. Raises ConfigurationError (the handle is invalid), RemoteError (it is
        delivered already, or the broker does not recall messages)."""
        return self._run(self._async.recall(topic, recall_handle))

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues to which messages of ``topic`` can be sent, or could if it does not exist yet, sorted by broker name and queue
        id (Java: fetchPublishMessageQueues)."""
        return self._run(self._async.publish_queues(topic))

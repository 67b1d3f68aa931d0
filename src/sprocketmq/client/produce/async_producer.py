# SPDX-License-Identifier: Apache-2.0
"""Sending messages from a running event loop (Java: DefaultMQProducer). The first start imports what a producer runs with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.async_client import AsyncClient
from sprocketmq.client.hooks import CheckForbiddenHook, EndTransactionHook, Hooks, SendMessageHook
from sprocketmq.client.produce.send_future import fail_all
from sprocketmq.client.produce.send_permits import SendPermits
from sprocketmq.client.remoting.send import Send, send_of
from sprocketmq.client.results import SendResult
from sprocketmq.client.settings.namespace import wrap
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.split_options import split_options
from sprocketmq.client.settings.validators import check_batch, check_group, check_sendable_topic, check_timeout_ms
from sprocketmq.client.settings.values import serialized
from sprocketmq.errors import ClosedError, ConfigurationError
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import ProducerOptions, SendArguments
    from sprocketmq.client.observe.trace import MessageTrace
    from sprocketmq.client.produce.batch_accumulator import BatchAccumulator
    from sprocketmq.client.produce.running_producer import RunningProducer
    from sprocketmq.client.produce.send_future import ResultFuture
    from sprocketmq.client.remoting.instance import ClientInstance
    from sprocketmq.client.remoting.send import QueueSelector
    from sprocketmq.client.remoting.sender import Sender

_HOOKS: Final = ("send", "check_forbidden", "end_transaction")


class AsyncProducer(AsyncClient["RunningProducer"]):
    """Sends messages from a running event loop.

    ::

        async with AsyncProducer("ops", namesrv_addr="127.0.0.1:9876") as producer:
            result = await producer.send(Message("flights", b"..."), sharding_key="N14228")

    Args:
        group: the producer group: a name that all producers with the same purpose share.
        options: those of ProducerOptions and CommonOptions (``help(sprocketmq.ProducerOptions)``), such as ``namesrv_addr``.

    Every method that sends takes the choice of a queue (``queue``, ``selector`` or ``sharding_key``) and a delay (``delay_level``,
    ``delay_ms`` in milliseconds, or ``deliver_time_ms`` in milliseconds since 1970) as ``send`` explains them; default: none.
    ``timeout_ms`` is the time limit for all tries together, in milliseconds; default: ``send_msg_timeout_ms``.

    Every method raises ConfigurationError (the message or an argument is wrong; nothing was sent), TopicNotExist (the topic has no
    route and no broker creates it), RemoteError (the broker refused it, after the retries that are useful), NetworkError or
    RequestTimeout (no server answered; the message may nevertheless be stored), and ClosedError (the producer is not started, or
    was shut down). A future has the exception instead. The class raises ConfigurationError (an option is unknown or out of range;
    nothing was opened).
    """

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__()
        self._options, settings = split_options(options, ClientOptions, SendSettings, "a producer")
        group = check_group(group, "the producer group")
        self._settings = SendSettings(group=wrap(self._options.namespace, group), **settings)
        self._group = group
        self._instance: ClientInstance | None = None  # these four are set while it runs
        self._sender: Sender | None = None
        self._batches: BatchAccumulator | None = None  # None without auto_batch
        self._permits: SendPermits | None = None  # None without back-pressure
        if self._settings.enable_backpressure_for_async_mode:
            self._permits = SendPermits(
                self._settings.back_pressure_for_async_send_num,
                self._settings.back_pressure_for_async_send_size_bytes,
            )
        self._hooks = Hooks.of_client(_HOOKS)
        self._trace: MessageTrace | None = None

    @property
    def group(self) -> str:
        """The producer group, as it was given; at the brokers its name begins with the namespace."""
        return self._group

    @property
    def client_id(self) -> str:
        """The client id, ``ip@instanceName``; empty before ``start``."""
        return self._instance.client_id if self._instance is not None else ""

    def add_hook(self, hook: SendMessageHook | CheckForbiddenHook | EndTransactionHook) -> None:
        """Call ``hook`` around each try of a send or when a transaction ends, before ``start``. ``hook``: an object with methods of the
        classes in ``sprocketmq.client.hooks``. Raises ConfigurationError (it has none of these methods, or the producer is started)."""
        if self._instance is not None:
            raise ConfigurationError(f"producer {self.group!r} is started, hooks are added before start()")
        self._hooks.add(hook, _HOOKS)

    async def start(self) -> None:
        """Start the producer; connections open with the first send. Does nothing if it is started already. Raises
        ConfigurationError (the instance has a producer of that group already), ClosedError (it has been shut down)."""
        await super().start()

    async def shutdown(self) -> None:
        """Stop the producer. Sends of ``send_async`` are completed first, or fail within their timeout; other sends that still
        run fail with ClosedError or ConnectionLost. Does nothing if the producer is not started."""
        await asyncio.sleep(0)  # what was begun in this turn of the loop takes its first step
        await super().shutdown()

    async def flush(self) -> None:
        """Wait until everything that was given to ``send_async`` before is stored or has failed, each within its own timeout. The
        futures have the results. Messages that wait in a batch are sent at once."""
        self._started_sender()
        parts = self._parts
        assert parts is not None
        await asyncio.sleep(0)  # as above
        await parts.flush()

    @property
    def _name(self) -> str:
        return f"producer {self.group!r}"

    @property
    def _would_be_lost(self) -> str:
        count = self._parts.unanswered_count if self._parts is not None else 0
        return f"; {count} sends were not answered" if count else ""

    def _make(self) -> RunningProducer:
        from sprocketmq.client.produce.running_producer import (
            RunningProducer,  # not at import: a program may only import the class
        )

        return RunningProducer(self._options, self._settings, self._group, self._hooks)

    def _use(self, parts: RunningProducer | None) -> None:
        if parts is None:
            self._instance = self._sender = self._batches = self._trace = None
        else:
            self._instance, self._sender, self._batches, self._trace = (
                parts.instance, parts.sender, parts.batches, parts.trace,
            )  # fmt: skip

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
        topic = check_sendable_topic(topic)
        body = serialized(self._settings.value_serializer, topic, value, self._name)
        return Message(topic, body, tags=tags, keys=keys, properties=properties, delay_level=delay_level)

    async def send(
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
        sender, batches, permits = self._sender, self._batches, self._permits
        if sender is None or asyncio._get_running_loop() is not self._loop:  # here, because two calls cost a send 2 %
            sender = self._started_sender()
        if batches is not None and permits is None:
            is_free = queue is None and selector is None and sharding_key is None and timeout_ms is None
            is_delayed = delay_level != 0 or delay_ms is not None or deliver_time_ms is not None
            if is_free and not is_delayed and (joined := batches.join(message)) is not None:
                try:
                    return await joined
                finally:
                    del joined  # it holds the error, whose traceback holds this frame
        send = Send(message, queue, selector, sharding_key, delay_level, delay_ms, deliver_time_ms, timeout_ms)
        if batches is None and permits is None:
            return await sender.send(send)
        if permits is not None:
            await self._take_permit(send)
        return await self._send(send)

    def send_async(self, message: Message, **how: Unpack[SendArguments]) -> asyncio.Future[SendResult]:
        """Like ``send``, without waiting: a future of the SendResult, or of the exception of ``send``. Do not change ``message``
        before the future has ended: it may be read until then. Raises TooMuchRequest: with back-pressure, the send could not begin
        in time; nothing was sent."""
        batches, permits = self._batches, self._permits
        if batches is not None and permits is None:
            if not how and (joined := batches.join(message)) is not None:
                return joined
            if self._can_be_batched(message, send := send_of(message, how)):
                future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
                self._add_to_batches([(message, future, send)])
                return future
        send = send_of(message, how)
        return asyncio.ensure_future(self._send_begun(send, takes_permit=permits is not None))

    async def _send_begun(self, send: Send, *, takes_permit: bool = False) -> SendResult:
        """``_send`` as a task that ``flush`` waits for."""
        task = asyncio.current_task()
        # Without parts the send fails, because the producer is not started.
        begun: set[Any] = set() if self._parts is None else self._parts.begun
        begun.add(task)
        try:
            if takes_permit:
                await self._take_permit(send)
            return await self._send(send)
        finally:
            begun.discard(task)
            del task  # it holds the error, whose traceback holds this frame

    async def _take_permit(self, send: Send) -> None:
        sender = self._started_sender()
        assert self._permits is not None
        sender.check(send.message)
        limit_ms = sender.settings.send_msg_timeout_ms if send.timeout_ms is None else send.timeout_ms
        timeout_ms = check_timeout_ms(limit_ms)
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        await self._permits.take(len(send.message.body), timeout_ms)
        send.timeout_ms = max(1, timeout_ms - int((loop.time() - started_s) * 1000))

    async def _send(self, send: Send) -> SendResult:
        """Send one message by itself or in a batch, and give its permit back, if it has one."""
        try:
            if not self._can_be_batched(send.message, send):
                # Its turn may come while the producer ends, which waits for it.
                self._check_running_loop()
                parts = self._parts
                sender = (parts.sender if parts is not None else None) or self._started_sender()
                return await sender.send(send)
            future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
            self._add_to_batches([(send.message, future, send)])
            try:
                return await future
            finally:
                del future  # it holds the error, whose traceback holds this frame
        finally:
            if self._permits is not None:
                self._permits.give_back(len(send.message.body))

    def _can_be_batched(self, message: Message, send: Send | None) -> bool:
        batches = self._batches
        return batches is not None and (send is None or not send.is_delayed) and batches.takes(message)

    def _add_to_batches(self, sends: Iterable[tuple[Message, ResultFuture, Send | None]]) -> None:
        """Add messages that can be batched; each future gets the SendResult or the exception. No Send: it was sent without arguments."""
        batches = self._batches
        for message, future, send in sends:
            try:
                if batches is None:
                    self._started_sender()
                    raise ClosedError(f"producer {self.group!r} was shut down")
                if send is not None or batches.join(message, future) is None:
                    batches.add(send or Send(message), future)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a selector's, too: it fails its own message only
                fail_all([future], error)

    async def send_oneway(
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
        send = Send(message, queue, selector, sharding_key, delay_level, delay_ms, deliver_time_ms)
        await self._started_sender().send_oneway(send)

    async def send_batch(
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
        sender = self._started_sender()
        check_batch(messages, sender.settings.max_message_bytes)
        send = Send(messages[0], queue, None, sharding_key, timeout_ms=timeout_ms, messages=list(messages))
        return await sender.send_batch(send)

    @property
    def encoded_batch_sender(self) -> Sender | None:
        """The sender, for callers that encode batches themselves (the Spark sink); None if hooks or a namespace need each message."""
        sender = self._started_sender()
        return sender if sender.sends_as_given else None

    async def request(
        self,
        message: Message,
        *,
        timeout_ms: int = 3_000,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
    ) -> MessageExt:
        """Send one message and wait for the reply of its consumer (see ``reply``).

        Args:
            timeout_ms: the time limit for sending and waiting, in milliseconds; the message carries it as TTL.

        Raises RequestTimeout: no reply came in time; the request may nevertheless have been stored and consumed.
        """
        from sprocketmq.client.produce.request_reply import RequestFutures  # imported here because few programs use it

        sender = self._started_sender()
        assert self._instance is not None
        send = Send(message, queue, selector, sharding_key, timeout_ms=timeout_ms)
        return await self._instance.processor(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, RequestFutures).request(
            sender, send
        )

    async def reply(
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
        from sprocketmq.client.produce.request_reply import send_reply

        return await send_reply(self._started_sender(), request, body, properties, timeout_ms)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a message that waits for its delivery time, by the handle in its SendResult (5.x brokers with
        ``recallMessageEnable=true``). Returns the message id. Raises ConfigurationError (the handle is invalid), RemoteError (it is
        delivered already, or the broker does not recall messages)."""
        return await self._started_sender().recall(topic, recall_handle)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues to which messages of ``topic`` can be sent, or could if it does not exist yet, sorted by broker name and queue
        id (Java: fetchPublishMessageQueues)."""
        return await self._started_sender().queue_choice.publish_queues(topic)

    def _started_sender(self) -> Sender:
        self._check_running_loop()
        if self._sender is None:
            raise self._not_started()
        return self._sender

    def __repr__(self) -> str:
        state = "started" if self._instance is not None else self._life.state.value
        return f"{type(self).__name__}(group={self.group!r}, namesrv_addr={self._options.namesrv_addr!r}, {state})"

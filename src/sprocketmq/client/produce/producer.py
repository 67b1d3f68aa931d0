"""Sending messages without an event loop: Producer, the blocking face of AsyncProducer (Java: DefaultMQProducer)."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sprocketmq.client.face import BlockingFace
from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.client.results import SendResult
from sprocketmq.net.engine import Engine
from sprocketmq.wire.message import Message, MessageExt, MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.hooks import CheckForbiddenHook, EndTransactionHook, SendMessageHook
    from sprocketmq.client.keyword_options import ProducerOptions, RequestArguments, SendArguments
    from sprocketmq.client.remoting.sender import QueueSelector

__all__ = ["AsyncProducer", "Producer"]


class Producer(BlockingFace):
    """AsyncProducer for callers without an event loop: the same verbs and options, each waits. Safe to use from several threads.

    ::

        with Producer("ops", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("flights", b"..."))
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._face_of(AsyncProducer(group, **options), engine)

    def _face_of(self, producer: AsyncProducer, engine: Engine | None) -> None:
        super().__init__(engine)
        self._async = producer
        self._inbox: deque[tuple[Message, concurrent.futures.Future[SendResult], SendArguments]] = deque()
        self._is_awake = False

    @property
    def group(self) -> str:
        return self._async.group

    @property
    def client_id(self) -> str:
        """``ip@instanceName``; empty before start."""
        return self._async.client_id

    def add_hook(self, hook: SendMessageHook | CheckForbiddenHook | EndTransactionHook) -> None:
        """As ``AsyncProducer.add_hook``."""
        self._async.add_hook(hook)

    def start(self) -> None:
        """As ``AsyncProducer.start``."""
        self._run(self._async.start())

    def shutdown(self) -> None:
        """As ``AsyncProducer.shutdown``."""
        self._run(self._async.shutdown())

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_time_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """As ``AsyncProducer.send``. A ``selector`` runs on the engine's thread and must not block."""
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

    def send_async(self, message: Message, **how: Unpack[SendArguments]) -> concurrent.futures.Future[SendResult]:
        """Like ``send``, without waiting: the future has the SendResult or the exception.

        With ``enable_backpressure_for_async_mode`` it waits for its turn here, and raises TooMuchRequest when that does not come in time.
        """
        if self._async.is_limited:
            left_ms = self._run(self._async.take_permit(message, how))
            return self._begin(self._async.send_permitted(message, how, left_ms))
        if self._async.takes_into_batches(message, how) and not self._engine.is_inherited:
            return self._into_batches(message, how)
        return self._begin(self._async.send(message, **how))

    def _begin(self, sending: Coroutine[Any, Any, SendResult]) -> concurrent.futures.Future[SendResult]:
        return self._engine.submit(self._async.send_begun(sending))

    def flush(self) -> None:
        """As ``AsyncProducer.flush``."""
        self._run(self._async.flush())

    def _into_batches(self, message: Message, how: SendArguments) -> concurrent.futures.Future[SendResult]:
        """Hand over many messages by one call of the engine: the first of a burst wakes it, the others join."""
        future: concurrent.futures.Future[SendResult] = concurrent.futures.Future()
        self._inbox.append((message, future, how))
        if not self._is_awake:
            self._is_awake = True
            self._engine.call(self._empty_inbox)
        return future

    def _empty_inbox(self) -> None:
        self._is_awake = False  # before taking: what is appended from here on wakes the engine again
        inbox, send_into = self._inbox, self._async.send_into
        while inbox:
            message, future, how = inbox.popleft()
            if future.set_running_or_notify_cancel():
                send_into(message, future, how)

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_time_ms: int | None = None,
    ) -> None:
        """As ``AsyncProducer.send_oneway``."""
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
        """As ``AsyncProducer.send_batch``."""
        return self._run(
            self._async.send_batch(messages, queue=queue, sharding_key=sharding_key, timeout_ms=timeout_ms)
        )

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int = 3_000,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        sharding_key: str | None = None,
    ) -> MessageExt:
        """As ``AsyncProducer.request``."""
        return self._run(
            self._async.request(
                message, timeout_ms=timeout_ms, queue=queue, selector=selector, sharding_key=sharding_key
            )
        )

    def request_async(self, message: Message, **how: Unpack[RequestArguments]) -> concurrent.futures.Future[MessageExt]:
        """Like ``request``, without waiting: the future has the reply or the exception."""
        return self._engine.submit(self._async.request(message, **how))

    def reply(
        self,
        request: Message,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """As ``AsyncProducer.reply``; in a listener of a blocking PushConsumer it may be called as it is."""
        return self._run(self._async.reply(request, body, properties=properties, timeout_ms=timeout_ms))

    def recall(self, topic: str, recall_handle: str) -> str:
        """As ``AsyncProducer.recall``."""
        return self._run(self._async.recall(topic, recall_handle))

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """As ``AsyncProducer.publish_queues``."""
        return self._run(self._async.publish_queues(topic))

    def __repr__(self) -> str:
        return repr(self._async).replace("AsyncProducer", "Producer", 1)

# SPDX-License-Identifier: Apache-2.0
"""``consumer.messages()``: iterating over a push consumer, with and without an event loop. ``listen.message_stream`` has the rules."""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sprocketmq.client.listen.message_stream import MessageStream
from sprocketmq.client.received_message import ReceivedMessage
from sprocketmq.client.settings.validators import check_duration, check_range
from sprocketmq.core.lifecycle import LifeState
from sprocketmq.errors import ClosedError

if TYPE_CHECKING:
    from typing import Self

    from sprocketmq.client.async_client import AsyncClient
    from sprocketmq.client.blocking_client import BlockingClient


class AsyncMessageIterator:
    """The messages of an AsyncPushConsumer, one by one; made by ``consumer.messages()``.

    Entering the ``async with`` block starts the consumer, leaving it shuts the consumer down. What is not acked then is delivered again, to
    this group's other members or after the next start. Several tasks may iterate at once, each message goes to one of them.

    Args:
        consumer: whose messages.
        stream: where it hands them out.
    """

    def __init__(self, consumer: AsyncClient[Any], stream: MessageStream) -> None:
        self._consumer, self._stream = consumer, stream

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.give_up()
        await self._consumer.shutdown()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage[Any]:
        messages = await self._receive(1, None)
        if not messages:
            raise StopAsyncIteration
        return messages[0]

    async def receive(self, max_messages: int = 32, *, timeout_ms: float | None = None) -> list[ReceivedMessage[Any]]:
        """Return the next messages as soon as there is one, an empty list if none came in time. If it is cancelled, the next call
        returns its messages. ``max_messages``: ``consume_thread_count`` and ``orderly`` limit it, too. ``timeout_ms``: milliseconds to
        wait for the first message; default: no limit. Raises ConfigurationError (an argument is out of range), ClosedError (the
        consumer is not started, or no more messages come)."""
        max_messages = check_range("max_messages", max_messages, 1, 1 << 20)
        if timeout_ms is not None:
            timeout_ms = check_duration("timeout_ms", timeout_ms)
        messages = await self._receive(max_messages, timeout_ms)
        if not messages and self._stream.is_over:
            raise ClosedError(
                f"{self._consumer._name} was shut down, or its messages were stopped: no more come; leave the block of messages()"
            )
        return messages

    async def _receive(self, most: int, timeout_ms: float | None) -> list[ReceivedMessage[Any]]:
        state = self._consumer._life.state
        if state in (LifeState.STOPPING, LifeState.ENDED):
            self._stream.stop()
            return []
        if state is LifeState.NEW:
            raise ClosedError(
                f"{self._consumer._name} is not started; write `async with consumer.messages() as messages:`, or call start()"
            )
        return await self._stream.receive(most, None if timeout_ms is None else timeout_ms / 1000)

    def stop(self) -> None:
        """End each loop at its next message; for signal handlers, on its loop. Messages in hand may still be acked."""
        self._stream.stop()


class MessageIterator:
    """The messages of a PushConsumer, one by one; made by ``consumer.messages()``. What is not acked when the ``with`` block is left is
    delivered again. Several threads may iterate at once, each message goes to one of them.

    Args:
        consumer: whose messages.
        messages: the same iterator for its loop.
    """

    def __init__(self, consumer: BlockingClient[Any], messages: AsyncMessageIterator) -> None:
        self._consumer, self._async = consumer, messages

    def __enter__(self) -> Self:
        self._consumer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        engine = self._consumer._engine
        if not engine.is_inherited:  # a forked child that leaves the block has nothing to shut down
            engine.call(self._async._stream.give_up)
            try:
                self._consumer.shutdown()
            finally:
                if self._async._stream.descriptor is not None:
                    self._async._stream.descriptor.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage[Any]:
        messages = self._run(self._async._receive(1, None))
        if not messages:
            raise StopIteration
        return messages[0]

    def receive(self, max_messages: int = 32, *, timeout_ms: float | None = None) -> list[ReceivedMessage[Any]]:
        """Return the next messages as soon as there is one, an empty list if none came in time. If it is interrupted (Ctrl-C, a
        signal), the next call returns its messages. ``max_messages``: ``consume_thread_count`` and ``orderly`` limit it, too.
        ``timeout_ms``: milliseconds to wait for the first message; default: no limit. Raises ConfigurationError (an argument is out of
        range), ClosedError (the consumer is not started, or no more messages come)."""
        return self._run(self._async.receive(max_messages, timeout_ms=timeout_ms))

    def _run(self, receive: Coroutine[Any, Any, list[ReceivedMessage[Any]]]) -> list[ReceivedMessage[Any]]:
        stream = self._async._stream
        messages = self._consumer._engine.run(receive, unreceived=stream.put_back)
        return stream.mark(messages)  # in this thread, because the engine's task has another context

    def fileno(self) -> int:
        """A descriptor for another event loop: readable while ``receive(timeout_ms=0)`` would return messages, and for good when no
        more come. Do not read from it. Several threads may wait for it; then some find nothing. Leaving the ``with`` block closes it,
        so unregister it before; then it is -1. Raises ClosedError (the first call is in a forked child, or its engine is closed)."""
        stream = self._async._stream
        if stream.descriptor is None:
            self._consumer._engine.run(stream.make_descriptor())
        assert stream.descriptor is not None
        return stream.descriptor.fileno()

    def stop(self) -> None:
        """End each loop at its next message, from any thread or signal handler. Messages in hand may still be acked."""
        self._consumer._engine.call(self._async.stop)

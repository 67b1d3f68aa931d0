# SPDX-License-Identifier: Apache-2.0
"""``consumer.messages()``: iterating over a push consumer, with and without an event loop. ``listen.message_stream`` has the laws.

async with consumer.messages() as messages:      with consumer.messages() as messages:
    async for message in messages: ...               for message in messages: ...
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from sprocketmq.client.listen.message_stream import MessageStream
from sprocketmq.client.received_message import ReceivedMessage
from sprocketmq.core.lifecycle import LifeState
from sprocketmq.errors import ClosedError

if TYPE_CHECKING:
    from typing import Self

    from sprocketmq.client.async_client import AsyncClient
    from sprocketmq.client.blocking_client import BlockingClient

__all__ = ["AsyncMessageIterator", "MessageIterator"]


class AsyncMessageIterator:
    """The messages of an AsyncPushConsumer, one by one; made by ``consumer.messages()``.

    ::

        async with consumer.messages() as messages:
            async for message in messages:
                await handle(message)
                message.ack()

    Entering the ``async with`` block starts the consumer, leaving it shuts the consumer down. What is not acked then is delivered again, to
    this group's other members or after the next start; also when an exception left the block. Several tasks may iterate at once, each
    message goes to one of them.

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
        message = await self._take()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _take(self) -> ReceivedMessage[Any] | None:
        state = self._consumer._life.state
        if state in (LifeState.STOPPING, LifeState.ENDED):
            return None
        if state is LifeState.NEW:
            raise ClosedError(
                f"{self._consumer._name} is not started; write `async with consumer.messages() as messages:`, or call start()"
            )
        return await self._stream.take()

    def stop(self) -> None:
        """Hand out nothing more: each loop ends when it asks for its next message. For signal handlers; call it on the consumer's loop.

        Messages that were handed out may still be acked, until the block is left.
        """
        self._stream.stop()


class MessageIterator:
    """The messages of a PushConsumer, one by one; made by ``consumer.messages()``. The same as AsyncMessageIterator, for callers without an
    event loop.

    ::

        with consumer.messages() as messages:
            for message in messages:
                handle(message)
                message.ack()

    Entering the ``with`` block starts the consumer, leaving it shuts the consumer down. What is not acked then is delivered again, to this
    group's other members or after the next start; also when an exception left the block. Several threads may iterate at once, each message
    goes to one of them.

    Args:
        consumer: whose messages.
        messages: the same iterator for its loop.
    """

    def __init__(self, consumer: BlockingClient, messages: AsyncMessageIterator) -> None:
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
            self._consumer.shutdown()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage[Any]:
        stream = self._async._stream
        message = self._consumer._engine.run(self._async._take(), unreceived=stream.put_back)
        if message is None:
            raise StopIteration
        stream.mark(message)  # in this thread, because the engine's task has another context
        return message

    def stop(self) -> None:
        """Hand out nothing more: each loop ends when it asks for its next message. For signal handlers; call it in any thread.

        Messages that were handed out may still be acked, until the block is left.
        """
        self._consumer._engine.call(self._async.stop)

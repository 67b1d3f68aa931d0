# SPDX-License-Identifier: Apache-2.0
"""A router as FastStream has one: handlers get a typed value, and what they return is published.

NAMESRV_ADDR=127.0.0.1:9876 python router.py
"""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

import sprocketmq as rmq

Handler = Callable[[Any], Awaitable[Any]]


class Router:
    """Args:
    group: of consumers; each topic has one of its own, ``group-topic``, so that one can be slow without the others.
    options: of clients, such as namesrv_addr.
    """

    def __init__(self, group: str, **options: Any) -> None:
        self._group, self._options = group, options
        self._handlers: list[tuple[rmq.AsyncPushConsumer, Handler, str | None]] = []
        self._streams: list[rmq.AsyncMessageIterator] = []
        self._producer = rmq.AsyncProducer(group, value_serializer=rmq.json_serializer, **options)

    def subscriber(self, topic: str, tags: str = "*", *, publish: str | None = None) -> Callable[[Handler], Handler]:
        """Call the function with each message of ``topic`` as a value of its parameter's type, and send what it returns to ``publish``."""

        def register(handler: Handler) -> Handler:
            (parameter,) = inspect.signature(handler).parameters
            kind = get_type_hints(handler).get(parameter, bytes)
            decode = rmq.bytes_deserializer if kind is bytes else msgspec.json.Decoder(kind).decode
            consumer = rmq.AsyncPushConsumer(
                f"{self._group}-{topic}",
                value_deserializer=decode,
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                **self._options,
            )
            consumer.subscribe(topic, tags)
            self._handlers.append((consumer, handler, publish))
            return handler

        return register

    async def publish(self, topic: str, value: Any) -> None:
        await self._producer.send(self._producer.message(topic, value))

    async def run(self) -> None:
        """Until ``stop``: a failed message comes again later, one that is no value of the type is a dead letter at once."""
        async with self._producer, asyncio.TaskGroup() as tasks:
            for consumer, handler, publish in self._handlers:
                tasks.create_task(self._serve(consumer, handler, publish))

    def stop(self) -> None:
        for messages in self._streams:
            messages.stop()

    async def _serve(self, consumer: rmq.AsyncPushConsumer, handler: Handler, publish: str | None) -> None:
        async with consumer.messages() as messages:
            self._streams.append(messages)
            try:
                while True:
                    batch = await messages.receive(32)
                    await asyncio.gather(*(self._handle(message, handler, publish) for message in batch))
            except rmq.ClosedError:
                pass  # stopped

    async def _handle(self, message: rmq.ReceivedMessage[Any], handler: Handler, publish: str | None) -> None:
        with message.process(dead_letter_on=rmq.ValueDeserializationError):
            answer = await handler(message.value)
            if publish is not None:
                await self.publish(publish, answer)


@dataclass
class Order:
    id: int
    total: float


def shop(**options: Any) -> Router:
    router = Router("shop", **options)

    @router.subscriber("orders", publish="bills")
    async def bill(order: Order) -> dict[str, Any]:
        print(f"billed {order.id}", flush=True)
        return {"order": order.id, "amount": order.total}

    return router


async def main() -> None:
    router = shop()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, router.stop)
    await router.run()


if __name__ == "__main__":
    asyncio.run(main())

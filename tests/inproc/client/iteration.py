# SPDX-License-Identifier: Apache-2.0
"""An iteration over a consumer's messages in a thread of its own, with an event loop or without; the test decides what becomes of each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

Act = Callable[[rmq.ReceivedMessage], object]


class Iteration:
    """``received`` is what was handed out, in order. ``act`` is called in the loop's body, and may raise;
    ``failure`` is what left the block.

    Args:
        face: "async" or "blocking".
    """

    def __init__(
        self,
        face: str,
        rocketmq: EmbeddedRocketMQ,
        act: Act = lambda message: None,
        *,
        orderly: bool = False,
        **options: Any,
    ) -> None:
        options = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", "group": "delays", **options}
        self.group = options.pop("group")
        self.received: list[rmq.ReceivedMessage] = []
        self.failure: BaseException | None = None
        self._act = act
        self._rocketmq = rocketmq
        kind = rmq.AsyncPushConsumer if face == "async" else rmq.PushConsumer
        self.consumer: Any = kind(self.group, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock, **options)
        self.consumer.subscribe("flights")
        self.messages: Any = self.consumer.messages(orderly=orderly)
        self._loop: asyncio.AbstractEventLoop | None = None
        run = self._run_async if face == "async" else self._run
        self._thread = threading.Thread(target=run, name=f"iteration-{face}")

    def _run(self) -> None:
        try:
            with self.messages as messages:
                for message in messages:
                    self.received.append(message)
                    self._act(message)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error

    def _run_async(self) -> None:
        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            async with self.messages as messages:
                async for message in messages:
                    self.received.append(message)
                    self._act(message)

        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error

    def stop(self) -> None:
        if self._loop is None:
            self.messages.stop()
        else:
            self._loop.call_soon_threadsafe(self.messages.stop)

    def shutdown(self) -> None:
        """Of the consumer, by somebody who does not iterate."""
        if self._loop is None:
            self.consumer.shutdown()
        else:
            asyncio.run_coroutine_threadsafe(self.consumer.shutdown(), self._loop).result()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._rocketmq.wait_until(lambda: self.has_ended)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.received]

    def progress(self) -> int:
        """Of the group in all queues of the topic, as the broker has it."""
        if self._loop is None:
            self.consumer.persist_offsets()
        else:
            asyncio.run_coroutine_threadsafe(self.consumer.persist_offsets(), self._loop).result()
        return sum(self._rocketmq.consumer_offset(self.group, "flights").values())

    def __enter__(self) -> Iteration:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if not self.has_ended:
            if self._loop is not None or self.face_is_blocking:
                self.stop()
            self._thread.join(30)

    @property
    def face_is_blocking(self) -> bool:
        return isinstance(self.consumer, rmq.PushConsumer)

# SPDX-License-Identifier: Apache-2.0
"""The cluster that a console looks at: its clients, and a limit for each question.

Law: nothing waits for the cluster for longer than its limit. What did not come is told with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from sprocketmq.client.admin import AsyncAdmin
from sprocketmq.client.dead_letters.async_dead_letters import AsyncDeadLetters
from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.console.cluster.known import Known, asked

if TYPE_CHECKING:
    from sprocketmq.client.keyword_options import CommonOptions

__all__ = ["Cluster"]

T = TypeVar("T")

_MARGIN_S: Final = 0.5  # the request's own limit ends it with a better sentence
_PRODUCER_GROUP: Final = "sprocketmq-console"


class Cluster:
    """Args: ``options`` are those of every client, ``limit_ms`` is for one question."""

    def __init__(self, options: CommonOptions, limit_ms: int) -> None:
        # One request has the limit, too: what asks many brokers at once has the answers of the others then.
        self._options: CommonOptions = {**options, "mq_client_api_timeout_ms": limit_ms}
        self._limit_s = limit_ms / 1000
        self.admin = AsyncAdmin(**self._options)
        self._producer: AsyncProducer | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        """What the console calls it: the addresses of its name servers."""
        return self._options.get("namesrv_addr") or "NAMESRV_ADDR"

    async def ask(self, what: str, call: Awaitable[T], *, limits: float = 1) -> Known[T]:
        """The answer, or why there is none.

        Args:
            what: what is asked for, as the beginning of a sentence.
            limits: how many limits it may take, for what asks many things one after the other.
        """
        return await asked(what, call, self._limit_s * limits + _MARGIN_S)

    async def ask_each(
        self, what: str, brokers: Iterable[str], call: Callable[[str], Awaitable[T]], *, limits: float = 1
    ) -> tuple[dict[str, T], list[str]]:
        """The answers of these brokers, each asked beside the others, and a sentence for each answer that is missing.

        Args:
            what: what is asked for, as in "its queues".
            brokers: their names.
            call: asks one of them.
        """
        names = list(brokers)
        answers = await asyncio.gather(
            *(self.ask(f"{what} at broker {name}", call(name), limits=limits) for name in names)
        )
        # A value of None is an answer, too: the broker has nothing.
        told = {name: cast("T", one.value) for name, one in zip(names, answers, strict=True) if one.is_known}
        return told, [one.missing for one in answers if one.missing is not None]

    def dead_letters(self, group: str) -> AsyncDeadLetters:
        """Use with ``async with``. Raises ConfigurationError: the group's name is none."""
        return AsyncDeadLetters(group, **self._options)

    async def producer(self) -> AsyncProducer:
        """The one that sends what the console is told to send; started with the first message."""
        async with self._starting:
            if self._producer is None:
                producer = AsyncProducer(_PRODUCER_GROUP, **self._options)
                await producer.start()
                self._producer = producer
            return self._producer

    async def shutdown(self) -> None:
        """Close all connections."""
        if self._producer is not None:
            await self._producer.shutdown()
        await self.admin.shutdown()

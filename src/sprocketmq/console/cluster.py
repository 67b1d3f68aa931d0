# SPDX-License-Identifier: Apache-2.0
"""The clients of a console. No call waits for longer than its timeout, and a missing result has a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from sprocketmq.client.admin import AsyncAdmin
from sprocketmq.client.dead_letters.async_dead_letters import AsyncDeadLetters
from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.errors import RemoteError, RequestNotServed, RocketMQError
from sprocketmq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from sprocketmq.client.keyword_options import CommonOptions

T = TypeVar("T")

_MARGIN_S: Final = 0.5  # the request's own timeout, which comes first, has a better error text
_PRODUCER_GROUP: Final = "sprocketmq-console"


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """``value``, or ``missing``, a sentence that says why there is none. With ``missing`` None, a ``value`` of None is a result."""

    value: T | None = None
    missing: str | None = None

    @property
    def is_known(self) -> bool:
        return self.missing is None

    @property
    def why(self) -> list[str]:
        return [] if self.missing is None else [self.missing]


class _Admin(AsyncAdmin):
    _leaves_silent = True  # the next page or round asks again


class Cluster:
    """Args: ``options`` are for every client, ``limit_ms`` is the timeout of one request."""

    def __init__(self, options: CommonOptions, limit_ms: int) -> None:
        # Single requests have the timeout, too, so that a call to several brokers gets the answers of the others.
        self._options: CommonOptions = {**options, "mq_client_api_timeout_ms": limit_ms}
        self._limit_s = limit_ms / 1000
        self.admin: AsyncAdmin = _Admin(**self._options)
        self._producer: AsyncProducer | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._options.get("namesrv_addr") or "NAMESRV_ADDR"

    async def ask(self, what: str, call: Awaitable[T], *, limits: float = 1) -> Known[T]:
        """The result, or why there is none. ``what`` is requested, as the beginning of a sentence. ``limits``: the timeout as a
        multiple of ``limit_ms``, for calls that send several requests in sequence."""
        limit_s = self._limit_s * limits + _MARGIN_S
        try:
            async with asyncio.timeout(limit_s):
                return Known(await call)
        except TimeoutError as error:  # RequestTimeout is one
            why = str(error) if isinstance(error, RocketMQError) else f"no answer within {limit_s:g} s"
            return Known(missing=f"{what}: {why}")
        except RequestNotServed as error:
            return Known(missing=f"{what}: {error}")
        except RocketMQError as error:
            if isinstance(error, RemoteError) and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return Known(missing=f"{what}: {error.address} does not know this request, which came with RocketMQ 5")
            return Known(missing=f"{what}: {error}")

    async def ask_each(
        self, what: str, brokers: Iterable[str], call: Callable[[str], Awaitable[T]], *, limits: float = 1
    ) -> tuple[dict[str, T], list[str]]:
        """The results of these brokers, requested concurrently by ``call(name)``, and a sentence for each missing one."""
        names = list(brokers)
        answers = await asyncio.gather(
            *(self.ask(f"{what} at {_server(name)}", call(name), limits=limits) for name in names)
        )
        # None is a result, too: the broker has nothing.
        known = {name: cast("T", one.value) for name, one in zip(names, answers, strict=True) if one.is_known}
        return known, [why for one in answers for why in one.why]

    def dead_letters(self, group: str) -> AsyncDeadLetters:
        """The dead letters of a group; use with ``async with``. Raises ConfigurationError: the group's name is invalid."""
        return AsyncDeadLetters(group, **self._options)

    async def producer(self) -> AsyncProducer:
        async with self._starting:
            if self._producer is None:
                producer = AsyncProducer(_PRODUCER_GROUP, **self._options)
                await producer.start()
                self._producer = producer
            return self._producer

    async def shutdown(self) -> None:
        if self._producer is not None:
            await self._producer.shutdown()
        await self.admin.shutdown()


def _server(name: str) -> str:
    return f"proxy {name}" if ":" in name else f"broker {name}"

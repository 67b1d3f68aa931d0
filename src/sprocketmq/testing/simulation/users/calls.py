# SPDX-License-Identifier: Apache-2.0
"""Calls of clients, and how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sprocketmq as rmq

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.users.ledger import Ledger
    from sprocketmq.testing.simulation.world import Here

T = TypeVar("T")
_ANSWERED_MS: Final = 100  # what is done when the limit is over


async def ended_in(limit_ms: float, ledger: Ledger, here: Here, what: str, call: Awaitable[T]) -> T:
    """The result of ``call``, which ends within its limit and the time for which its process was frozen."""
    began_s = here.world.loop.time()
    try:
        return await call
    finally:
        took_ms = (here.world.loop.time() - began_s) * 1000
        if took_ms > limit_ms + _ANSWERED_MS + here.host.process.frozen_ms_since(began_s):
            ledger.breaks(f"{what} of {here.name} took {took_ms:.0f} ms, and {limit_ms:.0f} ms is its limit")


async def started(client: Any, here: Here, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Start a client, again and again while its servers are away. False: ``is_over()`` first."""
    while not is_over():
        try:
            await client.start()
        except (rmq.NetworkError, rmq.RemoteError, rmq.RequestTimeout) as error:
            here.world.note(f"{here.name} does not start: {type(error).__name__}")
            await asyncio.sleep(1)
        else:
            return True
    return False


async def forever() -> None:
    while True:  # noqa: ASYNC110 - with an Event nothing could wake the loop
        await asyncio.sleep(3_600)

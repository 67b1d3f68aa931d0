# SPDX-License-Identifier: Apache-2.0
"""Calls of clients, and how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sprocketmq as rmq

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.users.ledger import Ledger
    from sprocketmq.testing.simulation.world import Here

T = TypeVar("T")
_OF_THE_CLIENT: Final = ("ConnectionPool.", "Heartbeats.", "Routes.")  # coroutines for whoever asks next, too
_ANSWERED_MS: Final = 100  # what is done when the limit is over


async def ended_in(limit_ms: float, ledger: Ledger, here: Here, what: str, call: Awaitable[T]) -> T:
    """The result of ``call``, which ends within its limit and the time for which its process was frozen."""
    loop, process = here.world.loop, here.host.process
    began_s = loop.time()

    def check() -> float:
        """How long it may still take."""
        took_ms = (loop.time() - began_s) * 1000
        left_ms = limit_ms + _ANSWERED_MS + process.frozen_ms_since(began_s) - took_ms
        if left_ms < 0:
            ledger.breaks(f"{what} of {here.name} takes {took_ms:.0f} ms or more, and {limit_ms:.0f} ms is its limit")
        return left_ms

    async def watch() -> None:
        while (left_ms := check()) >= 0:  # noqa: ASYNC110 - until the call ends
            await asyncio.sleep(left_ms / 1000 + 0.001)

    watching = asyncio.ensure_future(watch())
    try:
        return await call
    finally:
        watching.cancel()
        check()


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


async def check_tasks(
    ledger: Ledger, here: Here, before: Collection[asyncio.Task[Any]], *, goes_on: bool = False
) -> None:
    """A call that has ended, or a client that has shut down, has left no task behind; there were others ``before`` it began.
    ``goes_on``: the client does, and may connect, send heartbeats and ask for routes."""
    await asyncio.sleep(0.001)  # what was cancelled ends
    left = [task for task in here.world.unfinished(here.host) if task not in before]
    names = {getattr(task.get_coro(), "__qualname__", "") for task in left}
    if goes_on:
        names = {name for name in names if not name.startswith(_OF_THE_CLIENT)}
    if names:
        ledger.breaks(f"{here.name} has ended its call, and {len(left)} of its tasks run: {', '.join(sorted(names))}")


async def forever() -> None:
    while True:  # noqa: ASYNC110 - with an Event nothing could wake the loop
        await asyncio.sleep(3_600)

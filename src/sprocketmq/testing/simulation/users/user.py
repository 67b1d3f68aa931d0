# SPDX-License-Identifier: Apache-2.0
"""What all programs of users have in common: calls of clients, and how long they may take."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sprocketmq as rmq

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.users.random_users import RandomUsers
    from sprocketmq.testing.simulation.world import Here

T = TypeVar("T")
_OF_THE_CLIENT: Final = ("ConnectionPool.", "Heartbeats.", "Routes.")  # coroutines for whoever asks next, too
_ANSWERED_MS: Final = 100  # what is done when the limit is over


class User:
    """One life of a user's program."""

    def __init__(self, users: RandomUsers, here: Here) -> None:
        self.users, self.ledger, self.here, self.rng = users, users.ledger, here, here.rng
        self.world, self.loop, self.process = here.world, here.world.loop, here.host.process
        self.has = users.features

    def note(self, what: str, error: Exception) -> None:
        self.world.note(f"{self.here.name}{what}: {type(error).__name__}")

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """A call that may fail."""
        try:
            yield
        except rmq.RocketMQError as error:
            self.note(f": {what}", error)

    async def ended_in(self, limit_ms: float, what: str, call: Awaitable[T]) -> T:
        """The result of ``call``, which ends within its limit and the time for which its process was frozen."""
        began_s = self.loop.time()

        def check() -> float:
            """How long it may still take."""
            took_ms = (self.loop.time() - began_s) * 1000
            left_ms = limit_ms + _ANSWERED_MS + self.process.frozen_ms_since(began_s) - took_ms
            if left_ms < 0:
                self.ledger.breaks(
                    f"{what} of {self.here.name} takes {took_ms:.0f} ms or more, and {limit_ms:.0f} ms is its limit"
                )
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

    async def started(self, client: Any, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Start a client, again and again while its servers are away. False: ``is_over()`` first."""
        while not is_over():
            try:
                await client.start()
            except (rmq.NetworkError, rmq.RemoteError, rmq.RequestTimeout) as error:
                self.note(" does not start", error)
                await asyncio.sleep(1)
            else:
                return True
        return False

    async def check_tasks(self, before: Collection[asyncio.Task[Any]], *, goes_on: bool = False) -> None:
        """A call that has ended, or a client that has shut down, has left no task behind; there were others ``before`` it began.
        ``goes_on``: the client does, and may connect, send heartbeats and ask for routes."""
        await asyncio.sleep(0.001)  # what was cancelled ends
        left = [task for task in self.world.unfinished(self.here.host) if task not in before]
        names = {getattr(task.get_coro(), "__qualname__", "") for task in left}
        if goes_on:
            names = {name for name in names if not name.startswith(_OF_THE_CLIENT)}
        if names:
            self.ledger.breaks(
                f"{self.here.name} has ended its call, and {len(left)} of its tasks run: {', '.join(sorted(names))}"
            )

    async def ends(self) -> None:
        """It has nothing more to do."""
        self.users.ended.add(self.here.name)
        while True:  # noqa: ASYNC110 - with an Event nothing could wake the loop
            await asyncio.sleep(3_600)

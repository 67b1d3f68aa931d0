# SPDX-License-Identifier: Apache-2.0
"""What blocking clients run on: the simulated loop, while a simulated thread waits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from sprocketmq.testing.simulation.loop import SimulationError

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.threads import Threads

T = TypeVar("T")


class SimulatedEngine:
    """Has the methods of ``net.process.engine.Engine``."""

    is_inherited = False

    def __init__(self, threads: Threads) -> None:
        self._threads, self.loop = threads, threads.loop

    @property
    def on_engine_thread(self) -> bool:
        return self._threads.current is None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(
        self,
        coroutine: Coroutine[Any, Any, T],
        timeout_s: float | None = None,
        unreceived: Callable[[T], object] | None = None,
    ) -> T:
        if self.on_engine_thread:
            coroutine.close()
            raise SimulationError(
                "a blocking client is used on the loop; call it in a thread: await asyncio.to_thread(...)"
            )
        try:
            return self.submit(coroutine).result(timeout_s)
        except OSError as error:
            if error.errno == errno.EIO:
                raise SystemExit("the process is dead") from None
            raise

    def call(self, callback: Callable[[], object]) -> None:
        self.loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        pass  # the loop has others, too

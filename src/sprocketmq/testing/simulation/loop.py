# SPDX-License-Identifier: Apache-2.0
"""An asyncio loop on virtual time, with many processes in it.

Time stands still while callbacks run, and goes to the next timer when nothing is left to do. A callback belongs to the process whose code
scheduled it: the process is a context variable, which tasks and callbacks inherit. So a process can be frozen (its callbacks wait) or dead
(they never run), at any await, and its code notices nothing.

Nothing outside can wake this loop: there are no sockets and no threads. If no timer is left and the program waits, it would wait for ever,
which is an error at once.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import contextlib
import contextvars
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.network import Network, Process
    from sprocketmq.testing.simulation.threads import Threads

T = TypeVar("T")

current_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("current_process", default=None)
# So many callbacks in one moment of virtual time are taken for code that never waits.
_MOST_CALLS_AT_ONCE: Final = 2_000_000


class SimulationError(AssertionError):
    """The simulated program cannot go on, or what should be true is not."""


class SimulatedLoop(asyncio.base_events.BaseEventLoop):
    """``steps``: callbacks that have run. ``uncaught``: what was given to
    ``call_exception_handler``."""

    network: Network
    threads: Threads
    # Of BaseEventLoop, which its types leave out.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._calls = 0  # in this moment
        self.steps = 0
        self.uncaught: list[dict[str, Any]] = []
        # Held, also those of dead processes: their ``finally`` blocks must not run as if an exception had come.
        self._tasks: dict[Process | None, list[asyncio.Task[Any]]] = {}

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        if not self._ready:
            self._go_to_next_timer()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                self._run(handle)

    def _go_to_next_timer(self) -> None:
        timers = self._scheduled
        while timers and timers[0].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise SimulationError(f"deadlock at {self._now_s:.3f} s: nothing can wake what waits")
        self._now_s, self._calls = max(self._now_s, timers[0].when()), 0
        while timers and timers[0].when() <= self._now_s:
            self._ready.append(heapq.heappop(timers))

    def _run(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(current_process)  # type: ignore[attr-defined]
        if process is not None and not process.is_running:
            process.postpone(handle)
            return
        self.steps += 1
        self._calls += 1
        if self._calls > _MOST_CALLS_AT_ONCE:
            raise SimulationError(f"at {self._now_s:.3f} s code runs again and again without waiting: {handle!r}")
        handle._run()

    def again(self, handle: asyncio.Handle) -> None:
        """Run a handle that its process had postponed."""
        self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # skipped when it is due

    def _write_to_self(self) -> None:
        pass  # there is no selector to wake

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        process = current_process.get() if context is None else context.get(current_process)
        tasks = self._tasks.setdefault(process, [])
        tasks.append(task)
        if len(tasks) % 256 == 0:
            tasks[:] = [task for task in tasks if not task.done()]
        return task

    def unfinished(self, process: Process) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks.get(process, ()) if not task.done()]

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        return asyncio.wrap_future(self.threads.executor_of(executor).submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        process = current_process.get()
        if process is None or not process.is_dead:
            self.uncaught.append(context)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return self.network.listen(protocol_factory, port or 0)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if options.get("ssl"):
            raise SimulationError("a simulated network has no TLS")
        return await self.network.connect(protocol_factory, host, port)

    def close(self) -> None:
        """What has not ended is thrown away, as at the end of a process; its ``finally`` blocks run here, where nothing answers."""
        self._ready.clear()
        self._scheduled.clear()
        logged = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        for task in itertools.chain.from_iterable(self._tasks.values()):
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        logging.disable(logged)
        self._tasks.clear()
        self._ready.clear()
        super().close()

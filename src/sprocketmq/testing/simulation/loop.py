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
import errno
import gc
import heapq
import itertools
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sprocketmq.testing.simulation.replacements import Replacements, silence

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.network import Network, Process
    from sprocketmq.testing.simulation.threads import Threads

T = TypeVar("T")

current_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("current_process", default=None)
# So many callbacks in one moment of virtual time are taken for code that never waits.
_MOST_CALLS_AT_ONCE: Final = 2_000_000
# Callbacks: clients that are collected may do something, in each process at the same moment.
_COLLECT_AFTER: Final = 100_000
_MOST_CALLS: Final = 8_000_000  # the longest runs take two million


class SimulationError(AssertionError):
    """The simulated program cannot go on, or what should be true is not."""


def process_is_dead() -> OSError:
    """What its calls raise on their way out."""
    return OSError(errno.EIO, "the process is dead")


class SimulatedTask(asyncio.Task[T]):
    """The order of a set of tasks is that of their making; by address it would be another one in each process."""

    _hash: int

    def __new__(cls, *arguments: object, loop: SimulatedLoop, **options: object) -> SimulatedTask[T]:
        self = super().__new__(cls)
        self._hash = loop.tasks_made = loop.tasks_made + 1
        return self

    def __hash__(self) -> int:
        return self._hash


class SimulatedLoop(asyncio.base_events.BaseEventLoop):
    """``steps``: callbacks that have run. ``uncaught``: what was given to ``call_exception_handler``."""

    network: Network
    threads: Threads
    # Of BaseEventLoop, which its types leave out.
    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, int, asyncio.TimerHandle]]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self.tasks_made = 0
        self._timers = 0  # so many were made: what is due at one time runs in the order of its making
        self.steps = self._collected = 0
        self.uncaught: list[dict[str, Any]] = []
        # Held, also those of dead processes: their ``finally`` blocks must not run as if an exception had come.
        self._tasks: dict[Process | None, list[asyncio.Task[Any]]] = {}

    def time(self) -> float:
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """Run until ``stop``: the loop that calls this has nothing else to do."""
        ready, process_of = self._ready, current_process
        while not self._stopping:
            calls = self.steps
            while ready and not self._stopping:
                for _ in range(len(ready)):
                    handle = ready.popleft()
                    if handle._cancelled:
                        continue
                    process = handle._context.get(process_of)  # type: ignore[attr-defined]
                    if process is not None and not process.is_running:
                        process.postpone(handle)
                        continue
                    self.steps += 1
                    handle._run()
                if self.steps - calls > _MOST_CALLS_AT_ONCE:
                    raise SimulationError(
                        f"at {self._now_s:.3f} s code runs again and again without waiting: {handle!r}"
                    )
            if self.steps > _MOST_CALLS:
                raise SimulationError(
                    f"the run does not end: {self.steps:,} steps, and {self._now_s:.0f} s have passed"
                )
            if self.steps > self._collected + _COLLECT_AFTER:
                self._collected = self.steps
                gc.collect()
            if not self._stopping:
                self._go_to_next_timer()

    def _go_to_next_timer(self) -> None:
        timers, ready = self._scheduled, self._ready
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise SimulationError(f"deadlock at {self._now_s:.3f} s: nothing can wake what waits")
        self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= self._now_s:
            ready.append(heapq.heappop(timers)[2])

    def again(self, handles: Iterable[asyncio.Handle]) -> None:
        """Run what a process had postponed."""
        self._ready.extend(handles)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # skipped when it is due

    def _write_to_self(self) -> None:
        pass  # there is no selector to wake

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        task: SimulatedTask[T] = SimulatedTask(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
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
        with silence():
            for task in itertools.chain.from_iterable(self._tasks.values()):
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with contextlib.suppress(BaseException):
                        task.get_coro().close()
        self._tasks.clear()
        self._ready.clear()
        super().close()


def replace_gather(replacements: Replacements, loop: SimulatedLoop) -> None:
    """Let ``asyncio.gather`` be that of Python 3.12 on 3.11, too, where it takes a turn of the loop to see what has ended already: in the
    meantime something else would run first."""
    if sys.version_info >= (3, 12):
        return
    gather = asyncio.gather

    def gather_at_once(*awaited: Any, **options: Any) -> Any:
        before = len(loop._ready)
        outer = gather(*awaited, **options)
        added = [loop._ready.pop() for _ in range(len(loop._ready) - before)][::-1]
        for handle in added:
            if getattr(handle._callback, "__qualname__", "") == "gather.<locals>._done_callback":  # type: ignore[attr-defined]
                handle._run()
            else:
                loop._ready.append(handle)
        return outer

    replacements.set(asyncio, "gather", gather_at_once)

# SPDX-License-Identifier: Apache-2.0
"""What the two pools of listeners have in common; one runs threads, the other tasks (Java: the consumeExecutor of the consume services).

The loop hands over a *chunk*, the batches of one pull, in one step. Workers take batches from it one by one, and report what they finish
in one step for many: the first of a burst wakes the loop. So a fast listener costs a few microseconds for each message, and a slow one
has all workers. All items of a chunk have one origin, their process queue, which ``run`` and ``on_done`` get as an argument.

Rules
1. Every submitted item is run at most once. After ``close`` began, no item starts.
2. What ``run`` returned is reported to ``on_done`` on the loop, once for each item that ran, in the order in which its worker ran them.
3. A stuck listener blocks its own worker only: with the next tick the rest of its chunk is offered to other workers, and finished items
   are reported. Ticks come after 5 ms, and farther apart, up to 0.2 s, as long as no chunk is submitted.
4. ``resize`` takes effect at once: waiting items get the new workers, and a worker that is too many ends after its current item. The rest
   of its chunk is offered to other workers first.
5. An item whose ``run`` raises is finished and reported, too.
6. A running item is listed in ``running`` with its start time until it is reported.
7. ``runs_caller`` is true for code that a listener runs: in its thread, in a thread or task that it started, or in a blocking call on the
   loop, as long as the listener call lasts. Such code must not wait for ``close``, because ``close`` waits for the listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sprocketmq.net.process.clock import Clock

T = TypeVar("T")

# The items that ran, their origin, and the seconds that they took together.
OnDone = Callable[[list[T], Any, float], object]


class Running(NamedTuple, Generic[T]):
    """A listener call that has not ended: ``started_ms`` is a time of the pool's clock."""

    item: T
    origin: Any
    started_ms: int


async def run_in_own_thread(call: Callable[[], object], name: str) -> None:
    """Run one call in a new daemon thread: if it hangs, it does not keep the process alive, as an executor's would."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        try:
            call()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
                loop.call_soon_threadsafe(lambda: None if over.done() else over.set_result(None))

    threading.Thread(target=run, name=name, daemon=True).start()
    await over


class Chunk(deque[T]):
    """Items that were submitted together, and to how many workers they were offered."""

    origin: Any = None
    invited = 0


class CallerMark(Protocol):
    """A listener call that code may belong to: ``item`` is None when the call is over."""

    @property
    def item(self) -> Any: ...


class ChunkRun(Generic[T]):
    """The work of one worker on one chunk. Written by the worker, read by the loop: ``item`` is set to None before its result is
    in ``finished``, so that nothing is both reported and listed as running (rule 6)."""

    __slots__ = ("ended", "finished", "item", "origin", "reported_s", "spent_s", "started_ms")

    def __init__(self, origin: Any) -> None:
        self.origin = origin
        self.item: T | None = None
        self.started_ms = 0
        self.finished: list[T] = []
        self.spent_s = self.reported_s = 0.0  # in listener calls; the part of it that was reported
        self.ended = False  # nothing more will be finished here

    def running(self) -> Running[T] | None:
        item, started_ms = self.item, self.started_ms
        # If the item changed meanwhile, the new one began just now; the next query finds it.
        return None if item is None or self.item is not item else Running(item, self.origin, started_ms)


_caller: contextvars.ContextVar[tuple[object, CallerMark] | None] = contextvars.ContextVar("caller", default=None)
"""The pool, and the work of the worker that runs this code or that started it (rule 7)."""


def mark_caller(pool: object, work: CallerMark) -> None:
    """From now on this thread or task is a worker of ``pool``; an iteration is one, as long as it works on ``work``."""
    _caller.set((pool, work))


@contextlib.contextmanager
def outside_listener_call() -> Iterator[None]:
    """What is started in this block does not count as part of a listener's call."""
    token = _caller.set(None)
    try:
        yield
    finally:
        _caller.reset(token)


class FinishedCalls(Generic[T]):
    """What all workers have finished and not reported yet. ``open`` may be called in any thread."""

    def __init__(self) -> None:
        self._runs: deque[ChunkRun[T]] = deque()

    def open(self, origin: Any) -> ChunkRun[T]:
        chunk_run: ChunkRun[T] = ChunkRun(origin)
        self._runs.append(chunk_run)
        return chunk_run

    def take(self) -> Iterator[tuple[list[T], Any, float]]:
        """Take what is finished, run by run; a run that has ended is forgotten."""
        runs = self._runs
        for _ in range(len(runs)):
            chunk_run = runs.popleft()
            if not chunk_run.ended:  # checked before ``finished`` is read: the last item may be added in between
                runs.append(chunk_run)
            finished = chunk_run.finished
            if count := len(finished):
                items, spent_s = finished[:count], chunk_run.spent_s
                del finished[:count]
                before_s, chunk_run.reported_s = chunk_run.reported_s, spent_s
                yield items, chunk_run.origin, spent_s - before_s


class ListenerPool(ABC, Generic[T]):
    """Runs listeners, ``workers`` calls at once. ``run``: called in a worker with an item and its origin; returns what
    ``on_done`` gets on the loop, mostly the item itself. It must not raise. ``name``: prefix of the names of threads or tasks.
    ``clock``: for the start times of calls. ``late``: what still ran at the end of ``close``."""

    connections = ()  # none of its own (``net.process.clock.Watched``)

    def __init__(self, run: Callable[[T, Any], Any], on_done: OnDone[T], workers: int, name: str, clock: Clock) -> None:
        self._run, self._on_done, self._workers, self._name = run, on_done, workers, name
        self._steady_ms = clock.steady_ms
        self._loop = asyncio.get_running_loop()
        self._finished_calls: FinishedCalls[T] = FinishedCalls()
        self._runs: dict[Any, ChunkRun[T]] = {}  # by worker
        self._woken = self._closing = False
        self.late: list[T] = []

    @property
    def running(self) -> list[Running[T]]:
        return [running for chunk_run in list(self._runs.values()) if (running := chunk_run.running()) is not None]

    @property
    def calls(self) -> frozenset[object]:
        return frozenset((id(one.item), one.started_ms) for one in self.running)

    @property
    def runs_caller(self) -> bool:
        """Whether a listener of this pool runs the code that asks (rule 7)."""
        caller = _caller.get()
        return caller is not None and caller[0] is self and caller[1].item is not None

    @property
    @abstractmethod
    def is_busy(self) -> bool: ...

    @abstractmethod
    def submit(self, items: Sequence[T], origin: Any = None) -> None: ...

    @abstractmethod
    def resize(self, workers: int) -> None: ...

    @abstractmethod
    def report(self) -> None:
        """Report what has finished so far, now."""

    @abstractmethod
    def stack_of(self, item: T) -> tuple[str, str]:
        """Worker and stack of the call that runs for ``item``; ``("", "")`` when it has ended."""

    @abstractmethod
    async def close(self, timeout_ms: float) -> bool:
        """Start nothing more and wait for what runs; False when something still ran after ``timeout_ms``."""

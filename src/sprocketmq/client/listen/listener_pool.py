"""Where listeners run: threads for blocking ones, tasks for ``async def`` ones (Java: the consumeExecutor of the consume services).

The loop hands over a *chunk* (the batches of one pull) in one hop; workers take batches from it one by one; what they finished returns to
the loop in one hop for many. So a trivial listener costs a few microseconds per message, and a slow one still has all workers.

    loop                          workers
    submit([b1..b32]) --queue-->  sit down at the chunk: pop b1, run, done;  pop b2, run, done; ...
       ^                             |   a worker that finds its chunk slow invites another worker to it
       +---- on_done([b1..b9]) <-----+   results gather at the worker's seat; the first of a burst wakes the loop

All items of a chunk have one origin (their process queue), which ``run`` and ``on_done`` are told; a seat is one worker at one chunk.

Laws
1. Every submitted item is run at most once; after ``close`` began no item starts.
2. What ``run`` returned is reported to ``on_done`` on the loop, once per item that ran, in the order in which its worker ran them.
3. A stuck listener holds its own worker only: within a tick (5 ms) its chunk-mates are offered to other workers and finished ones reported.
4. ``resize`` holds at once: what waits gets the new workers, and a worker that is too many leaves after the item in its hand; what it
   leaves behind is offered to the others first.
5. An item whose ``run`` raises is done, too, and reported itself: nothing that ran goes unreported.
6. An item that runs is found in ``running`` with the moment it began, and not any more once it is reported.
7. Whoever is called by a listener, in its thread, in a thread or task that it started, or by a blocking call on the loop, can be told from
   others as long as that worker's call lasts (``runs_caller``): it must not wait for ``close``, which waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from sprocketmq.client.group.stuck_listener import task_stack, thread_stack

__all__ = [
    "AsyncListenerPool",
    "ListenerPool",
    "Running",
    "ThreadListenerPool",
    "called_by_no_listener",
    "run_beside_the_loop",
]

log = logging.getLogger("sprocketmq.client")

T = TypeVar("T")

# Below this mean time per item one worker gets the whole chunk: waking more costs more than it wins.
_FAST_S: Final = 100e-6
_REPORT_S: Final = 1e-3
_TICK_S: Final = 5e-3
_MAX_TICK_S: Final = 0.2
# After so many listeners that never waited the loop gets its turn.
_IN_A_ROW: Final = 32

# The items that ran, their origin, seconds that they took together.
OnDone = Callable[[list[T], Any, float], object]


class Running(NamedTuple, Generic[T]):
    """A listener call under way: ``started_ms`` by the pool's clock."""

    item: T
    origin: Any
    started_ms: int


class ListenerPool(Protocol[T]):
    """What a consume service needs of its workers."""

    def submit(self, items: Sequence[T], origin: Any = None) -> None: ...

    def resize(self, workers: int) -> None: ...

    def report(self) -> None:
        """Report what has finished so far, now."""
        ...

    @property
    def running(self) -> list[Running[T]]:
        """The calls that run at this moment."""
        ...

    def stack_of(self, item: T) -> tuple[str, str]:
        """Worker and stack of the call that runs for ``item``; ``("", "")`` when it has ended."""
        ...

    @property
    def runs_caller(self) -> bool:
        """Law 7."""
        ...

    async def close(self, timeout_ms: float) -> bool:
        """Start nothing more, wait for what runs; False when something still ran after ``timeout_ms``."""
        ...


async def run_beside_the_loop(call: Callable[[], object], name: str) -> None:
    """Run one call in a thread of its own and wait for it; one that hangs does not keep the process, as an executor's would."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        try:
            call()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if over.done() else over.set_result(None))

    threading.Thread(target=run, name=name, daemon=True).start()
    await over


class _Chunk(deque[T]):
    """Items handed over together, and how many workers were invited to it."""

    origin: Any = None
    invited = 0


class _Seat(Generic[T]):
    """One worker at one chunk: what runs there, since when, what is done. Written by the worker, read by the loop.

    ``item`` is unset before its result stands in ``finished``, so that nothing that was reported is found running (law 6).
    """

    __slots__ = ("finished", "item", "left", "origin", "spent_s", "started_ms", "told_s")

    def __init__(self, origin: Any) -> None:
        self.origin = origin
        self.item: T | None = None
        self.started_ms = 0
        self.finished: list[T] = []
        self.spent_s = self.told_s = 0.0  # since the worker sat down; of these reported
        self.left = False  # nothing more will be finished here

    def runs(self) -> Running[T] | None:
        item, started_ms = self.item, self.started_ms
        # Another item now: it began a moment ago, and the next look is early enough for it.
        return None if item is None or self.item is not item else Running(item, self.origin, started_ms)


_seat: contextvars.ContextVar[tuple[object, _Seat[Any]] | None] = contextvars.ContextVar("seat", default=None)
"""Law 7: the pool and the seat of the worker that runs this, or that began what runs this."""


def _is_at(pool: object) -> bool:
    here = _seat.get()
    return here is not None and here[0] is pool and here[1].item is not None


@contextlib.contextmanager
def called_by_no_listener() -> Iterator[None]:
    """What is started in this block is no part of a listener's call."""
    token = _seat.set(None)
    try:
        yield
    finally:
        _seat.reset(token)


class _Reports(Generic[T]):
    """What was finished at all seats and not reported yet. ``open`` may be called in any thread."""

    def __init__(self) -> None:
        self._seats: deque[_Seat[T]] = deque()

    def open(self, origin: Any) -> _Seat[T]:
        seat: _Seat[T] = _Seat(origin)
        self._seats.append(seat)
        return seat

    def take(self) -> Iterator[tuple[list[T], Any, float]]:
        """What is there, seat by seat; a seat that was left is forgotten then."""
        seats = self._seats
        for _ in range(len(seats)):
            seat = seats.popleft()
            if not seat.left:  # before looking at what is finished: the last one may come in between
                seats.append(seat)
            finished = seat.finished
            if count := len(finished):
                items, spent_s = finished[:count], seat.spent_s
                del finished[:count]
                before_s, seat.told_s = seat.told_s, spent_s
                yield items, seat.origin, spent_s - before_s


class ThreadListenerPool(Generic[T]):
    """Blocking listeners: up to ``workers`` daemon threads, started as they are needed.

    Args:
        run: called in a worker thread with an item and its origin; gives what is to be reported, mostly the item itself. It must not
            raise (a consume service turns a listener's exception into a status).
        on_done: called on the loop with what finished.
        workers: consume_thread_count.
        name: prefix of the thread names.
        now_ms: the clock by which a call begins.
    """

    def __init__(
        self, run: Callable[[T, Any], T], on_done: OnDone[T], workers: int, name: str, now_ms: Callable[[], int]
    ) -> None:
        self._run, self._on_done, self._name, self._now_ms = run, on_done, name, now_ms
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._offers: queue.SimpleQueue[_Chunk[T] | None] = queue.SimpleQueue()
        self._reports: _Reports[T] = _Reports()
        self._threads: dict[int, threading.Thread] = {}
        self._to_leave: deque[None] = deque()  # one mark per worker that is too many; who takes it leaves
        self._left: set[int] = set()  # took a mark; ``_gone`` has not been told yet
        self._seats: dict[
            int, _Seat[T]
        ] = {}  # keys come and go on the loop only; a worker replaces the value of its own
        self._serial = 0
        self._outstanding = 0
        self._open_chunks: list[_Chunk[T]] = []
        self._woken = False
        self._closing = False
        self._mean_s = 1.0
        self._tick: asyncio.TimerHandle | None = None
        self._tick_s = _TICK_S
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def running(self) -> list[Running[T]]:
        return [running for seat in self._seats.values() if (running := seat.runs()) is not None]

    @property
    def runs_caller(self) -> bool:
        return _is_at(self)

    def stack_of(self, item: T) -> tuple[str, str]:
        for number, seat in self._seats.items():
            if seat.item is item and (thread := self._threads.get(number)) is not None:
                stack = thread_stack(thread)
                if seat.item is item:  # else the worker went on meanwhile, and this is another call's stack
                    return thread.name, stack
        return "", ""

    def resize(self, workers: int) -> None:
        self._workers = workers
        self._to_leave.clear()
        for _ in range(len(self._threads) - len(self._left) - workers):
            self._to_leave.append(None)
            self._offers.put(_Chunk())  # wakes one that is idle; the others look after each item
        if self._open_chunks and not self._closing:
            self._on_tick()

    def submit(self, items: Sequence[T], origin: Any = None) -> None:
        if self._closing or not items:
            return
        chunk = _Chunk(items)
        chunk.origin = origin
        self._outstanding += len(chunk)
        self._open_chunks.append(chunk)
        self._invite(chunk, 1 if self._mean_s < _FAST_S else len(chunk))
        self._tick_s = _TICK_S
        self._start_tick()

    def _start_tick(self) -> None:
        if self._tick is None:
            self._tick = self._loop.call_later(self._tick_s, self._on_tick)

    async def close(self, timeout_ms: float) -> bool:
        self._closing = True
        if self._tick is not None:
            self._tick.cancel()
        for chunk in self._open_chunks:
            chunk.clear()
        if self._threads:
            self._all_gone = self._loop.create_future()
            for _ in self._threads:
                self._offers.put(None)
            await asyncio.wait([self._all_gone], timeout=timeout_ms / 1000)
        self.report()
        return not self._threads

    def _invite(self, chunk: _Chunk[T], count: int) -> None:
        count = min(count, self._workers, len(chunk)) - chunk.invited
        for _ in range(count):
            chunk.invited += 1
            self._offers.put(chunk)
        working = len(self._threads) - len(self._left)
        if working < self._workers and (not working or not self._offers.empty()):
            for _ in range(min(self._workers - working, max(1, self._offers.qsize()))):
                self._serial += 1
                thread = threading.Thread(
                    target=self._work, args=(self._serial,), name=f"{self._name}-{self._serial}", daemon=True
                )
                self._threads[self._serial], self._seats[self._serial] = thread, _Seat(None)
                thread.start()

    def _work(self, me: int) -> None:
        try:
            while (chunk := self._offers.get()) is not None and not self._work_chunk(me, chunk):
                pass
        finally:
            try:
                self._loop.call_soon_threadsafe(self._gone, me)
            except RuntimeError:  # the loop is closed already: nobody is left to be told
                log.debug("worker %d ended after its loop", me)

    def _work_chunk(self, me: int, chunk: _Chunk[T]) -> bool:
        """Run items of a chunk until it is empty, or (True) until this worker is one too many."""
        run, origin, now_ms, clock = self._run, chunk.origin, self._now_ms, time.perf_counter
        seat = self._seats[me] = self._reports.open(origin)
        _seat.set((self, seat))
        reported_s, reported = clock(), 0.0
        count = 0
        try:
            while True:
                if self._to_leave and self._leaves(me):
                    if chunk:
                        self._offers.put(chunk)  # law 4
                    return True
                try:
                    item = chunk.popleft()
                except IndexError:
                    return False
                seat.started_ms = now_ms()
                seat.item = item
                started_s = clock()
                try:
                    result = run(item, origin)
                except BaseException:  # law 5
                    log.exception("a listener's worker failed")
                    result = item
                now_s = clock()
                seat.item = None
                seat.spent_s += now_s - started_s
                seat.finished.append(result)
                count += 1
                if not chunk or now_s - reported_s > _REPORT_S:
                    mean_s = (seat.spent_s - reported) / count
                    self._mean_s += min(1.0, 0.1 * count) * (mean_s - self._mean_s)
                    reported_s, reported, count = now_s, seat.spent_s, 0
                    self._wake()
        finally:
            seat.left = True

    def _leaves(self, me: int) -> bool:
        try:
            self._to_leave.pop()
        except IndexError:  # another took the last mark
            return False
        self._left.add(me)
        self._wake()
        return True

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self.report)
            except RuntimeError:
                log.debug("a listener ended after its loop")

    def report(self) -> None:
        self._woken = False  # before taking: what is appended from here on wakes the loop again
        for items, origin, spent_s in self._reports.take():
            self._outstanding -= len(items)
            self._on_done(items, origin, spent_s)

    def _on_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        self._open_chunks = [chunk for chunk in self._open_chunks if chunk]
        for chunk in self._open_chunks:
            self._invite(chunk, chunk.invited + max(1, chunk.invited))
        self.report()
        if self._outstanding and not self._closing:
            self._tick = self._loop.call_later(self._tick_s, self._on_tick)
            self._tick_s = min(self._tick_s * 2, _MAX_TICK_S)

    def _gone(self, me: int) -> None:
        thread = self._threads.pop(me)
        del self._seats[me]
        self._left.discard(me)
        thread.join(1)
        if not self._threads and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)


class AsyncListenerPool(Generic[T]):
    """``async def`` listeners: up to ``workers`` tasks on the loop itself; a task lives while there is something to take.

    The first task runs what comes; the others are started once it waits for something with items left, which a listener that never
    waits does not let happen. Args as of ThreadListenerPool.
    """

    def __init__(
        self,
        run: Callable[[T, Any], Awaitable[T]],
        on_done: OnDone[T],
        workers: int,
        name: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._run, self._on_done, self._name, self._now_ms = run, on_done, name, now_ms
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._pending: deque[_Chunk[T]] = deque()
        self._reports: _Reports[T] = _Reports()
        self._woken = False
        self._looking = False
        self._resting = 0  # tasks that let the loop have its turn
        self._tasks: set[asyncio.Task[None]] = set()
        # Tasks that take items; one that decided to end counts no more, although it is in _tasks a moment longer.
        self._working = 0
        self._seats: dict[asyncio.Task[None] | None, _Seat[T]] = {}
        self._closing = False

    @property
    def running(self) -> list[Running[T]]:
        return [running for seat in self._seats.values() if (running := seat.runs()) is not None]

    @property
    def runs_caller(self) -> bool:
        return _is_at(self)

    def stack_of(self, item: T) -> tuple[str, str]:
        for task, seat in self._seats.items():
            if seat.item is item and task is not None:
                return task.get_name(), task_stack(task)
        return "", ""

    def resize(self, workers: int) -> None:
        self._workers = workers
        self._start_tasks(workers)

    def submit(self, items: Sequence[T], origin: Any = None) -> None:
        if self._closing or not items:
            return
        chunk = _Chunk(items)
        chunk.origin = origin
        self._pending.append(chunk)
        if not self._looking:
            self._start_tasks(1)
            self._look_soon()

    def _look_soon(self) -> None:
        self._looking = True
        self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Comes behind the first step of what ``submit`` started."""
        self._looking = False
        if self._resting and self._pending:
            self._look_soon()
        else:
            self._start_tasks(self._workers)

    def _start_tasks(self, most: int) -> None:
        for _ in range(min(most, self._workers - self._working, sum(map(len, self._pending)))):
            self._working += 1
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self, timeout_ms: float) -> bool:
        self._closing = True
        for chunk in self._pending:
            chunk.clear()
        self._pending.clear()
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_ms / 1000)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            self.report()
            return not late
        self.report()
        return True

    def report(self) -> None:
        self._woken = False
        for items, origin, spent_s in self._reports.take():
            self._on_done(items, origin, spent_s)

    async def _work(self) -> None:
        me = asyncio.current_task()
        pending, in_a_row = self._pending, _IN_A_ROW
        try:
            while pending and self._working <= self._workers:
                if not pending[0]:
                    pending.popleft()
                    continue
                in_a_row = await self._work_chunk(me, pending[0], in_a_row)
        finally:
            self._working -= 1
            self._seats.pop(me, None)

    async def _work_chunk(self, me: asyncio.Task[None] | None, chunk: _Chunk[T], in_a_row: int) -> int:
        """Run items of a chunk until it is empty, or this task is one too many; gives how many more until the loop has its turn."""
        run, origin, now_ms, clock = self._run, chunk.origin, self._now_ms, time.perf_counter
        seat = self._seats[me] = self._reports.open(origin)
        _seat.set((self, seat))
        finished = seat.finished
        try:
            while chunk and self._working <= self._workers:
                item = chunk.popleft()
                seat.started_ms = now_ms()
                seat.item = item
                started_s = clock()
                try:
                    result = await run(item, origin)
                except asyncio.CancelledError:
                    raise  # by close: it did not end
                except BaseException:  # law 5
                    log.exception("a listener's worker failed")
                    result = item
                seat.item = None
                seat.spent_s += clock() - started_s
                finished.append(result)
                if not self._woken:  # the first of a burst; the others of this round of the loop join it
                    self._woken = True
                    self._loop.call_soon(self.report)
                in_a_row -= 1
                if not in_a_row:  # a listener that never waits must not keep the loop from its sockets
                    in_a_row = _IN_A_ROW
                    self._resting += 1
                    try:
                        await asyncio.sleep(0)
                    finally:
                        self._resting -= 1
        finally:
            seat.item = None
            seat.left = True
        return in_a_row

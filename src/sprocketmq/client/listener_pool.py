"""Where listeners run: threads for blocking ones, tasks for ``async def`` ones (Java: the consumeExecutor of the consume services).

The loop hands over a *chunk* (the batches of one pull) in one hop; workers take batches from it one by one; what they finished returns to
the loop in one hop for many. So a trivial listener costs a few microseconds per message, and a slow one still has all workers.

    loop                          workers
    submit([b1..b32]) --queue-->  pop b1, run, done;  pop b2, run, done; ...
       ^                             |   a worker that finds its chunk slow invites another worker to it
       +---- on_done([b1..b9]) <-----+   results gather in a deque; the first of a burst wakes the loop

Laws
1. Every submitted item is run at most once; after ``close`` began no item starts.
2. ``on_done`` is called on the loop, once per item that ran, in order of completion.
3. A stuck listener holds its own worker only: within a tick (5 ms) its chunk-mates are offered to other workers and finished ones reported.
4. ``resize`` holds at once: what waits gets the new workers, and a worker that is too many leaves after the item in its hand; what it
   leaves behind is offered to the others first.
5. An item whose ``run`` raises is done, too: nothing that ran goes unreported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from sprocketmq.client.stuck_listener import task_stack, thread_stack

__all__ = ["AsyncListenerPool", "ListenerPool", "ThreadListenerPool", "run_beside_the_loop"]

log = logging.getLogger("sprocketmq.client")

T = TypeVar("T")

# Below this mean time per item one worker gets the whole chunk: waking more costs more than it wins.
_FAST_S: Final = 100e-6
_REPORT_S: Final = 1e-3
_TICK_S: Final = 5e-3
_MAX_TICK_S: Final = 0.2


class ListenerPool(Protocol[T]):
    """What a consume service needs of its workers."""

    def submit(self, items: Sequence[T]) -> None: ...

    def resize(self, workers: int) -> None: ...

    @property
    def running(self) -> Sequence[T]:
        """Items whose listener runs at this moment."""
        ...

    def stack_of(self, item: T) -> tuple[str, str]:
        """Worker and stack of the call that runs for ``item``; ``("", "")`` when it has ended."""
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
    """Batches handed over together, and how many workers were invited to it."""

    invited = 0


class ThreadListenerPool(Generic[T]):
    """Blocking listeners: up to ``workers`` daemon threads, started as they are needed.

    Args:
        run: called in a worker thread; it must not raise (a consume service turns a listener's exception into a status).
        on_done: called on the loop with the items that finished.
        workers: consume_thread_count.
        name: prefix of the thread names.
    """

    def __init__(self, run: Callable[[T], None], on_done: Callable[[list[T]], None], workers: int, name: str) -> None:
        self._run, self._on_done, self._name = run, on_done, name
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._offers: queue.SimpleQueue[_Chunk[T] | None] = queue.SimpleQueue()
        self._done: deque[T] = deque()
        self._threads: dict[int, threading.Thread] = {}
        self._to_leave: deque[None] = deque()  # one mark per worker that is too many; who takes it leaves
        self._left: set[int] = set()  # took a mark; ``_gone`` has not been told yet
        self._current: dict[int, T] = {}
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
    def running(self) -> Sequence[T]:
        return list(self._current.values())

    def stack_of(self, item: T) -> tuple[str, str]:
        for number, current in list(self._current.items()):
            if current is item and (thread := self._threads.get(number)) is not None:
                stack = thread_stack(thread)
                if (
                    self._current.get(number) is item
                ):  # else the worker went on meanwhile, and this is another call's stack
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

    def submit(self, items: Sequence[T]) -> None:
        if self._closing or not items:
            return
        chunk = _Chunk(items)
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
        self._drain()
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
                self._threads[self._serial] = thread
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
        reported_s = time.perf_counter()
        while True:
            if self._to_leave and self._leaves(me):
                if chunk:
                    self._offers.put(chunk)  # law 4
                return True
            try:
                item = chunk.popleft()
            except IndexError:
                return False
            self._current[me] = item
            started_s = time.perf_counter()
            try:
                self._run(item)
            except BaseException:  # law 5
                log.exception("a listener's worker failed")
            now_s = time.perf_counter()
            del self._current[me]
            self._done.append(item)
            self._mean_s += 0.1 * (now_s - started_s - self._mean_s)
            if not chunk or now_s - reported_s > _REPORT_S:
                reported_s = now_s
                self._wake()

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
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                log.debug("a listener ended after its loop")

    def _drain(self) -> None:
        self._woken = False  # before taking: what is appended from here on wakes the loop again
        items: list[T] = []
        while self._done:
            items.append(self._done.popleft())
        if items:
            self._outstanding -= len(items)
            self._on_done(items)

    def _on_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        self._open_chunks = [chunk for chunk in self._open_chunks if chunk]
        for chunk in self._open_chunks:
            self._invite(chunk, chunk.invited + max(1, chunk.invited))
        self._drain()
        if self._outstanding and not self._closing:
            self._tick = self._loop.call_later(self._tick_s, self._on_tick)
            self._tick_s = min(self._tick_s * 2, _MAX_TICK_S)

    def _gone(self, me: int) -> None:
        thread = self._threads.pop(me)
        self._left.discard(me)
        thread.join(1)
        if not self._threads and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)


class AsyncListenerPool(Generic[T]):
    """``async def`` listeners: up to ``workers`` tasks on the loop itself; a task lives while there is something to take."""

    def __init__(
        self, run: Callable[[T], Awaitable[None]], on_done: Callable[[list[T]], None], workers: int, name: str
    ) -> None:
        self._run, self._on_done, self._name = run, on_done, name
        self._workers = workers
        self._pending: deque[T] = deque()
        self._done: list[T] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = (
            0  # tasks that take items; one that decided to end counts no more, although it is in _tasks a moment longer
        )
        self._current: dict[asyncio.Task[None] | None, T] = {}
        self._closing = False

    @property
    def running(self) -> Sequence[T]:
        return list(self._current.values())

    def stack_of(self, item: T) -> tuple[str, str]:
        for task, current in self._current.items():
            if current is item and task is not None:
                return task.get_name(), task_stack(task)
        return "", ""

    def resize(self, workers: int) -> None:
        self._workers = workers
        self._start_tasks()

    def submit(self, items: Sequence[T]) -> None:
        if self._closing:
            return
        self._pending.extend(items)
        self._start_tasks()

    def _start_tasks(self) -> None:
        for _ in range(min(len(self._pending), self._workers - self._working)):
            self._working += 1
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self, timeout_ms: float) -> bool:
        self._closing = True
        self._pending.clear()
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_ms / 1000)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            self._drain()
            return not late
        self._drain()
        return True

    def _drain(self) -> None:
        items, self._done = self._done, []
        if items:
            self._on_done(items)

    async def _work(self) -> None:
        me = asyncio.current_task()
        taken = 0
        try:
            while self._pending and self._working <= self._workers:
                item = self._pending.popleft()
                self._current[me] = item
                try:
                    await self._run(item)
                except asyncio.CancelledError:
                    raise  # by close: it did not end
                except BaseException:  # law 5
                    log.exception("a listener's worker failed")
                self._current.pop(me, None)
                if not self._done:  # the first of a burst; the others of this round of the loop join it
                    asyncio.get_running_loop().call_soon(self._drain)
                self._done.append(item)
                taken += 1
                if taken % 32 == 0:
                    await asyncio.sleep(0)  # a listener that never waits must not keep the loop from its sockets
        finally:
            self._working -= 1
            self._current.pop(me, None)

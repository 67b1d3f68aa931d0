# SPDX-License-Identifier: Apache-2.0
"""Threads of simulated processes: each is one of the system's, and only one of all has the turn at any moment.

A thread gives the turn back where it would wait: for a lock, a condition, a future, another thread, the disk. Until the loop gives it the
turn again, time passes and others run, so it can be frozen or dead in the middle of its work. The loop's own thread cannot stop in the
middle of a callback: what it waits for is done at once, by the threads of its process.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sprocketmq.net.process.engine import Engine
from sprocketmq.testing.simulation.engine import SimulatedEngine
from sprocketmq.testing.simulation.loop import SimulatedLoop, SimulationError, current_process, process_is_dead
from sprocketmq.testing.simulation.replacements import Replacements, attributes_of, copied, silence
from sprocketmq.threads import ClaimedWork

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.network import Process

T = TypeVar("T")

_WAKE_MS: Final = (0.01, 0.5)
_NOTICED_MS: Final = 5.0  # the loop's thread is in the disk so often that less does not count
_MOST_TURNS: Final = 100_000  # while the loop's thread waits
_LOCK: Final = type(threading.Lock())


class SimulatedThread:
    """``can_go_on``: it waits for nothing but time. ``drop``: called instead of ``work`` if its process dies first."""

    def __init__(self, threads: Threads, work: Callable[[], object], drop: Callable[[], object]) -> None:
        self._threads, self._work, self._drop = threads, work, drop
        self._context = contextvars.copy_context()
        self.process = current_process.get()
        self._turn = threading.Lock()  # held while it is another's turn
        self._turn.acquire()
        self._number = 0  # of its turns: a timer for an earlier one does nothing
        self.can_go_on = True
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._context.run, args=(self._main,), daemon=True)
        self._thread.start()

    def _main(self) -> None:
        self._turn.acquire()
        try:
            (self._drop if self.is_dead else self._work)()
        except BaseException:
            if not self.is_dead:  # else it is how its end was brought about
                raise
        finally:
            self._threads.alive.remove(self)
            self.ended.set_result(None)
            self._threads.back.release()

    def wake(self, delay_ms: float | None = None) -> None:
        """Let it go on after a while."""
        delay_ms = self._threads.rng.uniform(*_WAKE_MS) if delay_ms is None else delay_ms
        self.can_go_on = True
        self._context.copy().run(self._threads.loop.call_later, delay_ms / 1000, self._go, self._number)

    def _go(self, number: int) -> None:
        if number == self._number and not self.ended.done():
            self.take_turn()

    def take_turn(self) -> None:
        """On the loop's thread: run it until it waits."""
        self._number += 1
        self._threads.turn_of = self
        self._turn.release()
        self._threads.back.acquire()
        self._threads.turn_of = None
        if self.ended.done():
            self._thread.join()

    def give_turn(self, *, can_go_on: bool) -> None:
        """On this thread: wait. Raises OSError: the process has died meanwhile."""
        self.can_go_on = can_go_on
        self._threads.back.release()
        self._turn.acquire()
        if self.is_dead:
            raise process_is_dead()

    @property
    def is_this_one(self) -> bool:
        return threading.get_ident() == self._thread.ident

    @property
    def is_dead(self) -> bool:
        return self._threads.is_closed or (self.process is not None and self.process.is_dead)


class Threads:
    def __init__(self, loop: SimulatedLoop, rng: random.Random) -> None:
        self.loop, self.rng = loop, rng
        loop.threads = self
        self.is_closed = False
        self.turn_of: SimulatedThread | None = None
        self.back = threading.Lock()  # held while a thread has the turn
        self.back.acquire()
        self.alive: list[SimulatedThread] = []

    @property
    def current(self) -> SimulatedThread | None:
        """The thread that asks; None on the loop's own, and on threads of others that call the same modules (servers of other tests)."""
        thread = self.turn_of
        return thread if thread is not None and thread.is_this_one else None

    def start(
        self,
        work: Callable[[], object],
        delay_ms: float | None = None,
        *,
        drop: Callable[[], object] = lambda: None,
    ) -> SimulatedThread:
        thread = SimulatedThread(self, work, drop)
        self.alive.append(thread)
        thread.wake(delay_ms)
        return thread

    def executor_of(self, executor: object) -> SimulatedExecutor:
        """``executor`` itself, or one for work of the loop's default executor, which has a thread for each."""
        return executor if isinstance(executor, SimulatedExecutor) else SimulatedExecutor(self, 1)

    def pause(self, ms: float) -> None:
        """Let time pass on the thread that has the turn; on the loop's own the process stands still after its callback."""
        if self.current is not None:
            thread = self.current
            # The number counts the turn that this one ends.
            thread.wake(ms)
            thread.give_turn(can_go_on=True)
        elif (process := current_process.get()) is not None and ms >= _NOTICED_MS:
            process.stall(ms)

    def wait(
        self, is_over: Callable[[], bool], begin: Callable[[SimulatedThread], object], limit_s: float | None = None
    ) -> None:
        """Wait until somebody wakes the thread, which ``begin(thread)`` sees to, or for ``limit_s``; the loop's own until ``is_over()``."""
        thread = self.current
        if thread is None:
            self.finish(is_over)
            return
        begin(thread)
        if limit_s is not None:
            thread.wake(limit_s * 1000)
        thread.give_turn(can_go_on=limit_s is not None)

    def finish(self, is_over: Callable[[], bool]) -> None:
        process = current_process.get()
        for _ in range(_MOST_TURNS):
            if is_over():
                return
            ready = [thread for thread in self.alive if thread.process is process and thread.can_go_on]
            if not ready:
                raise SimulationError("the loop's thread waits for what no thread can do")
            self.rng.choice(ready).take_turn()
        raise SimulationError("the loop's thread waits, and the threads that could help do not end")

    def kill(self, process: Process) -> None:
        """End the threads of a dead process: whatever they wait for raises."""
        self._end(lambda thread: thread.process is process)

    def close(self) -> None:
        """End all."""
        self.is_closed = True
        self._end(lambda thread: True)

    def _end(self, ends: Callable[[SimulatedThread], bool]) -> None:
        with silence():
            for _ in range(_MOST_TURNS):
                dead = [thread for thread in self.alive if ends(thread)]
                if not dead:
                    return
                dead[0].take_turn()
        raise SimulationError("a thread of a dead process does not end")


class SimulatedLock:
    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._is_held = False
        self._waiting: deque[SimulatedThread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        while self._is_held:
            if not blocking:
                return False
            self._threads.wait(lambda: not self._is_held, self._waiting.append)
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False
        for thread in self._waiting:
            thread.wake()
        self._waiting.clear()

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedCondition:
    def __init__(self, threads: Threads) -> None:
        self._threads, self._lock = threads, SimulatedLock(threads)
        self._waiting: deque[tuple[SimulatedThread, list[bool]]] = deque()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        told: list[bool] = []

        def begin(thread: SimulatedThread) -> None:
            self._waiting.append((thread, told))

        self._lock.release()
        try:
            self._threads.wait(lambda: bool(told), begin, timeout)
            return bool(told)
        finally:
            self._waiting = deque(each for each in self._waiting if each[1] is not told)
            self._lock.acquire()

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiting))):
            thread, told = self._waiting.popleft()
            told.append(True)
            thread.wake()

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class SimulatedQueue:
    """As ``queue.SimpleQueue``."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._items: deque[Any] = deque()
        self._waiting: deque[SimulatedThread] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiting:
            self._waiting.popleft().wake()

    def get(self) -> Any:
        while not self._items:
            self._threads.wait(lambda: bool(self._items), self._waiting.append)
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class SimulatedExecutor(concurrent.futures.Executor):
    """As a ThreadPoolExecutor: work begins in its order, at most ``max_workers`` at a time."""

    def __init__(self, threads: Threads, max_workers: int = 32, thread_name_prefix: str = "") -> None:
        self._threads, self._workers = threads, max_workers
        self._queue: deque[ClaimedWork[Any]] = deque()
        self._running = 0

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        work = ClaimedWork(partial(fn, *args, **kwargs))
        self._queue.append(work)
        if self._running < self._workers:
            self._running += 1
            self._threads.start(self._work, drop=self._drop)
        return work.outcome

    def _work(self) -> None:
        thread = self._threads.current
        while self._queue and not (thread is not None and thread.is_dead):
            self._queue.popleft()()
        self._drop()

    def _drop(self) -> None:
        """A thread ends. Work is left only if its process is dead: nobody does it, and who waits for it is told."""
        self._running -= 1
        while self._queue:
            call: Any = (work := self._queue.popleft()).claim()
            for told in (work.outcome, call.func.outcome) if isinstance(call.func, ClaimedWork) else (work.outcome,):
                if told.set_running_or_notify_cancel():
                    told.set_exception(process_is_dead())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._queue.clear()
        if wait and self._threads.current is None:
            self._threads.finish(lambda: not self._running)


class _Thread:
    ident = 0  # ``sys._current_frames`` has no stack for it

    def __init__(
        self,
        threads: Threads,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool | None = None,
    ) -> None:
        self._threads, self._target, self.name = threads, partial(target, *args), name
        self._thread: SimulatedThread | None = None

    def start(self) -> None:
        self._thread = self._threads.start(self._target)

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.ended.result()


def replace_threads(replacements: Replacements, threads: Threads) -> None:
    """Let the modules of stores, brokers and clients have their threads, locks, queues and executors of ``threads``, and let
    ``Future.result`` and ``time.sleep`` wait as they do."""
    rooms = ("sprocketmq.store.", "sprocketmq.broker.", "sprocketmq.client.")
    replacements.in_modules(
        rooms,
        (
            threading,
            copied(
                threading,
                Lock=partial(SimulatedLock, threads),
                Condition=partial(SimulatedCondition, threads),
                Thread=partial(_Thread, threads),
            ),
        ),
        (queue, SimpleNamespace(SimpleQueue=partial(SimulatedQueue, threads))),
        (concurrent.futures.ThreadPoolExecutor, partial(SimulatedExecutor, threads)),
    )
    for module, name, value in attributes_of(rooms):
        if isinstance(value, _LOCK):
            replacements.set(module, name, SimulatedLock(threads))
    ours = threading.get_ident()
    future_class = concurrent.futures.Future
    for name in ("result", "exception"):
        original = getattr(future_class, name)

        def waits(self: concurrent.futures.Future[Any], timeout: float | None = None, original: Any = original) -> Any:
            if not self.done() and (threads.current is not None or threading.get_ident() == ours):
                threads.wait(self.done, lambda thread: self.add_done_callback(lambda _: thread.wake()), timeout)
                return original(self, None if self.done() else 0)
            return original(self, timeout)

        replacements.set(future_class, name, waits)
    sleep = time.sleep

    def sleeps(seconds: float) -> None:
        if threads.current is None and threading.get_ident() != ours:
            sleep(seconds)
            return
        try:
            threads.pause(seconds * 1000)
        except OSError:
            raise SystemExit("the process is dead") from None

    engine = SimulatedEngine(threads)
    replacements.set(time, "sleep", sleeps)
    replacements.set(Engine, "shared", lambda: engine)

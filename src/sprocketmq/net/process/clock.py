# SPDX-License-Identifier: Apache-2.0
"""Replaceable time: SystemClock for production, and ManualClock, with which a 10 s retry takes no real time in a test.

Code in ``core`` never reads the time; drivers pass ``clock.now_ms()``. Drivers schedule only with ``call_later`` and ``sleep``.
Network timeouts guard a socket and always use the event loop's own time.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock", "Timer"]


_STEADY_ZERO_NS = time.time_ns() - time.monotonic_ns()
_TURN_S = 0.1  # how long the manual clock waits for a loop that something blocks


class Timer(Protocol):
    """A scheduled call; a second ``cancel`` does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The interface of clocks. ``call_later`` and ``sleep`` belong to the running event loop."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 (Java's System.currentTimeMillis)."""
        ...

    def steady_ms(self) -> int:
        """Milliseconds of a clock that cannot be set, to measure how long a peer is silent. At the process's start it is :meth:`now_ms`."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer: ...

    async def sleep(self, delay_ms: float) -> None: ...


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return (_STEADY_ZERO_NS + time.monotonic_ns()) // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)


class _ManualTimer:
    __slots__ = ("callback", "cancelled", "due_ms", "loop", "number")

    def __init__(
        self, due_ms: float, number: int, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]
    ) -> None:
        self.due_ms, self.number, self.loop, self.callback, self.cancelled = due_ms, number, loop, callback, False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: _ManualTimer) -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)


class ManualClock:
    """A clock that moves only when the test advances it.

    ``advance(ms)`` is called from a thread that runs no event loop of the test's subjects (the test's own thread): it steps from timer to
    timer in due order, runs each on the loop that owns it, waits until it ran, and lets each loop settle before the next, so a chain of
    timers (a delay level that re-schedules itself each 100 ms) plays out exactly as it would in real time.

    Args:
        start_ms: milliseconds since 1970; default the real time, so that a peer with a system clock does not see the year 1970.
    """

    def __init__(self, start_ms: int | None = None) -> None:
        self._now_ms: float = float(time.time_ns() // 1_000_000 if start_ms is None else start_ms)
        self._jumped_ms = 0.0
        self._timers: list[_ManualTimer] = []
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()  # those that have used this clock
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Milliseconds since 1970 (Java's System.currentTimeMillis).

        Returns:
            The time.
        """
        return int(self._now_ms)

    def steady_ms(self) -> int:
        """Milliseconds of a clock that cannot be set, to measure how long a peer is silent.

        Returns:
            The time.
        """
        return int(self._now_ms - self._jumped_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call a function later, on the running event loop.

        Args:
            delay_ms: milliseconds of this clock.
            callback: a function without arguments.

        Returns:
            The timer; ``cancel`` twice is harmless.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            timer = _ManualTimer(self._now_ms + max(0.0, delay_ms), next(self._numbers), loop, callback)
            heapq.heappush(self._timers, timer)
            self._loops.add(loop)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        """Wait on the running event loop.

        Args:
            delay_ms: milliseconds of this clock.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            timer.cancel()

    def advance(self, delay_ms: float) -> None:
        """Move time forward by ``delay_ms``, running everything that falls due on the way. Blocks until it ran.

        Args:
            delay_ms: milliseconds.
        """
        self.turn_loops()  # a callback that runs may be about to set a timer, and its test has seen it begin
        target_ms = self._now_ms + delay_ms
        while (timer := self._pop_due(target_ms)) is not None:
            self._now_ms = max(self._now_ms, timer.due_ms)
            self._run(timer)
        self._now_ms = target_ms

    def turn_loops(self, limit_s: float = _TURN_S) -> None:
        """Wait until each running event loop that uses this clock has done what it can do now; not for that of the calling thread.

        Args:
            limit_s: seconds of real time, for a loop that something blocks.
        """
        with self._lock:
            loops = [loop for loop in self._loops if loop is not asyncio._get_running_loop()]
        end_s = time.monotonic() + limit_s
        for loop in loops:
            done = threading.Event()
            with contextlib.suppress(RuntimeError):  # it closed
                if loop.is_running():
                    loop.call_soon_threadsafe(done.set)
                    done.wait(max(0.0, end_s - time.monotonic()))

    def jump(self, delta_ms: float) -> None:
        """Set the clock forward or back as an administrator does.

        Nothing runs, and what was scheduled is due as long from now as before.

        Args:
            delta_ms: milliseconds; negative is back.
        """
        with self._lock:
            self._now_ms += delta_ms
            self._jumped_ms += delta_ms
            for timer in self._timers:
                timer.due_ms += delta_ms

    def _pop_due(self, target_ms: float) -> _ManualTimer | None:
        with self._lock:
            while self._timers and self._timers[0].due_ms <= target_ms:
                timer = heapq.heappop(self._timers)
                if not timer.cancelled and not timer.loop.is_closed():
                    return timer
            return None

    @staticmethod
    def _run(timer: _ManualTimer) -> None:
        done = threading.Event()

        def settle(rounds: int) -> None:
            # Callbacks scheduled by the callback (task steps) run in the loop's next rounds; three cover await chains of a tick.
            if rounds:
                timer.loop.call_soon(settle, rounds - 1)
            else:
                done.set()

        def run() -> None:
            try:
                if not timer.cancelled:
                    timer.callback()
            finally:
                settle(3)

        try:
            timer.loop.call_soon_threadsafe(run)
        except RuntimeError:  # the loop closed between the check and the call: its timers died with it
            return
        while not done.wait(0.5):
            if timer.loop.is_closed() or not timer.loop.is_running():
                return

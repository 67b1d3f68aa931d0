# SPDX-License-Identifier: Apache-2.0
"""Replaceable time: SystemClock for production, and ManualClock, with which a 10 s retry takes no real time in a test. Code in ``core``
never reads the time; drivers pass ``clock.now_ms()``, and schedule only with ``call_later`` and ``sleep``. Network timeouts always use
the event loop's own time. A manual clock is at rest when nothing is left to do before one of its timers is due: then it can go to the
next one at once. What it has to know of for that is made known by :func:`watch`."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Set
from typing import Final, Protocol

_STEADY_ZERO_NS = time.time_ns() - time.monotonic_ns()
_TURN_S = 0.1  # how long the manual clock waits for a loop that something blocks
# What follows on what, callbacks and steps of tasks, before a loop writes, asks or waits: rounds of it, each the work of the one before.
_ROUNDS: Final = 8


class Timer(Protocol):
    """A scheduled call; a second ``cancel`` does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The interface of clocks. ``call_later`` and ``sleep`` belong to the running event loop."""

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int:
        """Milliseconds of a clock that cannot be set, to measure how long a peer is silent. At the process's start it is :meth:`now_ms`."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer: ...

    async def sleep(self, delay_ms: float) -> None: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return (_STEADY_ZERO_NS + time.monotonic_ns()) // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)


class End(Protocol):
    """One end of a connection. Its peer may have the other one in this process."""

    @property
    def local_address(self) -> str: ...

    @property
    def remote_address(self) -> str: ...

    @property
    def read_bytes(self) -> int: ...

    @property
    def written_bytes(self) -> int: ...


class Watched(Protocol):
    """What does work that no timer of a clock begins. Asked on any thread."""

    @property
    def is_busy(self) -> bool:
        """Whether it waits for what will come without the clock: an answer, the end of a listener's call."""
        ...

    @property
    def calls(self) -> Set[object]:
        """The calls of a user's function that run."""
        ...

    @property
    def connections(self) -> Iterable[End]: ...


def watch(clock: Clock, part: Watched) -> None:
    """Let a manual clock know of ``part``, for as long as it exists. Called by who made it, not in ``__init__``: another thread may ask a
    part at once, so all of it has to be there."""
    if isinstance(clock, ManualClock):
        clock._watch(part)


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
    """A clock that moves only when the test advances it. ``advance(ms)`` is called from the test's own thread: it steps from timer to
    timer in due order, runs each on the loop that owns it, and lets each loop settle before the next, so a chain of timers plays out as
    in real time.

    Args:
        start_ms: milliseconds since 1970; default the real time, so that a peer with a system clock does not see the year 1970.
    """

    def __init__(self, start_ms: int | None = None) -> None:
        self._now_ms: float = float(time.time_ns() // 1_000_000 if start_ms is None else start_ms)
        self._jumped_ms = 0.0
        self._timers: list[_ManualTimer] = []
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()  # those that have used this clock
        self._watched: weakref.WeakSet[Watched] = weakref.WeakSet()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Milliseconds since 1970 (Java: System.currentTimeMillis)."""
        return int(self._now_ms)

    def steady_ms(self) -> int:
        """Milliseconds of a clock that cannot be set, to measure how long a peer is silent. Returns the time."""
        return int(self._now_ms - self._jumped_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call a function later, on the running event loop. ``delay_ms``: milliseconds of this clock. ``callback``: a function
        without arguments. Returns the timer; ``cancel`` twice is harmless."""
        loop = asyncio.get_running_loop()
        with self._lock:
            timer = _ManualTimer(self._now_ms + max(0.0, delay_ms), next(self._numbers), loop, callback)
            heapq.heappush(self._timers, timer)
            self._loops.add(loop)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        """Wait on the running event loop. ``delay_ms``: milliseconds of this clock."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            timer.cancel()

    def advance(self, delay_ms: float) -> None:
        """Move time forward by ``delay_ms``, running everything that falls due on the way. Blocks until it ran. ``delay_ms``:
        milliseconds."""
        self.turn_loops()  # a callback that runs may be about to set a timer, and its test has seen it begin
        target_ms = self._now_ms + delay_ms
        while (timer := self._pop_due(target_ms)) is not None:
            self._now_ms = max(self._now_ms, timer.due_ms)
            self._run(timer)
        self._now_ms = target_ms

    def turn_loops(self) -> None:
        """Wait until each running event loop that uses this clock has done what it can do now; not for that of the calling thread."""
        self._turn_loops(0, _TURN_S)

    def is_at_rest(self, hanging: Set[object] = frozenset()) -> bool:
        """Whether nothing more happens before a timer of this clock is due, as far as the clock can know. Takes a moment of real
        time.

        At rest is: each event loop that uses this clock has done what it can do, no listener runs, no request waits for its answer
        (but for a pull, which waits at the broker for messages), and what one end of a connection has written the other one has
        read. It never is while a client or server is connected that does not use this clock, such as one of another process.

        ``hanging``: the calls of listeners (:meth:`running_calls`) that are not waited for.
        """
        counts = self._counts(hanging)
        # Counted twice, because not all ends are counted at the same moment: what one end writes after it was counted, the other may have
        # read before it is counted. If both counts are equal, nothing was under way.
        return (
            counts is not None
            and all(
                counts.get((remote, local)) == (read, written) for (local, remote), (written, read) in counts.items()
            )
            and self._counts(hanging) == counts
        )

    def running_calls(self) -> Set[object]:
        """The calls of listeners, and of other functions of the user, that run. Returns a value for each call."""
        with self._lock:
            parts = list(self._watched)
        return frozenset().union(*(part.calls for part in parts))

    def next_timer_ms(self) -> float | None:
        """Milliseconds until the next timer is due, at least 0; None: there is none."""
        with self._lock:
            self._drop_dead_timers()
            return max(0.0, self._timers[0].due_ms - self._now_ms) if self._timers else None

    def _watch(self, part: Watched) -> None:
        with self._lock:
            self._watched.add(part)

    def _counts(self, hanging: Set[object]) -> dict[tuple[str, str], tuple[int, int]] | None:
        """What each end has written and read, by its addresses; None: something is busy."""
        if not self._turn_loops(_ROUNDS, _TURN_S):
            return None
        with self._lock:
            parts = list(self._watched)
        if any(part.is_busy and not (part.calls and part.calls <= hanging) for part in parts):
            return None
        ends = (end for part in parts for end in part.connections)
        return {(end.local_address, end.remote_address): (end.written_bytes, end.read_bytes) for end in ends}

    def _turn_loops(self, rounds: int, limit_s: float) -> bool:
        """Let each loop do so many rounds of work; False: one has not within the limit."""
        with self._lock:
            loops = [loop for loop in self._loops if loop is not asyncio._get_running_loop()]

        def turn(loop: asyncio.AbstractEventLoop, done: threading.Event, rounds: int) -> None:
            if rounds:
                loop.call_soon(turn, loop, done, rounds - 1)
            else:
                done.set()

        turning = []
        for loop in loops:
            if loop.is_running():
                done = threading.Event()
                with contextlib.suppress(RuntimeError):  # it closed
                    loop.call_soon_threadsafe(turn, loop, done, rounds)
                    turning.append(done)
        end_s = time.monotonic() + limit_s
        return all(done.wait(max(0.0, end_s - time.monotonic())) for done in turning)

    def jump(self, delta_ms: float) -> None:
        """Set the clock forward or back as an administrator does. Nothing runs, and what was scheduled is due as long from now as
        before. ``delta_ms``: milliseconds; negative is back."""
        with self._lock:
            self._now_ms += delta_ms
            self._jumped_ms += delta_ms
            for timer in self._timers:
                timer.due_ms += delta_ms

    def _pop_due(self, target_ms: float) -> _ManualTimer | None:
        with self._lock:
            self._drop_dead_timers()
            return heapq.heappop(self._timers) if self._timers and self._timers[0].due_ms <= target_ms else None

    def _drop_dead_timers(self) -> None:
        while self._timers and (self._timers[0].cancelled or self._timers[0].loop.is_closed()):
            heapq.heappop(self._timers)

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

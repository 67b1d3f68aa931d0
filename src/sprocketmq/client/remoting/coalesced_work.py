# SPDX-License-Identifier: Apache-2.0
"""Work that is requested often and run rarely: ``core.coalesced_runs`` decides when, this file waits and runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sprocketmq.core.coalesced_runs import CoalescedRuns
from sprocketmq.net.process.clock import Clock, Timer
from sprocketmq.net.process.tasks import RESTART_MS


class CoalescedWork:
    """One kind of work of one owner. Belongs to its loop. ``work``: one run; ``spawn`` logs what it raises."""

    def __init__(
        self,
        clock: Clock,
        min_interval_ms: float,
        work: Callable[[], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:
        self._clock, self._work, self._spawn = clock, work, spawn
        self._pace = CoalescedRuns(min_interval_ms)
        self._timer: Timer | None = None
        self._timer_ms = 0.0
        self._closed = False

    def soon(self, delay_ms: float = 0) -> None:
        """Request a run within ``delay_ms``. Requests before the run share it."""
        self._pace.ask(self._clock.steady_ms(), delay_ms)
        self._go()

    def close(self) -> None:
        self._closed = True
        self._disarm()

    def _go(self) -> None:
        due_ms = None if self._closed else self._pace.due_ms
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        self._disarm()
        now_ms = self._clock.steady_ms()
        if due_ms <= now_ms:
            self._pace.begin()
            self._spawn(self._work()).add_done_callback(self._ended)
        else:
            self._timer, self._timer_ms = self._clock.call_later(due_ms - now_ms, self._on_time), due_ms

    def _on_time(self) -> None:
        self._timer = None
        self._go()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        # Not at the end of the work: a task that is cancelled before its first step runs nothing.
        now_ms = self._clock.steady_ms()
        self._pace.end(now_ms)
        if task.cancelled():  # by other code, or by an owner that closes it
            self._pace.ask(now_ms, RESTART_MS)
        self._go()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

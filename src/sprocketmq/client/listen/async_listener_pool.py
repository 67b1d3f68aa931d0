# SPDX-License-Identifier: Apache-2.0
"""``async def`` listeners run as tasks on the loop. ``listener_pool`` has the rules."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from sprocketmq.client.listen.listener_pool import (
    Chunk,
    ListenerPool,
    OnDone,
    T,
    mark_caller,
)
from sprocketmq.client.listen.stuck_listener import task_stack
from sprocketmq.net.process.clock import Clock
from sprocketmq.net.process.tasks import RESTART_MS
from sprocketmq.troubles import Troubles

log = logging.getLogger("sprocketmq.client")

# Calls of a listener that never awaits, before the loop may run other work.
_CALLS_PER_TURN: Final = 32


class AsyncListenerPool(ListenerPool[T]):
    """Up to ``workers`` tasks on the loop itself; a task lives while there is something to take. Others are started when the
    first one awaits something while items are left, so a listener that never awaits needs one task."""

    def __init__(
        self, run: Callable[[T, Any], Awaitable[T]], on_done: OnDone[T], workers: int, name: str, clock: Clock
    ) -> None:
        super().__init__(run, on_done, workers, name, clock)
        self._pending: deque[Chunk[T]] = deque()
        self._troubles = Troubles(log)
        self._start_is_due = False
        self._yielding = 0  # tasks that let the loop run other work
        self._tasks: set[asyncio.Task[None]] = set()
        self._serial = 0
        # Tasks that take items. One that decided to end is not counted, although it is in _tasks a moment longer.
        self._working = 0
        self._begun: set[asyncio.Task[None] | None] = set()  # tasks that have run their first step

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def stack_of(self, item: T) -> tuple[str, str]:
        for task, chunk_run in self._runs.items():
            if chunk_run.item is item and task is not None:
                return task.get_name(), task_stack(task)
        return "", ""

    def resize(self, workers: int) -> None:
        self._workers = workers
        self._start_tasks(workers)

    def submit(self, items: Sequence[T], origin: Any = None) -> None:
        if self._closing or not items:
            return
        chunk = Chunk(items)
        chunk.origin = origin
        self._pending.append(chunk)
        if not self._start_is_due:
            self._start_tasks(1)
            self._start_more_soon()

    def _start_more_soon(self) -> None:
        self._start_is_due = True
        self._loop.call_soon(self._start_more)

    def _start_more(self) -> None:
        """Runs after the first step of the task that ``submit`` started."""
        self._start_is_due = False
        if self._yielding and self._pending:
            self._start_more_soon()
        else:
            self._start_tasks(self._workers)

    def _start_tasks(self, most: int) -> None:
        room, waiting = min(most, self._workers - self._working), 0
        for chunk in self._pending:
            if waiting >= room:
                break
            waiting += len(chunk)
        for _ in range(min(room, waiting)):
            self._working += 1
            self._serial += 1
            task = self._loop.create_task(self._work(), name=f"{self._name}-{self._serial}")
            self._tasks.add(task)
            task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task not in self._begun:  # cancelled before its first step
            self._working -= 1
        self._begun.discard(task)
        if task.cancelled() and not self._closing:
            self._loop.call_later(RESTART_MS / 1000, self._start_more)

    async def close(self, timeout_ms: float) -> bool:
        self._closing = True
        for chunk in self._pending:
            chunk.clear()
        self._pending.clear()
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_ms / 1000)
            self.late = [running.item for running in self.running] if late else []
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            self.report()
            return not late
        self.report()
        return True

    def report(self) -> None:
        self._woken = False
        for items, origin, spent_s in self._finished_calls.take():
            self._on_done(items, origin, spent_s)

    async def _work(self) -> None:
        me = asyncio.current_task()
        self._begun.add(me)
        pending, calls_left = self._pending, _CALLS_PER_TURN
        try:
            while pending and self._working <= self._workers:
                if not pending[0]:
                    pending.popleft()
                    continue
                calls_left = await self._work_chunk(me, pending[0], calls_left)
        finally:
            self._working -= 1
            self._runs.pop(me, None)

    async def _work_chunk(self, me: asyncio.Task[None] | None, chunk: Chunk[T], calls_left: int) -> int:
        """Run items of a chunk until it is empty or this task is one too many; returns how many calls are left in the loop's turn."""
        run, origin, steady_ms, clock = self._run, chunk.origin, self._steady_ms, time.perf_counter
        chunk_run = self._runs[me] = self._finished_calls.open(origin)
        mark_caller(self, chunk_run)
        finished = chunk_run.finished
        try:
            while chunk and self._working <= self._workers:
                item = chunk.popleft()
                chunk_run.started_ms = steady_ms()
                chunk_run.item = item
                started_s = clock()
                try:
                    result = await run(item, origin)
                except asyncio.CancelledError:
                    if self._closing:
                        raise  # the call did not end
                    sentence = "a listener call was cancelled by other code, its messages are delivered again"
                    self._troubles.failed("cancelled", sentence)
                    result = item
                except BaseException as error:  # noqa: BLE001 - rule 5 of listener_pool
                    sentence = "a listener's worker failed: %s"
                    self._troubles.failed(type(error).__name__, sentence, error, level=logging.ERROR, error=error)
                    result = item
                chunk_run.item = None
                chunk_run.spent_s += clock() - started_s
                finished.append(result)
                if not self._woken:  # once in a turn of the loop
                    self._woken = True
                    self._loop.call_soon(self.report)
                calls_left -= 1
                if not calls_left:  # a listener that never awaits must not block the loop
                    calls_left = _CALLS_PER_TURN
                    self._yielding += 1
                    try:
                        await asyncio.sleep(0)
                    finally:
                        self._yielding -= 1
        finally:
            chunk_run.item = None
            chunk_run.ended = True
        return calls_left

# SPDX-License-Identifier: Apache-2.0
"""Blocking listeners run in threads (Java: the consumeExecutor of the consume services). ``listener_pool`` has the rules."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from sprocketmq.client.listen.listener_pool import (
    Chunk,
    ChunkRun,
    ListenerPool,
    OnDone,
    T,
    mark_caller,
)
from sprocketmq.client.listen.stuck_listener import thread_stack
from sprocketmq.net.process.clock import Clock
from sprocketmq.troubles import Troubles

log = logging.getLogger("sprocketmq.client")

# Below this mean time per item one worker gets the whole chunk: waking a second one would cost more than it saves.
_FAST_S: Final = 100e-6
_REPORT_S: Final = 1e-3
_TICK_S: Final = 5e-3
_MAX_TICK_S: Final = 0.2


class ThreadListenerPool(ListenerPool[T]):
    """Up to ``workers`` daemon threads, started as they are needed."""

    def __init__(self, run: Callable[[T, Any], T], on_done: OnDone[T], workers: int, name: str, clock: Clock) -> None:
        super().__init__(run, on_done, workers, name, clock)
        self._troubles = Troubles(log)
        self._offers: queue.SimpleQueue[Chunk[T] | None] = queue.SimpleQueue()
        self._threads: dict[int, threading.Thread] = {}
        self._to_leave: deque[None] = deque()  # one mark for each worker too many; a worker that takes one ends
        self._leaving: set[int] = set()  # took a mark and have not ended yet
        # Keys of ``_runs`` are added and removed on the loop only; each worker replaces its own value.
        self._serial = 0
        self._outstanding = 0
        self._open_chunks: list[Chunk[T]] = []
        self._waits_for_thread = False
        self._mean_s = 1.0
        self._tick: asyncio.TimerHandle | None = None
        self._tick_s = _TICK_S
        self._all_ended: asyncio.Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        return bool(self._outstanding) and not self._closing

    def stack_of(self, item: T) -> tuple[str, str]:
        for number, chunk_run in self._runs.items():
            if chunk_run.item is item and (thread := self._threads.get(number)) is not None:
                stack = thread_stack(thread)
                if chunk_run.item is item:  # else the worker has moved on, and this is the stack of another call
                    return thread.name, stack
        return "", ""

    def resize(self, workers: int) -> None:
        self._workers = workers
        self._to_leave.clear()
        for _ in range(len(self._threads) - len(self._leaving) - workers):
            self._to_leave.append(None)
            self._offers.put(Chunk())  # wakes an idle worker; the others check after each item
        if self._open_chunks and not self._closing:
            self._on_tick()

    def submit(self, items: Sequence[T], origin: Any = None) -> None:
        if self._closing or not items:
            return
        chunk = Chunk(items)
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
            self._all_ended = self._loop.create_future()
            for _ in self._threads:
                self._offers.put(None)
            await asyncio.wait([self._all_ended], timeout=timeout_ms / 1000)
        self.report()
        self.late = [running.item for running in self.running]
        return not self._threads

    def _invite(self, chunk: Chunk[T], count: int) -> None:
        count = min(count, self._workers, len(chunk)) - chunk.invited
        for _ in range(count):
            chunk.invited += 1
            self._offers.put(chunk)
        working = len(self._threads) - len(self._leaving)
        if working < self._workers and (not working or not self._offers.empty()):
            for _ in range(min(self._workers - working, max(1, self._offers.qsize()))):
                self._serial += 1
                thread = threading.Thread(
                    target=self._work, args=(self._serial,), name=f"{self._name}-{self._serial}", daemon=True
                )
                self._threads[self._serial], self._runs[self._serial] = thread, ChunkRun(None)
                try:
                    thread.start()
                except RuntimeError as error:  # memory or a limit of threads is used up: the next tick tries again
                    del self._threads[self._serial], self._runs[self._serial]
                    if not self._threads and not self._waits_for_thread:
                        self._waits_for_thread = True
                        log.error("listeners wait, because no thread can be started: %s", error)
                    return
                self._waits_for_thread = False

    def _work(self, me: int) -> None:
        try:
            while (chunk := self._offers.get()) is not None and not self._work_chunk(me, chunk):
                pass
        finally:
            try:
                self._loop.call_soon_threadsafe(self._thread_ended, me)
            except RuntimeError:  # the loop is closed already
                log.debug("worker %d ended after its loop", me)

    def _work_chunk(self, me: int, chunk: Chunk[T]) -> bool:
        """Run items of a chunk until it is empty. True: this worker is one too many and has to end."""
        run, origin, steady_ms, clock = self._run, chunk.origin, self._steady_ms, time.perf_counter
        chunk_run = self._runs[me] = self._finished_calls.open(origin)
        mark_caller(self, chunk_run)
        reported_s, reported = clock(), 0.0
        count = 0
        try:
            while True:
                if self._to_leave and self._is_surplus(me):
                    if chunk:
                        self._offers.put(chunk)  # rule 4 of listener_pool
                    return True
                try:
                    item = chunk.popleft()
                except IndexError:
                    return False
                chunk_run.started_ms = steady_ms()
                chunk_run.item = item
                started_s = clock()
                try:
                    result = run(item, origin)
                except BaseException as error:  # noqa: BLE001 - rule 5 of listener_pool
                    sentence = "a listener's worker failed: %s"
                    self._troubles.failed(type(error).__name__, sentence, error, level=logging.ERROR, error=error)
                    result = item
                now_s = clock()
                chunk_run.item = None
                chunk_run.spent_s += now_s - started_s
                chunk_run.finished.append(result)
                count += 1
                if not chunk or now_s - reported_s > _REPORT_S:
                    mean_s = (chunk_run.spent_s - reported) / count
                    self._mean_s += min(1.0, 0.1 * count) * (mean_s - self._mean_s)
                    reported_s, reported, count = now_s, chunk_run.spent_s, 0
                    self._wake()
        finally:
            chunk_run.ended = True

    def _is_surplus(self, me: int) -> bool:
        try:
            self._to_leave.pop()
        except IndexError:  # another took the last mark
            return False
        self._leaving.add(me)
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
        for items, origin, spent_s in self._finished_calls.take():
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

    def _thread_ended(self, me: int) -> None:
        thread = self._threads.pop(me)
        del self._runs[me]
        self._leaving.discard(me)
        thread.join(1)
        if not self._threads and self._all_ended is not None and not self._all_ended.done():
            self._all_ended.set_result(None)

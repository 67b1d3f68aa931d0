# SPDX-License-Identifier: Apache-2.0
"""Tasks that run beside their owner: asyncio itself keeps no reference to a task, and tells of its failure late or never."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from sprocketmq.net.process.clock import Clock

RESTART_MS: Final = 1_000
"""After so long background work that other code cancelled begins again, as by ``for task in asyncio.all_tasks(): task.cancel()``. Not at
once: ``asyncio.run`` cancels all tasks before it closes its loop, and a task that begins then would be destroyed."""


class Tasks:
    """The tasks of one owner, each until it has ended. A failure is logged as one of ``what``."""

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log, self._what = log, what
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(self._tasks.copy())

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, Any]], clock: Clock, what: str = "") -> asyncio.Task[Any]:
        """Run ``work()``, and run it again if other code cancels it. ``what``: its name in the log, default that of all."""

        def again() -> None:
            if not self._closed:
                self.keep(work, clock, what)

        def ended(task: asyncio.Task[Any]) -> None:
            if task.cancelled() and not self._closed:
                self._log.warning(
                    "%s was cancelled by other code, it begins again in %d ms", what or self._what, RESTART_MS
                )
                clock.call_later(RESTART_MS, again)

        task = self.start(work())
        task.add_done_callback(ended)
        return task

    def cancel(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def close(self, wait_ms: float = 0) -> None:
        """Give all of them but the caller ``wait_ms``, then cancel those that still run, and wait until they have ended."""
        self._closed = True
        tasks = self._tasks - {asyncio.current_task()}
        if tasks and wait_ms:
            await asyncio.wait(tasks, timeout=wait_ms / 1000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("%s failed", self._what, exc_info=error)

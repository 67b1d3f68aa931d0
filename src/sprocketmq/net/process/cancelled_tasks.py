# SPDX-License-Identifier: Apache-2.0
"""Background work that other code cancels, as by ``for task in asyncio.all_tasks(): task.cancel()``, begins again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from sprocketmq.net.process.clock import Clock

log = logging.getLogger("sprocketmq.client")

RESTART_MS: Final = 1_000


def restart_if_cancelled(
    task: asyncio.Task[Any], clock: Clock, is_over: Callable[[], bool], again: Callable[[], object], what: str
) -> None:
    """Call ``again`` a second after ``task`` was cancelled, unless ``is_over()``, because then its owner did it. Not at once:
    ``asyncio.run`` cancels all tasks before it closes its loop, and a task that begins then would be destroyed."""

    def go_on() -> None:
        if not is_over():
            again()

    def ended(task: asyncio.Task[Any]) -> None:
        if task.cancelled() and not is_over():
            log.warning("%s was cancelled by other code, it begins again in %d ms", what, RESTART_MS)
            clock.call_later(RESTART_MS, go_on)

    task.add_done_callback(ended)

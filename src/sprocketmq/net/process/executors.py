# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from sprocketmq.threads import ClaimedWork

T = TypeVar("T")


def submit_from_loop(executor: Executor, work: Callable[[], T]) -> ClaimedWork[T]:
    """Like ``sprocketmq.threads.submit``, by way of the running loop, which may have no threads (``testing.simulation``)."""
    return ClaimedWork(work).begin(partial(asyncio.get_running_loop().run_in_executor, executor))

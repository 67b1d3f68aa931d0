# SPDX-License-Identifier: Apache-2.0
"""Repeating a request whose failure may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sprocketmq.core.backoff import Backoff
from sprocketmq.errors import NetworkError, RequestTimeout, RocketMQError, SignatureRefused, SystemBusy

T = TypeVar("T")


def is_transient(error: RocketMQError) -> bool:
    return isinstance(error, NetworkError | RequestTimeout | SystemBusy | SignatureRefused)


async def retrying(
    ask: Callable[[], Awaitable[T]],
    within_ms: int,
    may_pass: Callable[[RocketMQError], bool] = is_transient,
    *,
    failed: Callable[[RocketMQError, float], None] = lambda error, left_s: None,
    backoff: Backoff | None = None,
) -> T:
    """Call ``ask`` until it succeeds, or fails with an error that ``may_pass`` does not accept, or the time is over, and return its result.
    ``failed``: called before each further try, with the error and the time that is left."""
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + within_ms / 1000
    backoff = backoff or Backoff()
    while True:
        try:
            return await ask()
        except RocketMQError as error:
            pause_s, left_s = backoff.next_s(), deadline_s - now_s()
            if not may_pass(error) or pause_s > left_s:
                raise
            failed(error, left_s)
        await asyncio.sleep(pause_s)

# SPDX-License-Identifier: Apache-2.0
"""Decoding the bodies of answers without holding the loop, which is often the user's own: a long one on a thread, one at a time in
a process, in pieces (``wire.text.fastjson``), so that the loop has the GIL in between. How long an answer may be is limited by the
largest frame, and by the number of values in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from sprocketmq.net.process.executors import submit_from_loop
from sprocketmq.wire.frames.command import Buffer, Command
from sprocketmq.wire.requests.declaration import B, Request

T = TypeVar("T")

_SHORT_BYTES: Final = 16 * 1024  # half a millisecond at most
_executors: Final[dict[int, Executor]] = {}  # by process: a forked child does not have its parent's thread


async def answer_body(asked: Request[Any, Any, B], answer: Command) -> B:
    """The body of a successful answer. Raises ProtocolError."""
    return await decoded(answer.body, lambda _: asked.answer_body_in(answer))


async def decoded(body: Buffer, decode: Callable[[Buffer], T]) -> T:
    return decode(body) if len(body) <= _SHORT_BYTES else await off_loop(lambda: decode(body))


async def off_loop(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises on the thread. It continues if the caller no longer waits."""
    executor = _executors.get(os.getpid())
    if executor is None:
        try:
            from concurrent.futures import ThreadPoolExecutor
        except RuntimeError:  # the main thread has ended, and others go on
            return work()
        executor = _executors.setdefault(os.getpid(), ThreadPoolExecutor(1, "sprocketmq-decoder"))
    return await asyncio.wrap_future(submit_from_loop(executor, work).outcome)

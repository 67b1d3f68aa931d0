# SPDX-License-Identifier: Apache-2.0
"""A listener call over its consume timeout: the report with its stack, and the callbacks (no Java counterpart).

The stack is taken while the listener runs, without frames of this package at its head. A report changes nothing: an exception of a
callback is logged, and a callback does not block the loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

import msgspec

from sprocketmq import client
from sprocketmq.client.hooks import run_callback
from sprocketmq.client.logged_messages import logged_messages
from sprocketmq.logs import Lines
from sprocketmq.troubles import Troubles
from sprocketmq.wire.records.message import MessageExt, MessageQueue

_OWN_FILES: Final = (
    os.path.dirname(os.path.abspath(client.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(threading.__file__)) + os.sep + "threading.py",
)
_NO_STACK: Final = "(the call has just ended)\n"


class StuckListener(msgspec.Struct, frozen=True):
    """The argument of ``on_consume_timeout`` callbacks: one listener call that runs longer than the consume timeout.

    Attributes:
        group, message_queue: of the messages.
        messages: those over the limit; each is sent back (broadcasting: is given up; orderly: stays and keeps its queue waiting).
        started_ms: when the call began, in milliseconds since 1970.
        running_ms, limit_ms: how long it has been running, and the consume timeout, in milliseconds.
        worker: name of the thread or task in which it runs.
        stack: its stack, as in a traceback, the innermost call last.
    """

    group: str
    message_queue: MessageQueue
    messages: Sequence[MessageExt]
    started_ms: int
    running_ms: int
    limit_ms: int
    worker: str
    stack: str


StuckListenerCallback = Callable[[StuckListener], "Awaitable[object] | object"]


def log_line(stuck: StuckListener, consequence: str, troubles: Troubles) -> None:
    """The trouble is the line of code in which the call stands."""
    innermost = stuck.stack.rpartition("  File ")[2]
    troubles.failed(
        ("stuck", innermost),
        "group %s: a listener call runs for %d ms, the consume timeout is %d ms; %s from %s %s; it is in %s at\n%s",
        stuck.group,
        stuck.running_ms,
        stuck.limit_ms,
        logged_messages(stuck.messages),
        stuck.message_queue,
        consequence,
        stuck.worker or "no worker any more",
        Lines(stuck.stack or _NO_STACK),
    )


async def run_timeout_callback(callback: StuckListenerCallback, stuck: StuckListener, troubles: Troubles) -> None:
    await run_callback(callback, stuck, troubles, "group %s: a callback of on_consume_timeout failed", stuck.group)


def thread_stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    frames: list[tuple[FrameType, int]] = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _formatted(frames[::-1])


def task_stack(task: asyncio.Task[Any]) -> str:
    """The stack of a suspended task, with all coroutines that await each other; ``Task.get_stack`` shows the first one only."""
    frames: list[tuple[FrameType, int]] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = (
            getattr(awaited, "cr_frame", None)
            or getattr(awaited, "ag_frame", None)
            or getattr(awaited, "gi_frame", None)
        )
        if frame is None:
            break
        frames.append((frame, frame.f_lineno))
        awaited = (
            getattr(awaited, "cr_await", None)
            or getattr(awaited, "ag_await", None)
            or getattr(awaited, "gi_yieldfrom", None)
        )
    return _formatted(frames)


def _formatted(frames: list[tuple[FrameType, int]]) -> str:
    import traceback  # imported only when a call is stuck

    first = next((n for n, (frame, _) in enumerate(frames) if not _is_own(frame.f_code)), None)
    if first is None:
        return _NO_STACK
    return "".join(traceback.StackSummary.extract(iter(frames[first:])).format())


def _is_own(code: CodeType) -> bool:
    return os.path.abspath(code.co_filename).startswith(_OWN_FILES)

"""A listener call over its consume timeout: who is told, and where the call stands at that moment (no Java counterpart).

    deadline passed --> StuckListener (messages, how long, worker, stack) --> one log line with the stack
                                                                          --> the callbacks of ``on_consume_timeout``
                                                                          --> statistics

Laws
    1. One call is told of once, however many messages it holds and however often their send-back is tried.
    2. The stack is the listener's, taken while it runs; frames of this package are left out at its head, for they say nothing.
    3. Telling changes nothing: what a callback raises is logged, what it does takes no time of the loop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

import msgspec

from sprocketmq import client
from sprocketmq.logs import Lines
from sprocketmq.wire.records.message import MessageExt, MessageQueue

__all__ = ["StuckListener", "StuckListenerCallback", "log_line", "run_callback", "task_stack", "thread_stack"]

log = logging.getLogger("sprocketmq.client")

_OWN_FILES: Final = (
    os.path.dirname(os.path.abspath(client.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(threading.__file__)) + os.sep + "threading.py",
)
_SHOWN: Final = 5
_NO_STACK: Final = "(the call has just ended)\n"


class StuckListener(msgspec.Struct, frozen=True):
    """What ``on_consume_timeout`` hands over: one listener call that runs for longer than the consume timeout.

    Attributes:
        group: of the consumer.
        message_queue: where the messages come from.
        messages: those of the call that are over the limit; each is sent back and comes again (broadcasting: is given up; orderly: stays
            and keeps its queue waiting).
        started_ms: when the call began, in milliseconds since 1970.
        running_ms: how long it has been running.
        limit_ms: the consume timeout that holds now.
        worker: name of the thread or task in which it runs.
        stack: where it stands, as in a traceback, the innermost call last.
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


def log_line(stuck: StuckListener, consequence: str) -> None:
    """The log line of one stuck call; ``consequence`` is what becomes of its messages."""
    shown = ", ".join(message.message_id for message in stuck.messages[:_SHOWN])
    more = f" and {len(stuck.messages) - _SHOWN} more" if len(stuck.messages) > _SHOWN else ""
    log.warning(
        "group %s: a listener call runs for %d ms, the consume timeout is %d ms; %s%s from %s %s; it stands in %s at\n%s",
        stuck.group,
        stuck.running_ms,
        stuck.limit_ms,
        shown,
        more,
        stuck.message_queue,
        consequence,
        stuck.worker or "no worker any more",
        Lines(stuck.stack or _NO_STACK),
    )


async def run_callback(callback: StuckListenerCallback, stuck: StuckListener) -> None:
    """Run a callback, a plain one in a thread (law 3)."""
    try:
        if inspect.iscoroutinefunction(callback):
            await callback(stuck)
        else:
            await asyncio.to_thread(callback, stuck)
    except Exception:
        log.exception("group %s: a callback of on_consume_timeout failed", stuck.group)


def thread_stack(thread: threading.Thread) -> str:
    """Where a thread stands now."""
    frame = sys._current_frames().get(thread.ident or 0)
    frames: list[tuple[FrameType, int]] = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _formatted(frames[::-1])


def task_stack(task: asyncio.Task[Any]) -> str:
    """Where a task waits: all coroutines that wait for each other, which ``Task.get_stack`` does not show of a suspended task."""
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
    import traceback  # when something is stuck, not at import

    first = next((n for n, (frame, _) in enumerate(frames) if not _is_own(frame.f_code)), None)
    if first is None:
        return _NO_STACK
    return "".join(traceback.StackSummary.extract(iter(frames[first:])).format())


def _is_own(code: CodeType) -> bool:
    return os.path.abspath(code.co_filename).startswith(_OWN_FILES)

# SPDX-License-Identifier: Apache-2.0
"""Reports orderly listener calls that run longer than the consume timeout (no Java counterpart).

    every limit: check the running calls --over it--> reported, once
                                         --not yet--> checked again at its deadline

An orderly message is never sent back for being slow, because the messages after it must wait for it. So this only reports. The worker
stores when a call began; nothing happens when it ends in time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from sprocketmq.client.group.group_member import GroupMember
from sprocketmq.client.group.stuck_listener import StuckListener, log_line, run_timeout_callback
from sprocketmq.net.process.clock import Timer
from sprocketmq.wire.records.message import MessageExt


class RunningCall(Protocol):
    """A listener call under way."""

    messages: list[MessageExt]
    context: Any
    began_ms: int
    stuck_reported: bool


C = TypeVar("C", bound=RunningCall)


class StuckWatch:
    """Belongs to the loop of its service.

    Args:
        running: the calls that run now.
        stack_of: worker and stack of one of them.
        spawn: runs a callback.
    """

    def __init__(
        self,
        group: GroupMember,
        running: Callable[[], Iterable[C]],
        stack_of: Callable[[C], tuple[str, str]],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
    ) -> None:
        self._group, self._spawn = group, spawn
        self._running: Callable[[], Iterable[Any]] = running
        self._stack_of: Callable[[Any], tuple[str, str]] = stack_of
        self._limit_ms = group.settings.consume_timeout_ms
        self._timer: Timer | None = None
        self._closed = False

    @property
    def limit_ms(self) -> int:
        return self._limit_ms

    @limit_ms.setter
    def limit_ms(self, limit_ms: int) -> None:
        """0 switches it off; takes effect at once, also for running calls."""
        self._limit_ms = limit_ms
        self.look()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Report the calls over the limit, and set the timer for the next deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed or self._limit_ms <= 0:
            return
        clock = self._group.clock
        now_ms = clock.now_ms()
        next_ms = now_ms + self._limit_ms
        for call in self._running():
            deadline_ms = call.began_ms + self._limit_ms
            if call.stuck_reported:
                continue
            if deadline_ms <= now_ms:
                call.stuck_reported = True
                self._report(call, call.messages, now_ms)
            else:
                next_ms = min(next_ms, deadline_ms)
        self._timer = clock.call_later(max(1, next_ms - now_ms), self.look)

    def _report(self, call: Any, messages: Sequence[MessageExt], now_ms: int) -> None:
        worker, stack = self._stack_of(call)
        running_ms = now_ms - call.began_ms
        stuck = StuckListener(
            self._group.name,
            call.context.message_queue,
            messages,
            call.began_ms,
            running_ms,
            self._limit_ms,
            worker,
            stack,
        )
        log_line(stuck, "keep their queue waiting, because it is consumed in order")
        self._group.statistics.timed_out(messages[0].topic, len(messages), now_ms)
        for callback in self._group.stuck_callbacks:
            self._spawn(partial(run_timeout_callback, callback, stuck))

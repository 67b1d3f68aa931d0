# SPDX-License-Identifier: Apache-2.0
"""Reports orderly listener calls that run longer than the consume timeout (no Java counterpart).

    every limit: check the running calls --over it--> reported, once
                                         --not yet--> checked again at its deadline

An orderly message is never sent back for being slow, because the messages after it must wait for it. So this only reports. The worker
stores when a call began; nothing happens when it ends in time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sprocketmq.client.listen.stuck_listener import StuckListener, log_line, run_timeout_callback
from sprocketmq.net.process.clock import Timer

if TYPE_CHECKING:
    from sprocketmq.client.consume.group_member import GroupMember
    from sprocketmq.client.listen.orderly_service import Batch, OrderlyService


class StuckWatch:
    """Belongs to the loop of its service."""

    def __init__(self, group: GroupMember, service: OrderlyService) -> None:
        self._group, self._service = group, service
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
        for call in self._service.running_calls():
            deadline_ms = call.began_ms + self._limit_ms
            if call.stuck_reported:
                continue
            if deadline_ms <= now_ms:
                call.stuck_reported = True
                self._report(call, now_ms)
            else:
                next_ms = min(next_ms, deadline_ms)
        self._timer = clock.call_later(max(1, next_ms - now_ms), self.look)

    def _report(self, call: Batch, now_ms: int) -> None:
        worker, stack = self._service.stack_of(call)
        messages, running_ms = call.messages, now_ms - call.began_ms
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
            self._service.spawn(partial(run_timeout_callback, callback, stuck))

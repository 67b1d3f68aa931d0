# SPDX-License-Identifier: Apache-2.0
"""Requests of one connection that wait for their answers, each until its own deadline (Java: NettyRemotingAbstract's responseTable). A
future ends once; later events change nothing. One timer serves all requests; it is set for the earliest deadline or before: requests
with the same timeout have rising deadlines, so a request that is answered in time needs no timer operation. Only sends that asked for a
stored answer (``wire.send_frames``) get one; all other requests get Commands."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from sprocketmq.errors import RequestTimeout, RocketMQError
from sprocketmq.wire.codes import request_name
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.send_frames import StoredAnswer

# Its future, its deadline in seconds of the loop's clock, the timeout and the request code for the error, and whether it is a send that
# accepts a stored answer.
_Waiting = tuple["asyncio.Future[Any]", float, int, int, bool]


class WaitingRequests:
    """The waiting requests of one connection and its loop; ``address`` of the peer is for the error of a timeout."""

    __slots__ = ("_by_opaque", "_loop", "_timer", "_timer_at_s", "address")

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        self._loop, self.address = loop, address
        self._by_opaque: dict[int, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0

    def __len__(self) -> int:
        return len(self._by_opaque)

    def has_others_than(self, codes: Collection[int]) -> bool:
        """Whether a request with another code waits. May be asked on any thread."""
        return any(code not in codes for _, _, _, code, _ in list(self._by_opaque.values()))

    def add(self, opaque: int, code: int, timeout_ms: int, takes_stored: bool = False) -> asyncio.Future[Any]:
        """Return the future of a request that is about to be written; it fails with RequestTimeout after ``timeout_ms``."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        future: asyncio.Future[Any] = self._loop.create_future()
        self._by_opaque[opaque] = (future, deadline_s, timeout_ms, code, takes_stored)
        if self._timer is None:
            self._arm(deadline_s)
        elif deadline_s < self._timer_at_s:
            self._timer.cancel()
            self._arm(deadline_s)
        return future

    def answer(self, opaque: int, command: Command) -> bool:
        """Give a request its answer; False if no such request waits (any more)."""
        waiting = self._by_opaque.pop(opaque, None)
        if waiting is None:
            return False
        if not waiting[0].done():
            waiting[0].set_result(command)
        return True

    def answer_stored(self, answer: StoredAnswer) -> bool:
        """Give a send its stored answer; False if no send waits for it that accepts one."""
        waiting = self._by_opaque.get(answer.opaque)
        if waiting is None or not waiting[4]:
            return False
        del self._by_opaque[answer.opaque]
        if not waiting[0].done():
            waiting[0].set_result(answer)
        return True

    def forget(self, opaque: int) -> None:
        self._by_opaque.pop(opaque, None)

    def fail_all(self, error: RocketMQError) -> None:
        waiting, self._by_opaque = self._by_opaque, {}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for future, *_ in waiting.values():
            if not future.done():
                future.set_exception(error)

    def _arm(self, at_s: float) -> None:
        self._timer_at_s = at_s
        self._timer = self._loop.call_at(at_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        late = [(waiting[1], opaque) for opaque, waiting in self._by_opaque.items() if waiting[1] <= now_s]
        for _, opaque in sorted(late):
            future, _, timeout_ms, code, _ = self._by_opaque.pop(opaque)
            if not future.done():
                sentence = f"{self.address} did not answer {request_name(code)} within {timeout_ms} ms"
                future.set_exception(RequestTimeout(sentence, self.address, timeout_ms))
        if self._by_opaque:
            # At least a millisecond ahead: a loop whose clock has milliseconds would otherwise call it again and again at once.
            self._arm(max(now_s + 0.001, min(waiting[1] for waiting in self._by_opaque.values())))

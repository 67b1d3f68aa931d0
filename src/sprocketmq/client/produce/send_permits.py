# SPDX-License-Identifier: Apache-2.0
"""Back-pressure: how many sends may be under way at once (Java 5.x: enableBackpressureForAsyncMode and its two semaphores).

Rules
1. At most ``count`` sends are under way, with bodies of at most ``size_bytes`` in sum; a larger body is sent when nothing else is.
2. Permits are given in the order of the calls, so small bodies do not overtake a large one.
3. A send that waits longer than its timeout fails and sends nothing; its permit stays available.
"""

from __future__ import annotations

import asyncio
from collections import deque

from sprocketmq.errors import TooMuchRequest


class SendPermits:
    """The permits of one producer. Belongs to its loop."""

    __slots__ = ("_bytes", "_count", "_max_bytes", "_max_count", "_waiting")

    def __init__(self, count: int, size_bytes: int) -> None:
        self._max_count, self._max_bytes = count, size_bytes
        self._count = self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def under_way(self) -> tuple[int, int]:
        """Sends, and bytes of their bodies."""
        return self._count, self._bytes

    async def take(self, size_bytes: int, timeout_ms: int) -> None:
        """Wait for a permit for a body of ``size_bytes``; call ``give_back`` when the send has ended or failed. Raises
        TooMuchRequest (it did not come within ``timeout_ms``)."""
        if not self._waiting and self._fits(size_bytes):
            self._count += 1
            self._bytes += size_bytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await asyncio.wait([turn], timeout=timeout_ms / 1000)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size_bytes)
            turn.cancel()
            self._next()
            raise
        if not turn.done():
            turn.cancel()
            self._next()
            raise TooMuchRequest(
                f"{self._count} sends with {self._bytes} bytes are under way, at most {self._max_count} (back_pressure_for_async_send_num) "
                f"with {self._max_bytes} bytes (back_pressure_for_async_send_size_bytes) are allowed, and the turn of this one did not "
                f"come within {timeout_ms} ms; nothing was sent"
            )

    def give_back(self, size_bytes: int) -> None:
        self._count -= 1
        self._bytes -= size_bytes
        self._next()

    def _fits(self, size_bytes: int) -> bool:
        if self._count >= self._max_count:
            return False
        return not self._count or self._bytes + size_bytes <= self._max_bytes

    def _next(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            if turn.done():  # it gave up
                self._waiting.popleft()
            elif self._fits(size_bytes):
                self._waiting.popleft()
                self._count += 1
                self._bytes += size_bytes
                turn.set_result(None)
            else:
                return

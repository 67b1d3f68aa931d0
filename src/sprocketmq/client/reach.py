# SPDX-License-Identifier: Apache-2.0
"""Limits for a client that asks all servers that are registered, which anybody can register at an open name server.

Rules
    1. Requests to at most ``MOST_AT_ONCE`` servers are under way; others wait for their turn, and their timeout begins with it.
    2. At most ``MOST_OPEN`` connections stay open; the one that was used least recently is closed for a new one.
    3. If it leaves silent servers alone: one that did not answer is asked again after 5 s, then 10 s, 20 s, 40 s and 80 s. Requests until
       then fail at once. Servers that answered have half of the turns, and those that did not answer an eighth, so that neither strangers
       nor silent servers keep others from being asked; and a request waits for its turn no longer than its timeout.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sprocketmq.errors import ConnectFailed, NetworkError, RequestTimeout
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.frames.command import Command

MOST_AT_ONCE: Final = 32
MOST_OPEN: Final = 64
_PAUSE_S: Final = 5.0
_MOST_PAUSES: Final = 5
_MOST_REMEMBERED: Final = 4_096  # addresses of each kind


class Reach:
    """``leaves_silent``: for clients that ask again and again."""

    def __init__(self, pool: ConnectionPool, *, leaves_silent: bool = False) -> None:
        self._pool, self._leaves_silent = pool, leaves_silent
        silent, answered = (MOST_AT_ONCE // 8, MOST_AT_ONCE // 2) if leaves_silent else (0, 0)
        self._turns = asyncio.Semaphore(MOST_AT_ONCE - silent - answered)
        self._turns_of_silent, self._turns_of_answered = asyncio.Semaphore(silent), asyncio.Semaphore(answered)
        self._answered: dict[str, None] = {}
        # How often in sequence it did not answer, and when it is asked again.
        self._silent: dict[str, tuple[int, float]] = {}

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        """As ``pool.invoke``. Raises ConnectFailed for a server that is left alone."""
        self._refuse_silent(address)
        turns = self._turns_for(address)
        try:
            async with asyncio.timeout(timeout_ms / 1000 if self._leaves_silent else None):
                await turns.acquire()
        except TimeoutError:
            raise ConnectFailed(f"{address} was not asked: too many servers do not answer", address) from None
        try:
            self._pool.close_unused(MOST_OPEN - 1, but=address)
            answer = await self._pool.invoke(address, command, timeout_ms)
        except (NetworkError, RequestTimeout):
            self._note_silent(address)
            raise
        finally:
            turns.release()
        self._note_answered(address)
        return answer

    def _turns_for(self, address: str) -> asyncio.Semaphore:
        if address in self._answered:
            return self._turns_of_answered
        return self._turns_of_silent if address in self._silent else self._turns

    def _note_answered(self, address: str) -> None:
        self._silent.pop(address, None)
        if self._leaves_silent:
            self._answered[address] = None
            if len(self._answered) > _MOST_REMEMBERED:
                del self._answered[next(iter(self._answered))]

    def _refuse_silent(self, address: str) -> None:
        _, until_s = self._silent.get(address, (0, 0.0))
        left_s = until_s - asyncio.get_running_loop().time()
        if left_s > 0:
            raise ConnectFailed(f"{address} did not answer; it is asked again in {left_s:.0f} s", address)

    def _note_silent(self, address: str) -> None:
        if self._leaves_silent:
            self._answered.pop(address, None)
            count = self._silent.pop(address, (0, 0.0))[0]
            while len(self._silent) >= _MOST_REMEMBERED:
                del self._silent[next(iter(self._silent))]
            pause_s = _PAUSE_S * (1 << min(count, _MOST_PAUSES - 1))
            self._silent[address] = count + 1, asyncio.get_running_loop().time() + pause_s

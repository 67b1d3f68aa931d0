"""Who waits to write to a peer that does not read: one after the other, as the peer takes what was written.

Laws
1. Turns are given in the order in which they were asked for, one at a time: who has written passes on, if there is still room.
2. A turn that was given to somebody who stopped waiting goes to the next.
3. Who waits longer than its timeout gets no turn, and has written nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["WriteTurns"]


class WriteTurns:
    """Of one connection. True while somebody waits."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    async def take(self, timeout_ms: float) -> bool:
        """Wait for a turn; False when none came within ``timeout_ms``. Who got one writes at once, then calls :meth:`give`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait([turn], timeout=timeout_ms / 1000)
        except asyncio.CancelledError:
            if turn.done():
                self.give()
            turn.cancel()
            raise
        if turn.done():
            return True
        turn.cancel()
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        return False

    def give(self) -> None:
        """The next one may write."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def give_all(self) -> None:
        """The connection is gone: each finds out by itself."""
        while self._waiting:
            self.give()

"""Who waits to write to a peer that does not read: one after the other, as the peer takes what was written.

Laws
1. Turns are given in the order in which they were asked for, one at a time: who has written passes on, if there is still room.
2. A turn that was given to somebody who stopped waiting goes to the next.
3. Who waits longer than its timeout gets no turn, and has written nothing.
4. Who comes while somebody waits, or has a turn and has not written yet, goes behind: nobody is overtaken.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["WriteTurns"]


class WriteTurns:
    """Of one connection. ``is_idle``: nobody waits, nor has a turn that was not used yet."""

    __slots__ = ("_is_given", "_waiting", "is_idle")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_given = False
        self.is_idle = True  # each send asks

    async def take(self, timeout_ms: float) -> bool:
        """Wait for a turn; False when none came within ``timeout_ms``. Who got one writes at once, then calls :meth:`pass_on`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.is_idle = False
        try:
            await asyncio.wait([turn], timeout=timeout_ms / 1000)
        except asyncio.CancelledError:
            if turn.done():
                self.pass_on(room=True)
            else:
                self._leave(turn)
            raise
        if turn.done():
            return True
        self._leave(turn)
        return False

    def _leave(self, turn: asyncio.Future[None]) -> None:
        turn.cancel()
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        self._look()

    def _look(self) -> None:
        self.is_idle = not self._waiting and not self._is_given

    def pass_on(self, *, room: bool) -> None:
        """The turn was used; the next one may write if there is ``room``."""
        self._is_given = False
        if room:
            self.give()
        self._look()

    def give(self) -> None:
        """The next one may write, unless somebody may already."""
        while self._waiting and not self._is_given:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._is_given = True
        self._look()

    def give_all(self) -> None:
        """The connection is gone: each finds out by itself."""
        while self._waiting:
            self.pass_on(room=True)

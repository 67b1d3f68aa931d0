# SPDX-License-Identifier: Apache-2.0
"""Turns for callers that wait to write to a peer that does not read: one at a time, in the order of the requests for them. A caller that
stopped waiting is passed over; one that waits longer than its timeout has written nothing. A new caller goes to the end while others
wait, or have a turn and have not written yet."""

from __future__ import annotations

import asyncio
from collections import deque


class WriteTurns:
    """The turns of one connection. ``is_idle``: no caller waits or has an unused turn."""

    __slots__ = ("_is_given", "_waiting", "is_idle")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._is_given = False
        self.is_idle = True  # an attribute, because each send reads it

    async def take(self, timeout_ms: float) -> bool:
        """Wait for a turn; False if there was none within ``timeout_ms``. With a turn, write at once, then call :meth:`pass_on`."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        self.is_idle = False
        timer = loop.call_later(timeout_ms / 1000, _set, turn, False)
        try:
            has_turn = await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.result():
                self.pass_on(room=True)
            else:
                self._leave()
            raise
        finally:
            timer.cancel()
        if not has_turn:
            self._leave()
        return has_turn

    def _leave(self) -> None:
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        self._note_idle()

    def _note_idle(self) -> None:
        self.is_idle = not self._waiting and not self._is_given

    def pass_on(self, *, room: bool) -> None:
        """The turn was used; the next caller may write if there is ``room``."""
        self._is_given = False
        if room:
            self.give()
        self._note_idle()

    def give(self) -> None:
        while self._waiting and not self._is_given:
            turn = self._waiting.popleft()
            self._is_given = _set(turn, True)
        self._note_idle()

    def give_all(self) -> None:
        """The connection has ended: wake all callers, which then find it closed."""
        while self._waiting:
            self.pass_on(room=True)


def _set(turn: asyncio.Future[bool], is_given: bool) -> bool:
    if turn.done():
        return False
    turn.set_result(is_given)
    return True

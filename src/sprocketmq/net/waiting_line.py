# SPDX-License-Identifier: Apache-2.0
"""A queue of callers that wait for the same thing, a connection or a route. A new caller goes to the end while others wait, or were
woken and have not continued yet: no caller is overtaken. All are woken in one turn of the loop, and each continues in the next, so the
line becomes empty soon."""

from __future__ import annotations

import asyncio


class WaitingLine:
    """One line. ``length`` counts callers that wait, or were woken and have not continued; ``is_open``: no caller waits any more."""

    __slots__ = ("_waiting", "is_open", "length")

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[bool]] = []
        self.is_open = False
        self.length = 0

    async def wait(self, timeout_ms: float | None) -> bool:
        """Wait until the thing is there; False if it is not after ``timeout_ms``. The caller must use it in the same step."""
        self.length += 1
        try:
            if not self.is_open:
                return await self._wait_in_line(timeout_ms)
            # One turn, not the two of a future: otherwise a new caller in each turn would keep the line occupied forever.
            await asyncio.sleep(0)
            return True
        finally:
            self.length -= 1

    async def _wait_in_line(self, timeout_ms: float | None) -> bool:
        loop = asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(place)
        timer = None if timeout_ms is None else loop.call_later(timeout_ms / 1000, _wake, place, False)
        try:
            return await place
        finally:
            if timer is not None:
                timer.cancel()

    def open(self) -> None:
        """Wake all callers: the thing is there, or will never be."""
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for place in waiting:
            _wake(place, True)


def _wake(place: asyncio.Future[bool], there: bool) -> None:
    if not place.done():
        place.set_result(there)

"""Who waits for one thing that all need, a connection or a route: it comes once, and they go on in the order in which they came.

Laws
1. Who comes while somebody waits, or was woken and has not gone on yet, goes behind: nobody is overtaken.
2. All are woken in one turn of the loop, and each goes on in the next: the line ends soon, also while others keep coming.
"""

from __future__ import annotations

import asyncio

__all__ = ["WaitingLine"]


class WaitingLine:
    """One line; ``length`` counts those who wait, and those who were woken and have not gone on; ``is_open``: nobody waits any more."""

    __slots__ = ("_waiting", "is_open", "length")

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[bool]] = []
        self.is_open = False
        self.length = 0

    async def wait(self, timeout_ms: float | None) -> bool:
        """Until the thing is there; False when it is not after ``timeout_ms``. Who goes on does what he waited for in the same step."""
        self.length += 1
        try:
            if not self.is_open:
                return await self._come(timeout_ms)
            await asyncio.sleep(
                0
            )  # one turn, not the two of a future: otherwise one that comes each turn keeps the line for ever
            return True
        finally:
            self.length -= 1

    async def _come(self, timeout_ms: float | None) -> bool:
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
        """The thing is there, or will not come."""
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for place in waiting:
            _wake(place, True)


def _wake(place: asyncio.Future[bool], there: bool) -> None:
    if not place.done():
        place.set_result(there)

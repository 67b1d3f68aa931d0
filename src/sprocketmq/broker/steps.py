"""Long work in steps. All requests share one loop, so what takes long lets the others come in between.

A step is a number of things, not a time: how far a step goes does not depend on the machine, and a test can count the steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from sprocketmq.wire.bodies.body import Body

__all__ = ["STEP", "Long", "in_steps", "text_in_steps"]

T = TypeVar("T")

STEP: Final = 500
"""Things of some 10 us each: a topic encoded, a sample of a metric, an offset written out."""


def in_steps(things: Iterable[T], size: int = STEP) -> AsyncIterator[list[T]]:
    """``things``, ``size`` at a time, with a turn of the loop between; at once when they are not more.

    A table changes meanwhile: hand in a copy of its keys, and look each of them up.
    """
    return _Shares(things, size)


class _Shares(AsyncIterator[list[T]]):
    """No asynchronous generator: one whose work is given up at a step cannot be closed any more ("already running"), and says so."""

    def __init__(self, things: Iterable[T], size: int) -> None:
        self._things, self._size = iter(things), size
        self._following = list(islice(self._things, size))
        self._has_begun = False

    async def __anext__(self) -> list[T]:
        share = self._following
        if not share:
            raise StopAsyncIteration
        if self._has_begun:
            await asyncio.sleep(0)
        self._has_begun = True
        self._following = list(islice(self._things, self._size)) if len(share) == self._size else []
        return share


class Long(NamedTuple):
    """A JSON text made of a table that may be long.

    Attributes:
        field: the table's name in the text.
        names: of its rows.
        body_of: the whole body with these rows only; everything else in it is always the same.
        size: rows of a step.
    """

    field: str
    names: list[str]
    body_of: Callable[[list[str]], Body]
    size: int = STEP

    @property
    def is_short(self) -> bool:
        """Whether it is made in one step."""
        return len(self.names) <= self.size

    def encode(self) -> bytes:
        """All of it at once."""
        return self.body_of(self.names).encode()


async def text_in_steps(long: Long) -> bytes:
    """``long.encode()``, with turns of the loop between; a row that has gone meanwhile is left out."""
    empty = long.body_of([]).encode()
    at = empty.index(b'"%b":{}' % long.field.encode()) + len(long.field) + 4
    head, tail = empty[:at], empty[at:]
    rows = []
    async for names in in_steps(sorted(long.names), long.size):
        text = long.body_of(names).encode()
        if len(text) > len(empty):
            rows.append(text[len(head) : -len(tail)])
    return head + b",".join(rows) + tail

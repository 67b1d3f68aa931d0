# SPDX-License-Identifier: Apache-2.0
"""Long work in chunks: all requests share one event loop, so long work returns to it after each chunk. The size of a chunk is a number of
items, not a time, so that it does not depend on the machine and a test can count the chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from sprocketmq.wire.bodies.body import Body

T = TypeVar("T")

CHUNK_SIZE: Final = 500
"""Items that take about 10 us each: a topic to encode, a sample of a metric, an offset to write."""


def in_chunks(things: Iterable[T], size: int = CHUNK_SIZE) -> AsyncIterator[list[T]]:
    """A turn of the loop between two lists. Pass a copy of a table's keys and look up each: it can change."""
    return _Chunks(things, size)


class _Chunks(AsyncIterator[list[T]]):
    """Not an asynchronous generator: if the work is cancelled within a chunk, ``aclose`` of a generator fails ("already running")."""

    def __init__(self, things: Iterable[T], size: int) -> None:
        self._things, self._size = iter(things), size
        self._following = list(islice(self._things, size))
        self._has_begun = False

    async def __anext__(self) -> list[T]:
        chunk = self._following
        if not chunk:
            raise StopAsyncIteration
        if self._has_begun:
            await asyncio.sleep(0)
        self._has_begun = True
        self._following = list(islice(self._things, self._size)) if len(chunk) == self._size else []
        return chunk


class LongTable:
    """A JSON body with one table that may be long: its rows of now, as they are when they are encoded. ``field``: its name in the text.
    ``body_of`` returns the whole body with only these rows; all other fields are always the same. ``size``: rows of one chunk."""

    def __init__(
        self,
        field: str,
        table: Mapping[str, Any],
        body_of: Callable[[dict[str, Any]], Body],
        size: int = CHUNK_SIZE,
    ) -> None:
        self.field, self._table, self.body_of, self.size = field, table, body_of, size
        self.names = list(table)

    @property
    def is_short(self) -> bool:
        return len(self.names) <= self.size

    def encode(self, names: Iterable[str] | None = None) -> bytes:
        """The body with the rows of these names, default all, that are still there."""
        names, table = self.names if names is None else names, self._table
        return self.body_of({name: table[name] for name in names if name in table}).encode()


async def encode_in_chunks(long: LongTable) -> bytes:
    """Return ``long.encode()``, with a turn of the loop between two chunks; a row that was deleted meanwhile is left out."""
    empty = long.encode(())
    at = empty.index(b'"%b":{}' % long.field.encode()) + len(long.field) + 4
    head, tail = empty[:at], empty[at:]
    rows = []
    async for names in in_chunks(sorted(long.names), long.size):
        text = long.encode(names)
        if len(text) > len(empty):
            rows.append(text[len(head) : -len(tail)])
    return head + b",".join(rows) + tail

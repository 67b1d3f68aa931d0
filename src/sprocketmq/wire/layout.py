# SPDX-License-Identifier: Apache-2.0
"""Rows of big-endian fields of fixed length: struct formats, positions, sizes and NumPy types are derived from one table for each
format."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any, Final

_NUMPY_TYPES: Final = {"b": "i1", "B": "u1", "h": ">i2", "H": ">u2", "i": ">i4", "I": ">u4", "q": ">i8", "Q": ">u8"}


class Layout:
    """The fields between the first byte of something and its first part of variable length. ``fields``: (name, type) in their order. A
    type is one of the struct module, or several that make one field: ``"4sI"`` is a host, an address and a port. ``struct``: all fields;
    ``size``: their bytes. ``at``: where each field begins. ``index``: where each field's first value is in what ``struct.unpack`` gives."""

    def __init__(self, *fields: tuple[str, str]) -> None:
        self.types: dict[str, str] = dict(fields)
        self.at: dict[str, int] = {}
        self.index: dict[str, int] = {}
        self._value_counts: dict[str, int] = {}
        place = values = 0
        for name, kind in fields:
            self.at[name], self.index[name] = place, values
            own = struct.Struct(">" + kind)
            place += own.size
            values += (count := len(own.unpack(bytes(own.size))))
            self._value_counts[name] = count
        self.struct = struct.Struct(">" + "".join(self.types.values()))
        self.size = self.struct.size

    def span(self, name: str) -> slice:
        return slice(self.at[name], self.at[name] + self.width(name))

    def width(self, name: str) -> int:
        return struct.calcsize(">" + self.types[name])

    def subset(self, *names: str, signed: bool = True) -> struct.Struct:
        """Only these fields, in the table's order. It begins where the layout begins and ends with the last of them. With
        ``signed=False`` the fields, which are numbers, have no sign."""
        parts, place = [], 0
        for name, kind in self.types.items():
            if name in names:
                parts.append(f"{self.at[name] - place}x{kind if signed else kind.upper()}")
                place = self.at[name] + self.width(name)
        return struct.Struct(">" + "".join(parts))

    def single(self, name: str) -> struct.Struct:
        return struct.Struct(">" + self.types[name])

    def repeated(self, name: str, count: int, *of_ends: str) -> struct.Struct:
        """One field of each of ``count`` rows; of the first and the last row the fields ``of_ends``, too."""
        rows = self._row(name) * count
        if of_ends:
            end = self._row(name, *of_ends)
            rows = end if count == 1 else end + self._row(name) * (count - 2) + end
        return struct.Struct(">" + rows)

    def _row(self, *names: str) -> str:
        """The format of a whole row of which only these fields are read."""
        only = self.subset(*names)
        return f"{only.format[1:]}{self.size - only.size}x"

    def values(self, *names: str) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """A function that takes only these fields, two or more values, out of the result of ``struct.unpack``."""
        places = (range(self.index[name], self.index[name] + self._value_counts[name]) for name in names)
        return itemgetter(*chain.from_iterable(places))

    def after(self, name: str) -> struct.Struct:
        """All fields after one, for ``pack_into`` at the position where that one ends."""
        names = list(self.types)
        return struct.Struct(">" + "".join(self.types[later] for later in names[names.index(name) + 1 :]))

    def columns(self, *names: str, row_bytes: int | None = None, **types: str) -> Any:
        """The argument for ``numpy.dtype`` of a structured type. NumPy is imported by the caller. ``names``: the fields; none =
        all. ``row_bytes``: the distance between rows, if something is between them. ``types``: NumPy types of single fields; by
        default a field of several values is opaque bytes."""
        wanted = names or tuple(self.types)
        return {
            "names": list(wanted),
            "formats": [types.get(name) or self.numpy_type(name) for name in wanted],
            "offsets": [self.at[name] for name in wanted],
            "itemsize": self.size if row_bytes is None else row_bytes,
        }

    def numpy_type(self, name: str) -> str:
        return _NUMPY_TYPES.get(self.types[name]) or f"V{self.width(name)}"

# SPDX-License-Identifier: Apache-2.0
"""Properties as columns, by the places of all separators; see ``property_columns``.

Each name has a *print*, a hash of its first 16 bytes and its size; to number all names would be most of the work. Equal prints are checked
byte by byte wherever it matters: for a property that is looked up, and in rows in which a print repeats (``_merge_repeated``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sprocketmq.spark.columns.byte_columns import (
    SPARE_BYTES,
    Array,
    Bytes,
    Mask,
    Numbers,
    Offsets,
    gathered,
    places_of,
    slices,
    text,
    validity_of,
)
from sprocketmq.spark.columns.property_texts import END, MIDDLE, Texts, broken

# One of a name, see above.
Prints = NDArray[np.uint64]

# Of the table that finds names that repeat: 4 MiB.
_MOST_CELLS: Final = 1 << 20
# Of a name these bytes are in its print. Names are mostly shorter.
_PRINT_BYTES: Final = 16
_WORD_BITS: Final = 64
# Odd numbers, so that each product has all bits of its factor.
_FIRST, _SECOND, _SIZE, _ROW = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)
# Each print is compared with so many of those before it. Rows with more pairs are read with numbered names.
_NEIGHBOURS: Final = 15


class PropertiesBySeparator:
    def __init__(self, texts: Texts) -> None:
        self._count = len(texts.starts)
        self._raw, offsets = _whole(texts)
        content = self._raw[: offsets[-1]]
        ends, middles = places_of(content, END), places_of(content, MIDDLE)
        # A pair begins behind the end of the one before.
        begins = np.zeros_like(ends)
        np.add(ends[:-1], 1, out=begins[1:])
        is_empty = begins == ends
        if is_empty.any():
            begins, ends = begins[~is_empty], ends[~is_empty]
        if len(middles) != len(ends) or not ((begins < middles) & (middles < ends)).all():
            # Its middle is its first separator, which is its end if it has no other.
            middles = np.append(middles, len(content))
            middles = np.minimum(middles[np.searchsorted(middles, begins)], ends)
        self._pair_offsets = np.searchsorted(ends, offsets).astype(np.int32)
        self._names_at, self._name_sizes = begins, middles - begins
        self._values_at = middles + 1
        self._value_sizes = ends - self._values_at
        self._keep((self._name_sizes > 0) & (self._value_sizes > 0))
        self._heads = gathered(self._raw, self._names_at, _PRINT_BYTES)
        self._prints = _prints(self._heads, self._name_sizes)
        self._merge_repeated()

    def _keep(self, pairs: Mask) -> None:
        if pairs.all():
            return
        before = np.zeros(len(pairs) + 1, np.int32)
        np.cumsum(pairs, out=before[1:])
        self._pair_offsets = before[self._pair_offsets]
        kept = np.flatnonzero(pairs)
        self._names_at, self._name_sizes = self._names_at[kept], self._name_sizes[kept]
        self._values_at, self._value_sizes = self._values_at[kept], self._value_sizes[kept]

    @cached_property
    def _pair_rows(self) -> Numbers:
        return np.repeat(np.arange(self._count), np.diff(self._pair_offsets))

    def _merge_repeated(self) -> None:
        """Of a name that a message has several times the first place counts, and the last value."""
        counts = np.diff(self._pair_offsets)
        kept = np.ones(len(self._prints), bool)
        first, again = self._repeated(counts)
        if len(first):
            kept[again] = False
            self._take_values(first, again)
        rows = np.flatnonzero(counts > _NEIGHBOURS + 1)
        if len(rows):
            offsets = np.zeros(len(rows) + 1, np.int64)
            np.cumsum(counts[rows], out=offsets[1:])
            # All pairs of these rows, and where they are in the batch.
            pairs = np.repeat(self._pair_offsets[:-1][rows] - offsets[:-1], counts[rows]) + np.arange(int(offsets[-1]))
            names = slices(self._raw, self._names_at[pairs], self._name_sizes[pairs]).dictionary_encode()
            codes = names.indices.to_numpy(zero_copy_only=False)
            last, kept[pairs] = _last_and_first(codes, len(names.dictionary), offsets)
            self._take_values(pairs, pairs[last])
        if not kept.all():
            self._keep(kept)
            self._heads, self._prints = _taken(self._heads, kept), self._prints[kept]

    def _take_values(self, pairs: Numbers, others: Numbers) -> None:
        """Of a pair that is there several times NumPy keeps what was assigned last."""
        self._values_at[pairs], self._value_sizes[pairs] = self._values_at[others], self._value_sizes[others]

    def _repeated(self, counts: Offsets) -> tuple[Numbers, Numbers]:
        """Pairs, and pairs behind them in the same row with the same name, the nearest first; those farther apart are left out."""
        # Equal prints of different rows differ.
        own = np.repeat(np.arange(self._count, dtype=np.uint64) * _ROW, counts)
        own += self._prints
        found = [
            np.flatnonzero(own[apart:] == own[:-apart])
            for apart in range(1, min(int(counts.max(initial=0)), _NEIGHBOURS + 1))
        ]
        first = np.concatenate([np.empty(0, np.int64), *found])
        again = first + np.repeat(np.arange(len(found)) + 1, [len(pairs) for pairs in found])
        names, others = (slices(self._raw, self._names_at[pairs], self._name_sizes[pairs]) for pairs in (first, again))
        rows = np.searchsorted(self._pair_offsets, first, side="right")
        is_same = pc.equal(names, others).to_numpy(zero_copy_only=False) & (again < self._pair_offsets[rows])
        return first[is_same], again[is_same]

    def _named(self, name: str) -> Numbers:
        wanted = name.encode()
        head = np.frombuffer(wanted[:_PRINT_BYTES].ljust(_PRINT_BYTES), np.uint8).reshape(1, -1)
        pairs: Numbers = np.flatnonzero(self._prints == _prints(head, np.array([len(wanted)], np.int64)))
        pairs = pairs[self._name_sizes[pairs] == len(wanted)]
        if not len(pairs):
            return pairs
        found = gathered(self._raw, self._names_at[pairs], len(wanted))
        if found.tobytes() == wanted * len(pairs):
            return pairs
        is_name: Mask = (found == np.frombuffer(wanted, np.uint8)).all(axis=1)
        return pairs[is_name]

    def column(self, name: str) -> Array:
        pairs = self._named(name)
        if not len(pairs):
            return pa.nulls(self._count, pa.string())
        if len(pairs) == self._count:
            return text(slices(self._raw, self._values_at[pairs], self._value_sizes[pairs]))
        rows = self._pair_rows[pairs]
        starts, sizes = np.zeros((2, self._count), np.int64)
        starts[rows], sizes[rows] = self._values_at[pairs], self._value_sizes[pairs]
        return text(slices(self._raw, starts, sizes), validity_of(sizes > 0))  # no value is empty

    def maps(self, kind: pa.DataType) -> Array:
        names = text(slices(self._raw, self._names_at, self._name_sizes, self._heads))
        values = text(slices(self._raw, self._values_at, self._value_sizes))
        return pa.MapArray.from_arrays(pa.array(self._pair_offsets), names, values, type=kind)


def _prints(heads: Bytes, sizes: Numbers) -> Prints:
    """A number for each name, out of its size and the 16 bytes from its start on; bytes behind the name do not count."""
    words = heads.view(np.uint64)
    # So many bits of the second word are not of the name, and so many of both. A shift by 64 bits and more gives 0.
    both = np.minimum(sizes, _PRINT_BYTES)
    both *= -8
    both += _PRINT_BYTES * 8
    second = words[:, 1] << both.view(np.uint64)
    both -= _WORD_BITS
    first = words[:, 0] << np.maximum(both, 0, out=both).view(np.uint64)
    # Names that differ in their last bytes differ in the upper bits alone, so those are mixed into the lower ones.
    first *= _FIRST
    first ^= first >> np.uint64(32)
    second *= _SECOND
    first += second
    first += sizes.view(np.uint64)
    first *= _SIZE
    return first


def _last_and_first(codes: Numbers, names: int, offsets: Numbers) -> tuple[Numbers, Mask]:
    """Of each pair the number of the last one of its row with its name, and whether it is the first of them. A table has a cell for
    each name of each row, of as many rows as fit a processor's cache; each pair writes its number into its cell."""
    most_rows = max(1, _MOST_CELLS // max(1, names))
    valued, is_first = np.empty(len(codes), np.int64), np.empty(len(codes), bool)
    last, first = np.empty((2, most_rows * names), np.int64)
    for row in range(0, len(offsets) - 1, most_rows):
        of_rows = offsets[row : row + most_rows + 1]
        own = slice(int(of_rows[0]), int(of_rows[-1]))
        cells = np.repeat(np.arange(len(of_rows) - 1) * names, np.diff(of_rows)) + codes[own]
        pairs = np.arange(own.start, own.stop)
        last[cells] = pairs  # of an index that repeats NumPy keeps what was assigned last
        first[cells[::-1]] = pairs[::-1]
        valued[own], is_first[own] = last[cells], first[cells] == pairs
    return valued, is_first


def _taken(heads: Bytes, kept: Mask) -> Bytes:
    return heads.view(f"V{_PRINT_BYTES}")[kept].view(heads.dtype)


def _whole(texts: Texts) -> tuple[Bytes, Offsets]:
    raw, offsets = _joined(texts)
    rows = broken(raw, offsets)
    if not len(rows):
        return raw, offsets
    return _joined(Texts(raw, offsets[:-1].astype(np.int64), np.diff(offsets), False).with_mended(rows))


def _joined(texts: Texts) -> tuple[Bytes, Offsets]:
    spare_at = len(texts.data) - SPARE_BYTES
    blob = slices(texts.data, np.append(texts.starts, spare_at), np.append(texts.sizes, SPARE_BYTES))
    offsets = np.frombuffer(blob.buffers()[1], np.int32)[: len(blob)]
    raw = np.frombuffer(blob.buffers()[2], np.uint8)
    if texts.is_cut:
        raw = raw.copy()
        raw[offsets[1:][offsets[1:] > offsets[:-1]] - 1] = END
    return raw, offsets

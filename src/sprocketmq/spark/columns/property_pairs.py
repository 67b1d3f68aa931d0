# SPDX-License-Identifier: Apache-2.0
"""Properties as columns out of the places of all separators; see ``property_columns``."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import SPARE_BYTES, gathered, slices, text, validity_of
from sprocketmq.spark.columns.property_texts import END, MIDDLE, Texts, broken, is_separator

__all__ = ["PairedProperties"]

Array = Any  # pyarrow has no type information

# Of the table that finds names that repeat: 4 MiB.
_MOST_CELLS: Final = 1 << 20
# Of the items that stand for names, whole words each. Names are mostly shorter.
_ITEM_BYTES: Final = (16, 32)


class PairedProperties:
    """Columns out of all (name, value) pairs of the batch."""

    def __init__(self, texts: Texts) -> None:
        self._count = len(texts.starts)
        self._raw, offsets = _whole(texts)
        content = self._raw[: offsets[-1]]
        separators = np.flatnonzero(is_separator(content))
        last = np.flatnonzero(content[separators] == END)
        ends = separators[last]
        # A pair begins behind the end of the one before. Its middle is its first separator, which is its end if it has no other.
        begins, first = np.zeros_like(ends), np.zeros_like(last)
        begins[1:], first[1:] = ends[:-1] + 1, last[:-1] + 1
        middles = separators[first]
        self._pair_offsets = np.searchsorted(ends, offsets).astype(np.int32)
        counted = (middles > begins) & (ends > middles + 1)
        if not counted.all():
            begins, middles, ends = begins[counted], middles[counted], ends[counted]
            self._keep(counted)
        self._values_at, self._value_sizes = middles + 1, ends - middles - 1
        self._names, self._name_codes = _numbered(self._raw, begins, middles - begins)
        self._merge_repeated()

    def _keep(self, pairs: Any) -> None:
        """Some of the pairs are left; each row has fewer."""
        before = np.zeros(len(pairs) + 1, np.int32)
        np.cumsum(pairs, out=before[1:])
        self._pair_offsets = before[self._pair_offsets]

    @cached_property
    def _pair_rows(self) -> Any:
        return np.repeat(np.arange(self._count), np.diff(self._pair_offsets))

    def _merge_repeated(self) -> None:
        """Of a name that a message has several times the first place counts, and the last value.

        A table has a cell for each name of each row, of as many rows as keep it in a processor's cache. Each pair writes its number into
        its cell; one that does not find it there afterwards was not the last.
        """
        count, names = len(self._name_codes), len(self._names)
        most_rows = max(1, _MOST_CELLS // max(1, names))
        kept, valued = np.ones(count, bool), np.arange(count, dtype=np.int32)
        last, first = np.empty((2, most_rows * names), np.int32)
        has_repeated = False
        for row in range(0, self._count, most_rows):
            offsets = self._pair_offsets[row : row + most_rows + 1]
            begin, end = int(offsets[0]), int(offsets[-1])
            own = slice(begin, end)
            cells = np.repeat(np.arange(len(offsets) - 1) * names, np.diff(offsets)) + self._name_codes[own]
            pairs = np.arange(begin, end, dtype=np.int32)
            last[cells] = pairs  # of an index that repeats NumPy keeps what was assigned last
            valued[own] = last[cells]
            if (valued[own] != pairs).any():
                has_repeated = True
                first[cells[::-1]] = pairs[::-1]
                kept[own] = first[cells] == pairs
        if has_repeated:
            valued = valued[kept]
            self._values_at, self._value_sizes = self._values_at[valued], self._value_sizes[valued]
            self._name_codes = self._name_codes[kept]
            self._keep(kept)

    def column(self, name: str) -> Array:
        if name not in self._names:
            return pa.nulls(self._count, pa.string())
        pairs = np.flatnonzero(self._name_codes == self._names.index(name))
        if len(pairs) == self._count:
            return text(slices(self._raw, self._values_at[pairs], self._value_sizes[pairs]))
        rows = self._pair_rows[pairs]
        starts, sizes = np.zeros((2, self._count), np.int64)
        starts[rows], sizes[rows] = self._values_at[pairs], self._value_sizes[pairs]
        return text(slices(self._raw, starts, sizes), validity_of(sizes > 0))  # no value is empty

    def maps(self, kind: Any) -> Array:
        names = pa.array(self._names, pa.string()).take(pa.array(self._name_codes))
        values = text(slices(self._raw, self._values_at, self._value_sizes))
        return pa.MapArray.from_arrays(pa.array(self._pair_offsets), names, values, type=kind)


def _numbered(raw: Any, begins: Any, sizes: Any) -> tuple[list[str], Any]:
    """The distinct names, and for each pair the number of its name.

    A name with the separator behind it, filled up with zeros, is an item of one size; Arrow numbers those faster than bytes of any size.
    """
    width = next((width for width in _ITEM_BYTES if sizes.max(initial=0) < width), _ITEM_BYTES[-1])
    is_long = sizes >= width
    if not is_long.any():
        found = _items(raw, begins, sizes, width).dictionary_encode()
        return _names_of(found), _codes_of(found)
    short, long = np.flatnonzero(~is_long), np.flatnonzero(is_long)
    names, others = _numbered(raw, begins[short], sizes[short])
    found = slices(raw, begins[long], sizes[long]).dictionary_encode()
    codes = np.empty(len(sizes), np.int32)
    codes[short], codes[long] = others, _codes_of(found) + len(names)
    return names + _names_of(found), codes


def _items(raw: Any, begins: Any, sizes: Any, width: int) -> Array:
    items = gathered(raw, begins, width)
    # Of each size: that many bytes and one more are kept.
    masks = np.tri(width, dtype=np.uint8) * np.uint8(0xFF)
    words = items.view(np.uint64)
    words &= masks.view(f"V{width}").reshape(-1)[sizes].view(np.uint64).reshape(words.shape)
    return pa.Array.from_buffers(pa.binary(width), len(items), [None, pa.py_buffer(items)])


def _names_of(encoded: Array) -> list[str]:
    return [name.partition(bytes((MIDDLE,)))[0].decode() for name in encoded.dictionary.to_pylist()]


def _codes_of(encoded: Array) -> Any:
    return encoded.indices.to_numpy(zero_copy_only=False)


def _whole(texts: Texts) -> tuple[Any, Any]:
    """All texts one after the other, with ``SPARE_BYTES`` behind, and where each begins and ends."""
    raw, offsets = _joined(texts)
    rows = broken(raw, offsets)
    if not len(rows):
        return raw, offsets
    return _joined(Texts(raw, offsets[:-1].astype(np.int64), np.diff(offsets), False).with_mended(rows))


def _joined(texts: Texts) -> tuple[Any, Any]:
    spare_at = len(texts.data) - SPARE_BYTES
    blob = slices(texts.data, np.append(texts.starts, spare_at), np.append(texts.sizes, SPARE_BYTES))
    offsets = np.frombuffer(blob.buffers()[1], np.int32)[: len(blob)]
    raw = np.frombuffer(blob.buffers()[2], np.uint8)
    if texts.is_cut:
        raw = raw.copy()
        raw[offsets[1:][offsets[1:] > offsets[:-1]] - 1] = END
    return raw, offsets

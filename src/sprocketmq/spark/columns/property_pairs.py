"""Properties as columns out of the places of all separators; see ``property_columns``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import SPARE_BYTES, slices, text
from sprocketmq.spark.columns.name_codes import coded
from sprocketmq.spark.columns.property_texts import END, Texts, broken, is_separator

__all__ = ["PairedProperties"]

Array = Any  # pyarrow has no type information

# A table of all names of all rows up to this size finds repeated names fastest.
_MOST_CELLS: Final = 1 << 24


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
        self._name_codes, self._names = coded(self._raw, begins, middles - begins)
        self._merge_repeated()

    def _keep(self, pairs: Any) -> None:
        """Some of the pairs are left; each row has fewer."""
        before = np.zeros(len(pairs) + 1, np.int32)
        np.cumsum(pairs, out=before[1:])
        self._pair_offsets = before[self._pair_offsets]

    def _pair_rows(self) -> Any:
        return np.repeat(np.arange(self._count), np.diff(self._pair_offsets))

    def _merge_repeated(self) -> None:
        """Of a name that a message has several times the first place counts, and the last value."""
        cells = self._pair_rows() * len(self._names) + self._name_codes
        count = self._count * len(self._names)
        if count > _MOST_CELLS:
            encoded = pa.array(cells).dictionary_encode()
            cells, count = encoded.indices.to_numpy(zero_copy_only=False), len(encoded.dictionary)
        pairs = np.arange(len(cells), dtype=np.int32)
        last = np.empty(count, np.int32)
        last[cells] = pairs  # of an index that repeats NumPy keeps what was assigned last
        if (last[cells] == pairs).all():
            return
        first = np.empty(count, np.int32)
        first[cells[::-1]] = pairs[::-1]
        kept = first[cells] == pairs
        valued = last[cells[kept]]
        self._values_at, self._value_sizes = self._values_at[valued], self._value_sizes[valued]
        self._name_codes = self._name_codes[kept]
        self._keep(kept)

    def column(self, name: str) -> Array:
        if name not in self._names:
            return pa.nulls(self._count, pa.string())
        pairs = np.flatnonzero(self._name_codes == self._names.index(name))
        values = text(slices(self._raw, self._values_at[pairs], self._value_sizes[pairs]))
        if len(pairs) == self._count:
            return values
        at = np.full(self._count, -1, np.int32)
        at[self._pair_rows()[pairs]] = np.arange(len(pairs), dtype=np.int32)
        return values.take(pa.array(at, mask=at < 0))

    def maps(self, kind: Any) -> Array:
        names = pa.array(self._names, pa.string()).take(pa.array(self._name_codes))
        values = text(slices(self._raw, self._values_at, self._value_sizes))
        return pa.MapArray.from_arrays(pa.array(self._pair_offsets), names, values, type=kind)


def _whole(texts: Texts) -> tuple[Any, Any]:
    """All texts one after the other, with ``SPARE_BYTES`` behind, and where each begins and ends."""
    blob = slices(texts.data, texts.starts, texts.sizes)
    offsets = np.frombuffer(blob.buffers()[1], np.int32)[: len(blob) + 1]
    raw = np.zeros(int(offsets[-1]) + SPARE_BYTES, np.uint8)
    if offsets[-1]:
        raw[: offsets[-1]] = np.frombuffer(blob.buffers()[2], np.uint8)[: offsets[-1]]
    if texts.is_cut:
        raw[offsets[1:][offsets[1:] > offsets[:-1]] - 1] = END
    rows = broken(raw, offsets)
    return _whole(texts.with_mended(rows)) if len(rows) else (raw, offsets)

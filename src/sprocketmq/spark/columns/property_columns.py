"""The properties of many messages as columns, without a Python object per message.

Properties are ``name \\x01 value \\x02`` runs. Two ways to read the texts of a batch, of which the first that fits counts:

``ShapedProperties``. Producers repeat themselves: the names stay, and values such as keys and ids mostly keep their length. So texts fall
into few *shapes*: size, names, places of the separators. Of one shape the first text is the template; the others are compared with it as
words, names and separators alone. What a value is can then be told by its place, and a column of it is a copy of a block of bytes.

``SplitProperties``. Anything else: the positions of both separators, found over the whole batch at once, are the ends of all names and all
values; names are few, so they are dictionary encoded.

Laws
1. Both give the same columns for every batch that both read (the tests hold them against each other).
2. A shape is believed only when every byte of its texts is accounted for: names and separators are the template's, and there are no more
   separators in the text than in the template.
3. Empty names or values, names that repeat, stray separators, broken UTF-8, very many names: ``OddProperties``; one by one is right then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import SPARE_BYTES, NotText, binary, gathered, slices, strings

__all__ = ["MANY_NAMES", "OddProperties", "PropertyColumns", "property_columns"]

Array = Any  # pyarrow has no type information

_WORD_BYTES: Final = 8
_MOST_SHAPES: Final = 48
# Names of properties in one batch beyond which columns by name no longer pay.
MANY_NAMES: Final = 256
_SEPARATORS_UPTO: Final = np.uint8(2)


class OddProperties(Exception):
    """These texts are to be read one by one."""


class PropertyColumns:
    """What both ways offer."""

    def column(self, name: str) -> Array:
        """One property of all messages, null where a message has it not."""
        raise NotImplementedError

    def maps(self, kind: Any) -> Array:
        """All properties of all messages; ``kind`` is the Arrow type of a map of strings."""
        raise NotImplementedError


def property_columns(data: Any, starts: Any, sizes: Any) -> PropertyColumns:
    """The texts at ``starts`` of ``data``, behind whose last one ``SPARE_BYTES`` follow.

    Raises:
        OddProperties: law 3; or later, by the columns, for values that are not UTF-8.
    """
    shapes = _shapes(data, starts, sizes)
    return SplitProperties(data, starts, sizes) if shapes is None else ShapedProperties(len(starts), shapes)


# -- shapes --------------------------------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """Messages whose texts look alike. ``rows`` is None for all of the batch; ``texts`` has a row of bytes for each."""

    rows: Any
    texts: Any
    names: tuple[bytes, ...]
    values: tuple[tuple[int, int], ...]  # where in the text each value begins and ends


def _shapes(data: Any, starts: Any, sizes: Any) -> list[_Shape] | None:
    """None: there are too many, or something is odd."""
    if not len(starts):
        return []
    if (sizes == sizes[0]).all():
        return _of_one_size(data, starts, int(sizes[0]), None, _MOST_SHAPES)
    distinct = np.flatnonzero(np.bincount(sizes))
    if len(distinct) > _MOST_SHAPES:
        return None
    found: list[_Shape] = []
    for size in distinct.tolist():
        rows = np.flatnonzero(sizes == size)
        some = _of_one_size(data, starts[rows], size, rows, _MOST_SHAPES - len(found))
        if some is None:
            return None
        found += some
    return found


def _of_one_size(data: Any, starts: Any, size: int, rows: Any, most: int) -> list[_Shape] | None:
    if not size:
        return [_Shape(rows, np.empty((len(starts), 0), np.uint8), (), ())]
    width = -(-size // _WORD_BYTES) * _WORD_BYTES
    texts = gathered(data, starts, width)
    found: list[_Shape] = []
    while len(texts):
        layout = _layout(texts[0, :size])
        if layout is None or len(found) == most:
            return None
        names, values = layout
        same = _like_the_first(texts, size, values)
        if same is None:
            found.append(_Shape(rows, texts, names, values))
            break
        if rows is None:
            rows = np.arange(len(texts))
        found.append(_Shape(rows[same], texts[same], names, values))
        rows, texts = rows[~same], texts[~same]
    return found


def _layout(template: Any) -> tuple[tuple[bytes, ...], tuple[tuple[int, int], ...]] | None:
    """Names, and places of values; None for anything unusual."""
    whole = template.tobytes()
    if whole[-1:] != b"\x02" or b"\0" in whole:
        return None
    names: list[bytes] = []
    values: list[tuple[int, int]] = []
    at = 0
    for pair in whole[:-1].split(b"\x02"):
        name, separator, value = pair.partition(b"\x01")
        if not name or not value or not separator or b"\x01" in value:
            return None
        names.append(name)
        values.append((at + len(name) + 1, at + len(pair)))
        at += len(pair) + 1
    return (tuple(names), tuple(values)) if len(set(names)) == len(names) else None


def _like_the_first(texts: Any, size: int, values: Sequence[tuple[int, int]]) -> Any:
    """Which texts have the first one's shape (law 2); None when all of them have.

    Equal to it in every byte outside of values, separators among them, and with as many separators: so no value holds one.
    """
    fixed = np.zeros(texts.shape[1], np.uint8)
    fixed[:size] = 0xFF
    for begin, end in values:
        fixed[begin:end] = 0
    words = texts.view(np.uint64)
    differing = (words ^ words[0]) & fixed.view(np.uint64)
    # Zeros are counted, too: one comparison less for all, and who stores zeros is read the other way.
    separators = np.ascontiguousarray(texts[:, :size]) <= _SEPARATORS_UPTO
    count = 2 * len(values)
    if np.count_nonzero(separators) == count * len(texts) and not differing.any():
        return None
    return (np.count_nonzero(separators, axis=1) == count) & ~differing.any(axis=1)


class ShapedProperties(PropertyColumns):
    """Columns out of shapes."""

    def __init__(self, count: int, shapes: list[_Shape]) -> None:
        self._count, self._shapes = count, shapes

    def column(self, name: str) -> Array:
        wanted = name.encode()
        parts, valid = [], 0
        for shape in self._shapes:
            if wanted in shape.names:
                begin, end = shape.values[shape.names.index(wanted)]
                block = _blocks(shape.texts, begin, end - begin).copy()
                parts.append((shape.rows, block.view(np.uint8).reshape(len(block), end - begin)))
                valid += len(shape.texts)
        if not valid:
            return pa.nulls(self._count, pa.string())
        offsets, laid = _laid_out(self._count, parts)
        validity = None
        if valid < self._count:
            known = np.zeros(self._count, bool)
            for rows, _ in parts:
                known[rows] = True
            validity = pa.py_buffer(np.packbits(known, bitorder="little"))
        return _text(binary(offsets, laid, validity))

    def maps(self, kind: Any) -> Array:
        shapes = self._shapes
        pairs = np.zeros(self._count, np.int32)
        for shape in shapes:
            pairs[_all_or(shape.rows)] = len(shape.names)
        pair_offsets = _offsets(pairs)
        names = self._strings(
            [(shape.rows, _repeated(shape)) for shape in shapes], _name_sizes_of(shapes), pair_offsets
        )
        values = self._strings(
            [(shape.rows, _side_by_side(shape)) for shape in shapes], _value_sizes_of(shapes), pair_offsets
        )
        return pa.MapArray.from_arrays(pa.array(pair_offsets), names, values, type=kind)

    def _strings(self, parts: list[tuple[Any, Any]], sizes: list[list[int]], pair_offsets: Any) -> Array:
        """The strings of all pairs: of each row those of ``parts`` one after the other, ``sizes`` long each, by shape."""
        row_offsets, laid = _laid_out(self._count, parts)
        begins = [
            (rows, row_offsets[:-1][_all_or(rows)][:, None] + _offsets(np.array(own, np.int32))[:-1])
            for (rows, _), own in zip(parts, sizes, strict=True)
        ]
        # Where each string begins, four bytes for each pair: laid out as the texts are, for rows have differing numbers of pairs.
        _, begin_bytes = _laid_out(self._count, [(rows, _as_bytes(part.astype(np.int32))) for rows, part in begins])
        offsets = np.empty(int(pair_offsets[-1]) + 1, np.int32)
        offsets[:-1] = begin_bytes.view(np.int32)
        offsets[-1] = row_offsets[-1]
        return _text(binary(offsets, laid))


def _name_sizes_of(shapes: list[_Shape]) -> list[list[int]]:
    return [[len(name) for name in shape.names] for shape in shapes]


def _value_sizes_of(shapes: list[_Shape]) -> list[list[int]]:
    return [[end - begin for begin, end in shape.values] for shape in shapes]


def _repeated(shape: _Shape) -> Any:
    """The names one after the other, once for each message."""
    names = np.frombuffer(b"".join(shape.names), np.uint8)
    return np.broadcast_to(names, (len(shape.texts), len(names)))


def _side_by_side(shape: _Shape) -> Any:
    """The values one after the other."""
    out = np.empty((len(shape.texts), sum(end - begin for begin, end in shape.values)), np.uint8)
    at = 0
    for begin, end in shape.values:
        _blocks(out, at, end - begin)[...] = _blocks(shape.texts, begin, end - begin)
        at += end - begin
    return out


def _blocks(table: Any, begin: int, width: int) -> Any:
    """Some neighbouring columns of a table of bytes, each row of them as one item: copied by one memcpy, not byte by byte."""
    return np.ndarray((len(table),), f"V{width}", table, begin, (table.shape[1],))


def _laid_out(count: int, parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Blocks of bytes, each row of which belongs to a message, in the order of messages: offsets, and the bytes."""
    if len(parts) == 1 and parts[0][0] is None:
        block = np.ascontiguousarray(parts[0][1])
        return np.arange(count + 1, dtype=np.int32) * np.int32(block.shape[1]), block.reshape(-1)
    widths = np.zeros(count, np.int32)
    for rows, block in parts:
        widths[rows] = block.shape[1]
    offsets = _offsets(widths)
    out = np.empty(int(offsets[-1]), np.uint8)
    for rows, block in parts:
        width = block.shape[1]
        if width and len(block):
            places = np.ndarray((len(out) - width + 1,), f"V{width}", out, strides=(1,))
            places[offsets[rows]] = np.ascontiguousarray(block).view(f"V{width}").reshape(-1)
    return offsets, out


def _all_or(rows: Any) -> Any:
    return slice(None) if rows is None else rows


def _as_bytes(numbers: Any) -> Any:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)


def _offsets(sizes: Any) -> Any:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _text(array: Array) -> Array:
    """Raises OddProperties where it is not UTF-8: one by one replaces what is broken, as Java does."""
    try:
        return strings(array)
    except NotText as error:
        raise OddProperties from error


# -- separators ----------------------------------------------------------------------------------------------------------------------


class SplitProperties(PropertyColumns):
    """Columns out of all (name, value) pairs of the batch."""

    def __init__(self, data: Any, starts: Any, sizes: Any) -> None:
        self._count = len(starts)
        blob = slices(data, starts, sizes)
        offsets = np.frombuffer(blob.buffers()[1], np.int32)[: self._count + 1]
        raw = np.zeros(int(offsets[-1]) + SPARE_BYTES, np.uint8)
        if offsets[-1]:
            raw[: offsets[-1]] = np.frombuffer(blob.buffers()[2], np.uint8)[: offsets[-1]]
        whole = raw[: offsets[-1]]
        middles, ends = np.flatnonzero(whole == 1), np.flatnonzero(whole == 2)
        filled = offsets[1:] > offsets[:-1]
        if len(middles) != len(ends) or (whole[offsets[1:][filled] - 1] != 2).any():
            raise OddProperties
        names_at = np.empty_like(ends)
        if len(ends):
            names_at[0] = 0
            names_at[1:] = ends[:-1] + 1
        if (middles <= names_at).any() or (ends <= middles + 1).any():
            raise OddProperties
        self._pair_offsets = np.searchsorted(ends, offsets).astype(np.int32)
        self._pair_rows = np.repeat(np.arange(self._count, dtype=np.int32), np.diff(self._pair_offsets))
        self._raw, self._values_at, self._value_sizes = raw, middles + 1, ends - middles - 1
        self._encode_names(slices(raw, names_at, middles - names_at))

    def _encode_names(self, names: Array) -> None:
        encoded = names.dictionary_encode()
        self._name_codes = encoded.indices.to_numpy(zero_copy_only=False)
        try:
            self._names: list[str] = [name.decode() for name in encoded.dictionary.to_pylist()]
        except UnicodeDecodeError as error:
            raise OddProperties from error
        if len(self._names) > MANY_NAMES:
            raise OddProperties
        self._pair_names = pa.array(self._names, pa.string()).take(encoded.indices)
        # A map that holds a name twice is not what Java shows (the last one counts).
        seen = np.zeros(self._count * len(self._names), bool)
        seen[self._pair_rows.astype(np.int64) * len(self._names) + self._name_codes] = True
        if np.count_nonzero(seen) != len(self._name_codes):
            raise OddProperties

    def column(self, name: str) -> Array:
        if name not in self._names:
            return pa.nulls(self._count, pa.string())
        pairs = np.flatnonzero(self._name_codes == self._names.index(name))
        values = _text(slices(self._raw, self._values_at[pairs], self._value_sizes[pairs]))
        if len(pairs) == self._count:
            return values
        at = np.full(self._count, -1, np.int32)
        at[self._pair_rows[pairs]] = np.arange(len(pairs), dtype=np.int32)
        return values.take(pa.array(at, mask=at < 0))

    def maps(self, kind: Any) -> Array:
        values = _text(slices(self._raw, self._values_at, self._value_sizes))
        return pa.MapArray.from_arrays(pa.array(self._pair_offsets), self._pair_names, values, type=kind)

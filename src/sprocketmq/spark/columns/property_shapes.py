# SPDX-License-Identifier: Apache-2.0
"""Properties as columns out of few shapes of texts; see ``property_columns``.

Laws
1. A shape is believed only when every byte of its texts is accounted for: names and separators are the template's, and there are no more
   separators in the text than in the template.
2. Every text has a shape. There may be too many of them: ``shapes_of`` gives up once it has looked at each text a few times.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import NOT_ASCII, binary, gathered, laid_out, offsets_of, text, validity_of
from sprocketmq.spark.columns.property_texts import END, MIDDLE, Texts, broken, is_separator

Array = Any  # pyarrow has no type information

_WORD_BYTES: Final = 8
_MOST_SHAPES: Final = 24
# How often a text is compared with a template, on average, before the search ends.
_MOST_LOOKS: Final = 4
_SEPARATORS_UPTO: Final = np.uint8(END)
_SIZE: Final = np.int32
_FILL: Final = ord(" ")  # behind a text, up to a whole word


class _Layout(NamedTuple):
    """Of one text: what counts as its pairs, and what texts of the same shape have in common."""

    names: tuple[bytes, ...]
    values: tuple[tuple[int, int], ...]  # where in the text each value begins and ends
    fixed: Any  # 0xFF where a byte is the template's in all texts


class Shape(NamedTuple):
    """Messages whose texts look alike. ``rows`` is None for all of the batch; ``texts`` has a row of bytes for each."""

    rows: Any
    texts: Any
    names: tuple[bytes, ...]
    values: tuple[tuple[int, int], ...]


def shapes_of(texts: Texts) -> list[Shape] | None:
    """None: there are too many."""
    search = _Search(len(texts.starts))
    return search.found if search.goes_through(texts, None) else None


class _Search:
    """Looks for the shapes of texts, one size after the other."""

    def __init__(self, count: int) -> None:
        self.found: list[Shape] = []
        self._looks = _MOST_LOOKS * count

    def goes_through(self, texts: Texts, numbers: Any) -> bool:
        """False: there are too many shapes. ``numbers`` are the rows of ``texts`` in the batch, None where they are all of it."""
        sizes = texts.sizes
        if not len(sizes):
            return True
        if (sizes == sizes[0]).all():
            return self._of_one_size(texts, int(sizes[0]), None, numbers)
        distinct = np.flatnonzero(np.bincount(sizes))
        if len(distinct) > _MOST_SHAPES:
            return False
        return all(self._of_one_size(texts, size, np.flatnonzero(sizes == size), numbers) for size in distinct.tolist())

    def _of_one_size(self, texts: Texts, size: int, own: Any, numbers: Any) -> bool:
        """``own``: the rows of ``texts`` that have this size, None for all."""
        starts = texts.starts if own is None else texts.starts[own]
        rows = own if numbers is None else numbers if own is None else numbers[own]
        if not size:
            self.found.append(Shape(rows, np.empty((len(starts), 0), np.uint8), (), ()))
            return True
        block = gathered(texts.data, starts, -(-size // _WORD_BYTES) * _WORD_BYTES)
        block[:, size:] = _FILL
        if texts.is_cut:
            block[:, size - 1] = END
        odd = _broken_rows(block)
        if not len(odd):
            return self._split(block, size, rows)
        whole = np.ones(len(block), bool)
        whole[odd] = False
        rows = np.arange(len(block)) if rows is None else rows
        mended = texts.mended(odd if own is None else own[odd])
        return self._split(block[whole], size, rows[whole]) and self.goes_through(mended, rows[odd])

    def _split(self, block: Any, size: int, rows: Any) -> bool:
        """Texts of one size by their shapes."""
        while len(block):
            self._looks -= len(block)
            if len(self.found) == _MOST_SHAPES or self._looks < 0:
                return False
            layout = _layout(block[0], size)
            same = _like_the_first(block, layout.fixed)
            if same is None:
                self.found.append(Shape(rows, block, layout.names, layout.values))
                return True
            if rows is None:
                rows = np.arange(len(block))
            self.found.append(Shape(rows[same], block[same], layout.names, layout.values))
            rows, block = rows[~same], block[~same]
        return True


def _broken_rows(block: Any) -> Any:
    """Texts that are not UTF-8."""
    if block.max() < NOT_ASCII:
        return ()
    return broken(block.reshape(-1), np.arange(len(block) + 1, dtype=np.int32) * np.int32(block.shape[1]))


def _layout(template: Any, size: int) -> _Layout:
    whole = template[:size].tobytes()
    pairs: dict[bytes, tuple[int, int]] = {}
    fixed = np.where(is_separator(template), np.uint8(0xFF), np.uint8(0))
    at = 0
    for pair in whole[:-1].split(bytes((END,))):
        name, _, value = pair.partition(bytes((MIDDLE,)))
        if name and value:
            pairs[name] = (at + len(name) + 1, at + len(pair))  # the first place, the last value
            fixed[at : at + len(name)] = 0xFF
        at += len(pair) + 1
    return _Layout(tuple(pairs), tuple(pairs.values()), fixed)


def _like_the_first(texts: Any, fixed: Any) -> Any:
    """Which texts have the first one's shape (law 1); None when all of them have. Equal to it in every byte outside of values,
    separators among them, and with as many separators: so no value holds another one."""
    words = texts.view(np.uint64)
    differing = words ^ words[0]
    differing &= fixed.view(np.uint64)
    # Zeros are counted, too, unless the first text has some: one pass less for nearly all.
    separators = texts <= _SEPARATORS_UPTO if texts[0].all() else is_separator(texts)
    count = np.count_nonzero(separators[0])
    if np.count_nonzero(separators) == count * len(texts) and not differing.any():
        return None
    places = separators.view(np.uint64)
    places ^= places[0]
    differing |= places
    return ~differing.any(axis=1)


class ShapedProperties:
    """Columns out of shapes."""

    def __init__(self, count: int, shapes: list[Shape]) -> None:
        self._count, self._shapes = count, shapes

    def column(self, name: str) -> Array:
        wanted = name.encode()
        parts, valid = [], 0
        for shape in self._shapes:
            if wanted in shape.names:
                begin, end = shape.values[shape.names.index(wanted)]
                parts.append((shape.rows, shape.texts[:, begin:end]))
                valid += len(shape.texts)
        if not valid:
            return pa.nulls(self._count, pa.string())
        offsets, laid = laid_out(self._count, parts)
        validity = None
        if valid < self._count:
            known = np.zeros(self._count, bool)
            for rows, _ in parts:
                known[rows] = True
            validity = validity_of(known)
        return text(binary(offsets, laid, validity))

    def maps(self, kind: Any) -> Array:
        shapes = self._shapes
        pairs = np.zeros(self._count, np.int32)
        for shape in shapes:
            pairs[_all_or(shape.rows)] = len(shape.names)
        pair_offsets = offsets_of(pairs)
        names = self._strings([(shape.rows, _repeated(shape)) for shape in shapes], _name_sizes_of(shapes))
        values = self._strings([(shape.rows, _side_by_side(shape)) for shape in shapes], _value_sizes_of(shapes))
        return pa.MapArray.from_arrays(pa.array(pair_offsets), names, values, type=kind)

    def _strings(self, parts: list[tuple[Any, Any]], sizes: list[list[int]]) -> Array:
        """The strings of all pairs: of each row those of ``parts`` one after the other, ``sizes`` long each, by shape."""
        _, laid = laid_out(self._count, parts)
        # The size of each string, four bytes for each pair: laid out as the texts are, for rows have differing numbers of pairs.
        own_sizes = [(rows, _in_each_row(_SIZE, own, block)) for (rows, block), own in zip(parts, sizes, strict=True)]
        _, size_bytes = laid_out(self._count, own_sizes)
        return text(binary(offsets_of(size_bytes.view(_SIZE)), laid))


def _name_sizes_of(shapes: list[Shape]) -> list[list[int]]:
    return [[len(name) for name in shape.names] for shape in shapes]


def _value_sizes_of(shapes: list[Shape]) -> list[list[int]]:
    return [[end - begin for begin, end in shape.values] for shape in shapes]


def _repeated(shape: Shape) -> Any:
    """The names one after the other, once for each message."""
    return _in_each_row(np.uint8, list(b"".join(shape.names)), shape.texts)


def _in_each_row(kind: Any, numbers: list[int], table: Any) -> Any:
    """The bytes of ``numbers``, once for each row of ``table``."""
    own = np.array(numbers, kind).view(np.uint8)
    return np.broadcast_to(own, (len(table), len(own)))


def _side_by_side(shape: Shape) -> Any:
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


def _all_or(rows: Any) -> Any:
    return slice(None) if rows is None else rows

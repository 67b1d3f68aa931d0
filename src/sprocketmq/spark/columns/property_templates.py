# SPDX-License-Identifier: Apache-2.0
"""Properties as columns, for texts that are alike; see ``property_columns``.

A template counts for a text only if it accounts for every byte: names and separators are the template's, and there are no more separators
in the text than in the template.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from sprocketmq.spark.columns.byte_columns import (
    NOT_ASCII,
    Array,
    Bytes,
    Mask,
    Numbers,
    Rows,
    binary,
    gathered,
    laid_out,
    offsets_of,
    text,
    validity_of,
)
from sprocketmq.spark.columns.property_texts import END, MIDDLE, Texts, broken, is_separator

_WORD_BYTES: Final = 8
_MOST_TEMPLATES: Final = 24
# How often a text is compared with a template, on average, before the search ends.
_MOST_COMPARISONS: Final = 4
_SEPARATORS_UPTO: Final = np.uint8(END)
_SIZE: Final = np.int32
_FILL: Final = ord(" ")  # behind a text, up to a whole word
_ALL: Final = slice(None)


class Template(NamedTuple):
    """``values``: where in the text the value of each name begins and ends. ``fixed``: 0xFF where all texts have the same byte."""

    names: tuple[bytes, ...]
    values: tuple[tuple[int, int], ...]
    fixed: Bytes


class AlikeTexts(NamedTuple):
    """The texts of one template, a row of bytes each, and of which rows of the batch they are."""

    rows: Rows
    texts: Bytes
    template: Template


def alike_texts(texts: Texts) -> list[AlikeTexts] | None:
    search = _TemplateSearch(len(texts.starts))
    return search.found if search.finds_all(texts, _ALL) else None


class _TemplateSearch:
    """Finds the templates of texts, one size after the other. Methods return False if there are too many templates."""

    def __init__(self, count: int) -> None:
        self.found: list[AlikeTexts] = []
        self._comparisons = _MOST_COMPARISONS * count

    def finds_all(self, texts: Texts, rows: Numbers | slice) -> bool:
        sizes = texts.sizes
        if not len(sizes):
            return True
        if (sizes == sizes[0]).all():
            return self._of_one_size(texts, int(sizes[0]), _ALL, rows)
        distinct = np.flatnonzero(np.bincount(sizes))
        if len(distinct) > _MOST_TEMPLATES:
            return False
        return all(self._of_one_size(texts, size, np.flatnonzero(sizes == size), rows) for size in distinct.tolist())

    def _of_one_size(self, texts: Texts, size: int, own: Numbers | slice, of_batch: Numbers | slice) -> bool:
        starts = texts.starts[own]
        rows = own if isinstance(of_batch, slice) else of_batch[own]
        if not size:
            nothing = np.empty((len(starts), 0), np.uint8)
            self.found.append(AlikeTexts(rows, nothing, Template((), (), nothing)))
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
        numbers = np.arange(len(block)) if isinstance(rows, slice) else rows
        mended = texts.mended(odd if isinstance(own, slice) else own[odd])
        return self._split(block[whole], size, numbers[whole]) and self.finds_all(mended, numbers[odd])

    def _split(self, block: Bytes, size: int, rows: Numbers | slice) -> bool:
        while len(block):
            self._comparisons -= len(block)
            if len(self.found) == _MOST_TEMPLATES or self._comparisons < 0:
                return False
            template = _template(block[0], size)
            same = _like_the_first(block, template.fixed)
            if same is None:
                self.found.append(AlikeTexts(rows, block, template))
                return True
            numbers = np.arange(len(block)) if isinstance(rows, slice) else rows
            self.found.append(AlikeTexts(numbers[same], block[same], template))
            rows, block = numbers[~same], block[~same]
        return True


def _broken_rows(block: Bytes) -> Numbers:
    if block.max() < NOT_ASCII:
        return np.empty(0, np.int64)
    return broken(block.reshape(-1), np.arange(len(block) + 1, dtype=np.int32) * np.int32(block.shape[1]))


def _template(first: Bytes, size: int) -> Template:
    pairs: dict[bytes, tuple[int, int]] = {}
    fixed = np.where(is_separator(first), np.uint8(0xFF), np.uint8(0))
    at = 0
    for pair in first[: size - 1].tobytes().split(bytes((END,))):
        name, _, value = pair.partition(bytes((MIDDLE,)))
        if name and value:
            pairs[name] = (at + len(name) + 1, at + len(pair))  # the first place, the last value
            fixed[at : at + len(name)] = 0xFF
        at += len(pair) + 1
    return Template(tuple(pairs), tuple(pairs.values()), fixed)


def _like_the_first(texts: Bytes, fixed: Bytes) -> Mask | None:
    """Which texts have the first one's template; None when all of them have. Equal to it in every byte outside of values,
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
    same: Mask = ~differing.any(axis=1)
    return same


class PropertiesByTemplate:
    def __init__(self, count: int, alike: list[AlikeTexts]) -> None:
        self._count, self._alike = count, alike

    def column(self, name: str) -> Array:
        wanted = name.encode()
        parts: list[tuple[Rows, Bytes]] = []
        valid = 0
        for rows, texts, template in self._alike:
            if wanted in template.names:
                begin, end = template.values[template.names.index(wanted)]
                parts.append((rows, texts[:, begin:end]))
                valid += len(texts)
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

    def maps(self, kind: pa.DataType) -> Array:
        pairs = np.zeros(self._count, np.int32)
        names: list[tuple[Rows, Bytes, list[int]]] = []
        values: list[tuple[Rows, Bytes, list[int]]] = []
        for rows, texts, template in self._alike:
            pairs[rows] = len(template.names)
            repeated = _in_each_row(np.uint8, list(b"".join(template.names)), texts)
            names.append((rows, repeated, [len(name) for name in template.names]))
            sizes = [end - begin for begin, end in template.values]
            values.append((rows, _side_by_side(texts, template.values), sizes))
        return pa.MapArray.from_arrays(
            pa.array(offsets_of(pairs)), self._strings(names), self._strings(values), type=kind
        )

    def _strings(self, parts: list[tuple[Rows, Bytes, list[int]]]) -> Array:
        _, laid = laid_out(self._count, [(rows, block) for rows, block, _ in parts])
        # The size of each string, four bytes for each pair: laid out as the texts are, for rows have differing numbers of pairs.
        own_sizes = [(rows, _in_each_row(_SIZE, sizes, block)) for rows, block, sizes in parts]
        _, size_bytes = laid_out(self._count, own_sizes)
        return text(binary(offsets_of(size_bytes.view(_SIZE)), laid))


def _in_each_row(kind: type[np.integer], numbers: list[int], table: Bytes) -> Bytes:
    own = np.array(numbers, kind).view(np.uint8)
    return np.broadcast_to(own, (len(table), len(own)))


def _side_by_side(texts: Bytes, values: tuple[tuple[int, int], ...]) -> Bytes:
    """The values one after the other, each row of a value copied as one item: by one memcpy, not byte by byte."""
    out = np.empty((len(texts), sum(end - begin for begin, end in values)), np.uint8)
    at = 0
    for begin, end in values:
        kind, count = f"V{end - begin}", (len(texts),)
        own = np.ndarray(count, kind, out, at, (out.shape[1],))
        own[...] = np.ndarray(count, kind, texts, begin, (texts.shape[1],))
        at += end - begin
    return out

# SPDX-License-Identifier: Apache-2.0
"""Values of properties of many records at once, and their hashes, without an object for each record.

The property texts of all records are put one behind the other, each with a separator behind it, so that a separator ends each pair.

The first eight octets of a pair are one number, so a search for a name is one comparison of a column, or two. Hashes of pieces come
from one running sum: with weights of falling powers of 31, the difference of two sums is the hash of what lies between them, times
a known power; 31 has an inverse modulo 2^32. Texts that are not ASCII are read apart, as UTF-16, the characters that Java's
String.hashCode counts.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sprocketmq.store.log.record_batch import RecordBatch, rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Hashes = NDArray[np.uint32]

_UTF_16 = f"utf-16-{sys.byteorder[0]}e"  # without a byte order mark
_PAIR_END, _SPACE = 2, 0x20
_WORD_BYTES = 8  # octets that are compared at once: eight letters, or four of UTF-16
_WORD_TYPE = np.dtype(np.uint64)
_TEXT_BYTES_AT_ONCE = 1 << 17  # the texts of a thousand ordinary messages, so that they are read at once
_MOST_UNITS = _TEXT_BYTES_AT_ONCE + _WORD_BYTES  # with the padding; the text of one record is shorter
_INVERSE = pow(31, -1, 1 << 32)
_PADDING = bytes(_WORD_BYTES)  # behind a text, so that a word can be read at each of its positions
_spare_memory: list[NDArray[np.uint32]] = []


class Values(NamedTuple):
    """Pieces of the texts, ascending: the record of each, where it begins, and where it ends."""

    records: Ints
    begins: Ints
    ends: Ints


class PropertyColumns:
    """The texts of some records of a batch, whose indexes are ``records``. ``text``: all of them, each with a separator behind it,
    which ``lengths`` count. ``memory``: for the sums of hashes."""

    def __init__(self, records: Ints, text: bytes, lengths: Ints, memory: Hashes) -> None:
        encoding = "ascii"
        units: NDArray[Any] = np.frombuffer(text + _PADDING, np.uint8)
        ends = np.flatnonzero(units == _PAIR_END)
        last_pairs = ends.searchsorted(lengths.cumsum() - 1)
        if not text.isascii():
            encoding = _UTF_16
            units = np.frombuffer((text + _PADDING).decode("utf-8", "replace").encode(encoding), np.uint16)
            ends = np.flatnonzero(units == _PAIR_END)  # as many as before, in the same order
        self._units, self._ends = units, ends
        self._begins = np.empty_like(ends)
        self._begins[0], self._begins[1:] = 0, ends[:-1] + 1
        last_pairs[1:] -= last_pairs[:-1].copy()  # from here on: how many pairs each record has
        last_pairs[0] += 1
        self._records = records.repeat(last_pairs)
        self._encoding: Final = encoding
        self._words: NDArray[Any] = np.ndarray((len(units) - len(_PADDING),), _WORD_TYPE, units, 0, (units.itemsize,))
        self._letters = self._words[self._begins]
        self._memory = memory
        self._sums: Hashes | None = None

    def values(self, name: str) -> Values:
        """What ``properties.get_property`` finds, for those records that have a value that is not empty."""
        (mask, letters), *others = _name_words(name, self._encoding)
        found = np.flatnonzero(self._letters & mask == letters)
        begins, ends = self._begins[found], self._ends[found]
        fits = ends - begins > len(name) + 1
        if not fits.all():
            found, begins, ends = found[fits], begins[fits], ends[fits]
        for place, (mask, letters) in enumerate(others, 1):
            fits = self._words[begins + place * (_WORD_BYTES // self._units.itemsize)] & mask == letters
            if not fits.all():
                found, begins, ends = found[fits], begins[fits], ends[fits]
        records = self._records[found]
        again = records[1:] == records[:-1]
        if again.any():  # of a name that comes twice the last value counts
            last = np.append(~again, True)
            records, begins, ends = records[last], begins[last], ends[last]
        return Values(records, begins + (len(name) + 1), ends)

    def split(self, values: Values) -> Values:
        if not len(values.begins):
            return values
        spaces = np.flatnonzero(self._units == _SPACE)
        if not len(spaces):
            return values
        # What stands between two spaces outside of the values, or in front of one, has no length.
        begins, ends = np.append(values.begins, spaces + 1), np.append(values.ends, spaces)
        begins.sort()
        ends.sort()
        kept = ends > begins
        begins, ends = begins[kept], ends[kept]
        return Values(values.records[values.begins.searchsorted(begins, "right") - 1], begins, ends)

    def hashes(self, begins: Ints, ends: Ints, before: Hashes) -> Hashes:
        """``hashing.java_hash`` of each piece, not yet signed, behind other texts that have the hashes ``before``."""
        if self._sums is None:
            count = len(self._units)
            self._memory[0] = 0
            self._sums = self._memory[1 : count + 1]
            np.multiply(self._units, _powers(_INVERSE)[:count], out=self._sums, casting="unsafe")
            np.add.accumulate(self._sums, out=self._sums, dtype=np.uint32)
        powers = _powers(31)
        hashes: Hashes = self._memory[ends] - self._memory[begins]
        hashes *= powers[ends - 1]
        hashes += before * powers[ends - begins]
        return hashes


class PropertyTexts:
    """The property texts of a batch; ``spaces``: how many spaces each has."""

    def __init__(self, batch: RecordBatch) -> None:
        lengths, places = batch.properties_bytes, batch.properties_at
        self._ends = (lengths + 1).cumsum()  # each with a separator behind it
        if len(batch) and (lengths == lengths[0]).all():
            octets = np.full((len(batch), int(lengths[0]) + 1), _PAIR_END, np.uint8)
            octets[:, :-1] = rows(batch.data, places, int(lengths[0]))
            self._text = octets.tobytes()
        else:
            data, ends = batch.data, (places + lengths).tolist()
            parts = [bytes(data[at:end]) for at, end in zip(places.tolist(), ends, strict=True)]
            self._text = b"\x02".join([*parts, b""])
        self.spaces = np.zeros(len(batch), np.int64)
        if b" " in self._text:
            spaces = np.flatnonzero(np.frombuffer(self._text, np.uint8) == _SPACE)
            self.spaces = np.bincount(self._ends.searchsorted(spaces, "right"), minlength=len(batch))

    def columns(self, count: int) -> Iterator[PropertyColumns]:
        """Of the first ``count`` records: ASCII apart from other texts, and not too many bytes at once. Take the hashes of each
        before the next is requested, because they share their memory."""
        # New pages for each batch would cost more than the sums.
        try:
            memory = _spare_memory.pop()
        except IndexError:  # asked by one call: brokers in other threads take some, too
            memory = np.empty(_MOST_UNITS + 1, np.uint32)
        ends, first, begin = self._ends, 0, 0
        while first < count:
            last = min(count, max(first + 1, int(ends.searchsorted(begin + _TEXT_BYTES_AT_ONCE, "right"))))
            text, records, lengths = (
                self._text[begin : ends[last - 1]],
                np.arange(first, last),
                np.diff(ends[first:last], prepend=begin),
            )
            if text.isascii():
                yield PropertyColumns(records, text, lengths, memory)
            else:
                texts = [
                    self._text[end - length : end]
                    for end, length in zip(ends[first:last].tolist(), lengths.tolist(), strict=True)
                ]
                is_ascii = np.fromiter(map(bytes.isascii, texts), bool, len(texts))
                for kind in (is_ascii, ~is_ascii):
                    if kind.any():
                        yield PropertyColumns(
                            records[kind], b"".join(itertools.compress(texts, kind)), lengths[kind], memory
                        )
            first, begin = last, int(ends[last - 1])
        _spare_memory.append(memory)


@lru_cache(maxsize=32)
def _name_words(name: str, encoding: str) -> list[tuple[np.uint64, np.uint64]]:
    """What a pair begins with that has this name, word by word: the octets that count, and their value."""
    octets = f"{name}\x01".encode(encoding)
    parts = [octets[at : at + _WORD_BYTES] for at in range(0, len(octets), _WORD_BYTES)]
    masks = [b"\xff" * len(part) for part in parts]
    return [(np.uint64(_number(mask)), np.uint64(_number(part))) for mask, part in zip(masks, parts, strict=True)]


def _number(octets: bytes) -> int:
    return int.from_bytes(octets.ljust(_WORD_BYTES, b"\0"), sys.byteorder)


@lru_cache(maxsize=2)
def _powers(base: int) -> Hashes:
    powers = np.full(_MOST_UNITS, base, np.uint32)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers, dtype=np.uint32)
    return powers

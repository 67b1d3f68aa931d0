# SPDX-License-Identifier: Apache-2.0
"""The messages of a batch as columns, and the records that the broker stores for them.

The bytes behind the head of an element are copied unchanged, in two pieces. The heads of the records differ in a few numbers only, which
NumPy writes for all at once. Elements are split one after the other, for a quarter of a microsecond each; if all have the same lengths,
which three comparisons of columns show, NumPy splits them for half of that.

1. ``of`` accepts the bodies that ``split_batch`` accepts, except an empty one, finds the same elements, and refuses the others with the
   same error.
2. ``records`` returns, for each element, what ``encode_record`` makes of its parts; ``tags_codes`` what ``tags_code`` returns for its
   TAGS.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sprocketmq.errors import ProtocolError
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.batch import ELEMENT, split_batch
from sprocketmq.wire.records.checksum import crc32
from sprocketmq.wire.records.properties import MAX_PROPERTIES_BYTES, TAGS, get_property
from sprocketmq.wire.records.record_layout import (
    BODY_CRC_MASK,
    HOSTS_V6,
    LAYOUTS,
    PROPERTIES_LENGTH,
    PROPERTIES_LENGTH_TYPE,
    RECORD,
    V6_SHIFT,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_HEAD_BYTES: Final = ELEMENT.size
_LENGTH_BYTES: Final = PROPERTIES_LENGTH.size
_FIXED_BYTES: Final = _HEAD_BYTES + _LENGTH_BYTES
_NUMBERS: Final = ELEMENT.subset("size", "flag", "body_length").unpack_from
_UNSIGNED_NUMBERS: Final = ELEMENT.subset("size", "flag", "body_length", signed=False).unpack_from
_RECORD_SYS_FLAG: Final = RECORD.subset("sys_flag").unpack_from
_LENGTH_TYPE: Final = np.dtype(PROPERTIES_LENGTH_TYPE)
_FEWEST_ALIKE: Final = 8
_LONG_TAGS: Final = 1024  # characters
_TAGS: Final = f"\x02{TAGS}\x01".encode()


class BatchElements:
    """The elements of a batch's body, made by :meth:`of`. ``tails``: the length of the properties and the properties of each element;
    ``texts``: all tails together. ``flags``, ``sizes``, ``body_bytes``: one number for each element, or one for all."""

    __slots__ = ("bodies", "body_bytes", "count", "data", "flags", "sizes", "tails", "texts")

    def __init__(
        self,
        data: bytes,
        bodies: list[bytes],
        tails: list[bytes],
        flags: NDArray[np.int32],
        sizes: Ints | int,
        body_bytes: Ints | int,
    ) -> None:
        self.data, self.count, self.bodies, self.tails = data, len(bodies), bodies, tails
        self.flags, self.sizes, self.body_bytes = flags, sizes, body_bytes
        self.texts = b"".join(tails)

    @staticmethod
    def of(data: bytes) -> BatchElements:
        """Split the body of a batch. Raises ProtocolError (the elements do not fill it exactly, or there are none)."""
        elements = _alike(data) or _one_by_one(data)
        if elements is None:
            split_batch(data)  # raises an error with the reason
            raise ProtocolError("the batch holds no message")
        return elements

    @property
    def longest_body_bytes(self) -> int:
        return max(map(len, self.bodies))

    @property
    def longest_properties_bytes(self) -> int:
        return max(map(len, self.tails)) - _LENGTH_BYTES

    @property
    def ends_in_zero(self) -> bool:
        return bool([tail for tail in self.tails if not tail[-1] and len(tail) > _LENGTH_BYTES])

    def bodies_and_properties(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.bodies, [tail[_LENGTH_BYTES:] for tail in self.tails], strict=True)

    def tags_codes(self) -> list[int]:
        if _TAGS[1:] not in self.texts:
            return [0] * self.count
        return self._codes_at_one_place() or self._codes_one_by_one()

    def _codes_at_one_place(self) -> list[int] | None:
        """The tags codes if all elements have TAGS at the same place and of the same length, as in most batches."""
        first, last = self.tails[0], self.tails[-1]
        begin = first.find(_TAGS)
        end = first.find(b"\x02", begin + len(_TAGS)) + 1
        # The last one is looked at before all of them: if their lengths differ, it mostly differs, too.
        if begin < 1 or end < 1 or not last.startswith(_TAGS, begin) or self.texts.count(_TAGS[1:]) != self.count:
            return None
        cut, codes = itemgetter(slice(begin, end)), {}
        for piece in set(map(cut, self.tails)):
            # With one in each piece there is one in each element.
            if not piece.startswith(_TAGS) or piece.find(b"\x02", len(_TAGS)) != end - begin - 1:
                return None
            codes[piece] = _tags_code(piece[len(_TAGS) : -1].decode("utf-8", "replace"))
        return [codes[cut(tail)] for tail in self.tails] if len(codes) > 1 else [*codes.values()] * self.count

    def _codes_one_by_one(self) -> list[int]:
        codes: list[int] = []
        add, known = codes.append, _Codes()
        for tail in self.tails:
            before, _, behind = tail.rpartition(_TAGS)
            value = behind.partition(b"\x02")[0]
            # The last TAGS counts if it has a value. With nothing before it there is no TAGS, or it is the first property.
            add(known[value] if before and value else _tags_code(get_property(tail[_LENGTH_BYTES:], TAGS)))
        return codes

    def records_bytes(self, record: bytes) -> int:
        """The size of all records together; ``record`` as for :meth:`records`."""
        return len(self.data) + self.count * (len(record) - _FIXED_BYTES)

    def record_places(self, record: bytes, physical_offset: int) -> tuple[Ints, Ints | int]:
        """The offsets and sizes of the records if the first begins at ``physical_offset``; ``record`` as for :meth:`records`."""
        sizes = self.sizes + (len(record) - _FIXED_BYTES)
        if isinstance(sizes, int):
            return np.arange(physical_offset, physical_offset + self.count * sizes, sizes), sizes
        return sizes.cumsum() - sizes + physical_offset, sizes

    def records(self, record: bytes, queue_offset: int, places: Ints, sizes: Ints | int) -> bytes:
        """The records of all elements, back to back. ``record``: of a message without body and properties, for all other fields.
        ``queue_offset``: of the first record. ``places``, ``sizes``: the result of :meth:`record_places`."""
        count = self.count
        (sys_flag,) = _RECORD_SYS_FLAG(record)
        columns = _columns((sys_flag & HOSTS_V6) >> V6_SHIFT)
        heads = np.frombuffer(bytearray(record[: columns.itemsize] * count), columns)
        heads["size"] = sizes
        heads["body_crc"] = np.fromiter(map(crc32, self.bodies), np.uint32, count) & np.uint32(BODY_CRC_MASK)
        heads["flag"] = self.flags
        heads["queue_offset"] = np.arange(queue_offset, queue_offset + count)
        heads["physical_offset"] = places
        heads["body_length"] = self.body_bytes
        parts = [record[columns.itemsize : -_LENGTH_BYTES]] * (4 * count)  # the topic
        parts[0::4] = heads.view(_opaque(columns.itemsize)).tolist()
        parts[1::4] = self.bodies
        parts[3::4] = self.tails
        return b"".join(parts)


def _alike(data: bytes) -> BatchElements | None:
    """The elements, if there are at least ``_FEWEST_ALIKE`` and all have the same lengths; otherwise None."""
    if len(data) < _FEWEST_ALIKE * _FIXED_BYTES:
        return None
    size, _, body_bytes = _NUMBERS(data)
    tail_bytes = size - _HEAD_BYTES - body_bytes
    if body_bytes <= 0 or tail_bytes < _LENGTH_BYTES or len(data) % size or len(data) < _FEWEST_ALIKE * size:
        return None
    count = len(data) // size
    heads = np.ndarray((count,), _heads(size), data)
    tails_at = _HEAD_BYTES + body_bytes
    lengths: NDArray[Any] = np.ndarray((count,), _LENGTH_TYPE, data, tails_at, (size,))
    if (
        np.count_nonzero(heads["size"] != size)
        or np.count_nonzero(heads["body_length"] != body_bytes)
        or np.count_nonzero(lengths != tail_bytes - _LENGTH_BYTES)
    ):
        return None
    bodies: list[bytes] = np.ndarray((count,), _opaque(body_bytes), data, _HEAD_BYTES, (size,)).tolist()
    tails: list[bytes] = np.ndarray((count,), _opaque(tail_bytes), data, tails_at, (size,)).tolist()
    return BatchElements(data, bodies, tails, heads["flag"], size, body_bytes)


def _one_by_one(data: bytes) -> BatchElements | None:
    """The elements; None if one of them is invalid. The lengths are read without a sign, so a negative one ends after the data, as one
    that is too large. With any wrong length a tail is too short, or the last element does not end where the data end."""
    at, end = 0, len(data)
    flags: list[int] = []
    bodies: list[bytes] = []
    tails: list[bytes] = []
    add_flag, add_body, add_tail = flags.append, bodies.append, tails.append
    try:
        while at < end:
            size, flag, body_bytes = _UNSIGNED_NUMBERS(data, at)
            body_at = at + _HEAD_BYTES
            tail_at = body_at + body_bytes
            at += size
            tail = data[tail_at:at]
            if tail[0] << 8 | tail[1] != len(tail) - _LENGTH_BYTES:
                return None
            add_flag(flag)
            add_body(data[body_at:tail_at])
            add_tail(tail)
    except (struct.error, IndexError):  # a head is cut off, or a tail is missing
        return None
    if at != end or not bodies:
        return None
    count = len(bodies)
    body_lengths: Ints = np.fromiter(map(len, bodies), np.int64, count)
    sizes: Ints = np.fromiter(map(len, tails), np.int64, count)
    sizes += body_lengths + _HEAD_BYTES
    return BatchElements(data, bodies, tails, np.array(flags, np.uint32).view(np.int32), sizes, body_lengths)


class _Codes(dict[bytes, int]):
    """The codes of TAGS that were met before in a batch: a lookup takes a tenth of the time of a call."""

    def __missing__(self, value: bytes) -> int:
        code = self[value] = _tags_code(value.decode("utf-8", "replace"))
        return code


def _tags_code(tags: str | None) -> int:
    """``tags_code``, for long tags at a tenth of the cost: 4 MiB of them, in one batch, would hold the loop for 70 ms."""
    if tags is None or len(tags) < _LONG_TAGS:
        return tags_code(tags)
    units = np.frombuffer(tags.encode("utf-16-le", "surrogatepass"), "<u2")
    return int((units * _powers()[-len(units) :]).sum(dtype=np.uint32).view(np.int32))


@cache
def _powers() -> NDArray[np.uint32]:
    """..., 31^2, 31, 1 modulo 2^32, for the longest properties."""
    powers = np.full(MAX_PROPERTIES_BYTES, 31, np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)[::-1]


@lru_cache(maxsize=64)
def _heads(size: int) -> np.dtype[Any]:
    columns: np.dtype[Any] = np.dtype(ELEMENT.columns("size", "flag", "body_length", row_bytes=size))
    return columns


@lru_cache(maxsize=64)
def _opaque(length: int) -> np.dtype[Any]:
    return np.dtype((np.void, length))


@lru_cache(maxsize=len(LAYOUTS))
def _columns(layout: int) -> np.dtype[Any]:
    """The NumPy type of the fields of a record's head that differ between the messages of a batch."""
    names = ("size", "body_crc", "flag", "queue_offset", "physical_offset", "body_length")
    columns: np.dtype[Any] = np.dtype(LAYOUTS[layout].columns(*names))
    return columns

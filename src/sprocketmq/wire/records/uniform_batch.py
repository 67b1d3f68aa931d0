"""The body of a batch whose elements have the same form, as one table of bytes: typical for telemetry, logs and counters.

A batch is uniform when all elements have the same lengths and differ only in their bodies, their flags, and in the values of UNIQ_KEY and
KEYS. Then the records are copies of the first record with some columns replaced. NumPy fills the table column by column, which costs a
tenth of encoding each message.

One comparison of bytes shows whether elements differ in anything else: their heads and properties, with the first element's bytes in the
places that may differ, are compared with the first element's repeated. A NumPy call costs a microsecond, so there are few calls.

Laws
1. ``of`` returns a batch only when ``split_batch`` accepts the same body and finds the same elements.
2. No value of UNIQ_KEY and KEYS contains a separator, so all other properties are the same for all elements.
3. ``records`` returns, for each element, what ``encode_record`` makes of its parts.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from sprocketmq.wire.records.batch import ELEMENT
from sprocketmq.wire.records.properties import KEYS, UNIQ_KEY
from sprocketmq.wire.records.record_layout import BODY_CRC_MASK, PROPERTIES_LENGTH, RECORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["UniformBatch"]

_HEAD: Final = ELEMENT.struct
_BODY_AT: Final = ELEMENT.size
_FREE_IN_HEAD: Final = slice(ELEMENT.at["magic"], ELEMENT.at["body_length"])  # two that nobody reads, and the flag
_FLAG_OF_ELEMENT: Final = ELEMENT.span("flag")
_FLAG: Final = RECORD.span("flag")
_LENGTH_BYTES: Final = PROPERTIES_LENGTH.size
_NAMES: Final = (UNIQ_KEY.encode() + b"\x01", KEYS.encode() + b"\x01")
_MANY: Final = 4096


class UniformBatch:
    """Made by :meth:`of`.

    Attributes:
        count: elements; ``flag``, ``body``, ``properties``: of the first one.
    """

    __slots__ = ("_data", "_free", "_table", "body", "count", "flag", "properties")

    def __init__(
        self, data: bytes, table: NDArray[np.uint8], flag: int, body_bytes: int, free: list[tuple[int, int]]
    ) -> None:
        self._data, self._table, self._free, self.flag = data, table, free, flag
        self.count = len(table)
        self.body = data[_BODY_AT : _BODY_AT + body_bytes]
        self.properties = data[_BODY_AT + body_bytes + _LENGTH_BYTES : table.shape[1]]

    @property
    def template(self) -> bytes:
        """The properties without the values that may differ: the same for all batches of one shape."""
        parts, at = [], 0
        for begin, end in sorted(self._free):
            parts.append(self.properties[at:begin])
            at = end
        return b"".join((*parts, self.properties[at:]))

    @staticmethod
    def of(data: bytes) -> UniformBatch | None:
        """The batch, None when it is not uniform, or not sound."""
        import numpy as np

        if len(data) < 2 * (_BODY_AT + _LENGTH_BYTES):
            return None
        size, _, _, flag, body_bytes = _HEAD.unpack_from(data)
        if (
            size <= _BODY_AT + _LENGTH_BYTES
            or len(data) % size
            or body_bytes < 0
            or _BODY_AT + body_bytes + _LENGTH_BYTES > size
        ):
            return None
        tail_at = _BODY_AT + body_bytes
        if (data[tail_at] << 8 | data[tail_at + 1]) != size - tail_at - _LENGTH_BYTES:
            return None
        count = len(data) // size
        table = np.frombuffer(data, np.uint8).reshape(count, size)
        heads = table[:, :_BODY_AT].copy()
        heads[:, _FREE_IN_HEAD] = heads[0, _FREE_IN_HEAD]
        if heads.tobytes() != data[:_BODY_AT] * count:
            return None
        free = _values(data[tail_at + _LENGTH_BYTES : size])
        tails = table[:, tail_at:].copy()
        for begin, end in free:
            values = tails[:, begin + _LENGTH_BYTES : end + _LENGTH_BYTES]
            text = values.tobytes()
            if b"\x01" in text or b"\x02" in text or b"\x00" in text:
                return None
            values[:] = values[0]
        if tails.tobytes() != data[tail_at:size] * count:
            return None
        return UniformBatch(data, table, flag, body_bytes, free)

    def records(self, first: bytes, properties: int, queue_offset: int, physical_offset: int) -> memoryview:
        """The records of all elements, back to back.

        Args:
            first: the record of the first element (hosts IPv4, V1), with this queue offset and this physical offset.
            properties: where in it the element's own properties begin.
            queue_offset, physical_offset: those of the first record.
        """
        import numpy as np

        count, size, table, body_bytes = self.count, len(first), self._table, len(self.body)
        whole = bytearray(first * count)
        records = np.ndarray((count, size), np.uint8, whole)
        records[:, _FLAG] = table[:, _FLAG_OF_ELEMENT]
        records[:, RECORD.size : RECORD.size + body_bytes] = table[:, _BODY_AT : _BODY_AT + body_bytes]
        moved = _BODY_AT + body_bytes + _LENGTH_BYTES
        for begin, end in self._free:
            records[:, properties + begin : properties + end] = table[:, moved + begin : moved + end]
        bodies = chain.from_iterable(_bodies(body_bytes, table.shape[1]).iter_unpack(self._data))
        fields = records.view(_fields(size))[:, 0]
        fields["body_crc"] = np.fromiter(map(crc32, bodies), np.uint32, count) & np.uint32(BODY_CRC_MASK)
        numbers = _numbers(count)
        fields["queue_offset"] = numbers + queue_offset
        fields["physical_offset"] = numbers * size + physical_offset
        return memoryview(whole)


@lru_cache(maxsize=64)
def _bodies(body_bytes: int, element_bytes: int) -> struct.Struct:
    return struct.Struct(f"{_BODY_AT}x{body_bytes}s{element_bytes - _BODY_AT - body_bytes}x")


@lru_cache(maxsize=64)
def _fields(record_bytes: int) -> np.dtype[Any]:
    """The columns of records that are numbers of their own."""
    import numpy as np

    columns: np.dtype[Any] = np.dtype(
        RECORD.columns("body_crc", "queue_offset", "physical_offset", row_bytes=record_bytes)
    )
    return columns


def _numbers(count: int) -> NDArray[np.int64]:
    """0, 1, 2 ..., not to be written to."""
    if count > _MANY:
        import numpy as np

        return np.arange(count, dtype=np.int64)
    return _first_numbers()[:count]


@lru_cache(maxsize=1)
def _first_numbers() -> NDArray[np.int64]:
    import numpy as np

    return np.arange(_MANY, dtype=np.int64)


def _values(properties: bytes) -> list[tuple[int, int]]:
    """Where the values of UNIQ_KEY and KEYS are."""
    places = []
    for name in _NAMES:
        if properties.startswith(name):
            begin = len(name)
        else:
            begin = properties.find(b"\x02" + name) + 1 + len(name)
            if begin <= len(name):
                continue
        end = properties.find(b"\x02", begin)
        places.append((begin, len(properties) if end < 0 else end))
    return places

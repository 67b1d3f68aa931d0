"""Bodies that are compressed, and batches that are stored as one record: opened one by one, all other records are left as they are.

Opened bodies lie behind the records in a longer buffer, and the columns are told the new places. So a body that was compressed is read like
any other, and the messages of a batch in one record (5.x topics with queue.type=BatchCQ) are rows like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns.records import SPARE, Records
from sprocketmq.wire.records.batch import ELEMENT, batch_element_size, split_batch
from sprocketmq.wire.records.compression import decompress
from sprocketmq.wire.records.record_layout import PROPERTIES_LENGTH
from sprocketmq.wire.records.sys_flag import COMPRESSED, NEED_UNWRAP, WRAPPED

__all__ = ["opened"]

# Bodies of one batch, unpacked: a few kilobytes of records may hold gigabytes, and Arrow counts with 32 bits.
_MOST_BYTES: Final = 64 * 1024 * 1024

Element = tuple[int, bytes, bytes]


class _Opened(NamedTuple):
    row: int
    sys_flag: int
    body: bytes
    elements: Sequence[Element] | None  # of a batch in one record


def opened(records: Records, with_bodies: bool) -> Iterator[Records]:
    """All wanted messages in order, as many at a time as open to no more than ``_MOST_BYTES``. A body that is broken stays as it is, with
    the bit of sysFlag that says so (``wire.records.record.decode_records`` does the same).

    Args:
        with_bodies: whether anybody looks at bodies or sysFlag; otherwise only batches in one record are opened.
    """
    records = records.wanted(or_wrapped=True)
    closed = NEED_UNWRAP | COMPRESSED if with_bodies else NEED_UNWRAP
    rows = np.flatnonzero(records.head["sys_flag"] & closed)
    start, size_bytes = 0, 0
    found: list[_Opened] = []
    for row in rows.tolist():
        one = _open(records, row)
        if one is None:
            continue
        if found and size_bytes + len(one.body) > _MOST_BYTES:
            yield _with_opened(records, start, row, found).wanted()
            start, size_bytes, found = row, 0, []
        found.append(one)
        size_bytes += len(one.body)
    if found:
        records = _with_opened(records, start, len(records), found)
    yield records.wanted() if len(rows) else records


def _open(records: Records, row: int) -> _Opened | None:
    """None: it cannot be opened."""
    sys_flag = before = int(records.head["sys_flag"][row])
    at = int(records.body_starts[row])
    body = records.data[at : at + int(records.body_sizes[row])].tobytes()
    elements = None
    try:
        if sys_flag & COMPRESSED:
            body = decompress(body, sys_flag)
            sys_flag &= ~COMPRESSED
        if sys_flag & WRAPPED == WRAPPED:
            elements = split_batch(body)
            sys_flag &= ~NEED_UNWRAP
    except ProtocolError:
        pass  # the bit that is still set says it
    return None if sys_flag == before else _Opened(row, sys_flag, body, elements)


def _with_opened(records: Records, start: int, end: int, found: Sequence[_Opened]) -> Records:
    """The records from ``start`` to ``end`` with what was opened of them."""
    piece = records.taken(np.arange(start, end))
    sizes = np.array([len(one.body) for one in found], np.int64)
    begins = len(records.data) + np.cumsum(sizes) - sizes
    behind = np.frombuffer(b"".join([*(one.body for one in found), SPARE]), np.uint8)
    piece.data = np.concatenate([records.data, behind])
    rows = np.array([one.row for one in found], np.int64) - start
    piece.body_starts[rows], piece.body_sizes[rows] = begins, sizes
    piece.head["sys_flag"][rows] = [one.sys_flag for one in found]
    inner = [number for number, one in enumerate(found) if one.elements is not None]
    if not inner:
        return piece
    return _unwrapped(piece, rows[inner], begins[inner], [found[number].elements or () for number in inner])


def _unwrapped(piece: Records, rows: Any, begins: Any, batches: Sequence[Sequence[Element]]) -> Records:
    """Each batch as its messages: consecutive queue offsets, all else from the record (Java: MessageDecoder.decodeMessage)."""
    counts = np.array([len(batch) for batch in batches], np.int64)
    repeats = np.ones(len(piece), np.int64)
    repeats[rows] = counts
    is_inner = np.zeros(len(piece), bool)
    is_inner[rows] = True
    messages = piece.taken(np.repeat(np.arange(len(piece)), repeats))
    at = np.flatnonzero(np.repeat(is_inner, repeats))
    elements = [element for batch in batches for element in batch]
    body_sizes = np.array([len(body) for _, body, _ in elements], np.int64)
    property_sizes = np.array([len(text) for _, _, text in elements], np.int64)
    sizes: Any = batch_element_size(body_sizes, property_sizes)  # type: ignore[arg-type]
    places = np.cumsum(sizes) - sizes  # as if all batches were one
    first = np.cumsum(counts) - counts  # the number of each batch's first element
    numbers = np.arange(len(elements)) - np.repeat(first, counts)
    own_places = places - np.repeat(places[np.minimum(first, len(places) - 1)], counts) if len(places) else places
    messages.body_starts[at] = np.repeat(begins, counts) + own_places + ELEMENT.size
    messages.body_sizes[at] = body_sizes
    messages.property_starts[at] = messages.body_starts[at] + body_sizes + PROPERTIES_LENGTH.size
    messages.property_sizes[at] = property_sizes
    messages.head["flag"][at] = [flag for flag, _, _ in elements]
    messages.head["queue_offset"][at] += numbers
    return messages

# SPDX-License-Identifier: Apache-2.0
"""Bodies that are compressed, and batches that are stored as one record: opened, all other records are left as they are.

What was decompressed lies behind the records in a longer buffer, and is read like any other body. The messages of a batch in one record
(5.x topics with queue.type=BatchCQ) are read where they lie: a record becomes as many as it has messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sprocketmq.errors import ProtocolError
from sprocketmq.spark.columns.byte_columns import Mask, Numbers, gathered
from sprocketmq.spark.columns.records import SPARE, Records
from sprocketmq.spark.columns.size_chains import followed
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire.records.batch import ELEMENT, batch_element_size
from sprocketmq.wire.records.compression import decompress
from sprocketmq.wire.records.record_layout import PROPERTIES_LENGTH, PROPERTIES_LENGTH_TYPE
from sprocketmq.wire.records.sys_flag import COMPRESSED, NEED_UNWRAP, WRAPPED

# Bodies of one batch, unpacked: a few kilobytes of records may hold gigabytes, and Arrow counts with 32 bits.
_MOST_BYTES: Final = 64 * 1024 * 1024
_ELEMENT_HEAD: Final = np.dtype(ELEMENT.columns())
_LEAST_BYTES: Final = batch_element_size(0, 0)


def opened(records: Records, with_bodies: bool) -> Iterator[Records]:
    """All wanted messages in order, as many at a time as open to no more than ``_MOST_BYTES``. A broken body stays as it is, and WARNING
    counts them, as in ``wire.records.record.decode_records``. ``with_bodies``: whether a column of bodies or sysFlag is wanted."""
    records = records.wanted(or_wrapped=True)
    sys_flags = records.head["sys_flag"]
    closed = COMPRESSED if with_bodies else COMPRESSED | WRAPPED
    start, size_bytes = 0, 0
    found: list[tuple[int, bytes]] = []
    broken: list[tuple[int, ProtocolError]] = []
    for row in np.flatnonzero(sys_flags & closed == closed).tolist():
        try:
            body = _decompressed(records, row)
        except ProtocolError as error:
            broken.append((row, error))
            continue
        if found and size_bytes + len(body) > _MOST_BYTES:
            yield _unwrapped(_with_bodies(records, start, row, found))
            start, size_bytes, found = row, 0, []
        found.append((row, body))
        size_bytes += len(body)
    if broken:
        _log_broken(records, broken)
    yield _unwrapped(_with_bodies(records, start, len(records), found) if found else records)


def _decompressed(records: Records, row: int) -> bytes:
    at, size = int(records.body_starts[row]), int(records.body_sizes[row])
    return decompress(records.data[at : at + size].tobytes(), int(records.head["sys_flag"][row]))


def _log_broken(records: Records, broken: list[tuple[int, ProtocolError]]) -> None:
    row, error = broken[0]
    queue, offset = records.pulls[records.pull_numbers[row]].queue, records.head["queue_offset"][row]
    troubles.failed(
        "bodies",
        "%d compressed bodies cannot be opened, the first at offset %d of %s (%s); their rows have the bytes that are stored, and bit 1 of "
        "sysFlag",
        *(len(broken), offset, queue, error),
        of=str(queue),
    )


def _with_bodies(records: Records, start: int, end: int, found: list[tuple[int, bytes]]) -> Records:
    piece = records.taken(np.arange(start, end)) if end - start < len(records) else records
    sizes = np.array([len(body) for _, body in found], np.int64)
    rows = np.array([row for row, _ in found], np.int64) - start
    piece.body_starts[rows], piece.body_sizes[rows] = len(records.data) + np.cumsum(sizes) - sizes, sizes
    piece.head["sys_flag"][rows] &= ~COMPRESSED
    piece.data = np.concatenate(
        [records.data, np.frombuffer(b"".join([*(body for _, body in found), SPARE]), np.uint8)]
    )
    return piece


def _unwrapped(records: Records) -> Records:
    """Each batch as its messages: consecutive queue offsets, all else from the record (Java: MessageDecoder.decodeMessage)."""
    sys_flags = records.head["sys_flag"]
    if not (sys_flags & NEED_UNWRAP).any():
        return records
    rows = np.flatnonzero(sys_flags & (WRAPPED | COMPRESSED) == WRAPPED)
    rows, counts, found = _elements(records, rows)
    repeats = np.ones(len(records), np.int64)
    repeats[rows] = counts
    messages = records.taken(np.repeat(np.arange(len(records)), repeats))
    # Of each element its number in its batch, and the row that it becomes.
    numbers = np.arange(len(found.starts)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat((np.cumsum(repeats) - repeats)[rows], counts) + numbers
    messages.body_starts[at], messages.body_sizes[at] = found.starts + ELEMENT.size, found.body_sizes
    messages.property_starts[at] = found.starts + ELEMENT.size + found.body_sizes + PROPERTIES_LENGTH.size
    messages.property_sizes[at] = found.property_sizes
    messages.head["flag"][at] = found.flags
    messages.head["sys_flag"][at] &= ~NEED_UNWRAP
    messages.head["queue_offset"][at] += numbers
    return messages.wanted()


class _Elements(NamedTuple):
    starts: Numbers
    flags: NDArray[np.integer]
    body_sizes: Numbers
    property_sizes: Numbers

    def of(self, chosen: Mask) -> _Elements:
        return _Elements(self.starts[chosen], self.flags[chosen], self.body_sizes[chosen], self.property_sizes[chosen])


def _elements(records: Records, rows: Numbers) -> tuple[Numbers, Numbers, _Elements]:
    """The messages of the batches in ``rows``: which of the rows are whole batches, and how many messages each is."""
    data = records.data
    rows = rows[np.argsort(records.body_starts[rows])]  # what was decompressed lies behind
    begins = records.body_starts[rows]
    ends = begins + records.body_sizes[rows]
    starts, counts, reached = followed(data, begins, ends, _LEAST_BYTES)
    heads = gathered(data, starts, ELEMENT.size).reshape(-1).view(_ELEMENT_HEAD)
    room = heads["size"].astype(np.int64) - _LEAST_BYTES
    body_sizes = heads["body_length"].astype(np.int64)
    fits = (body_sizes >= 0) & (body_sizes <= room)
    lengths = np.ndarray((len(data) - PROPERTIES_LENGTH.size + 1,), PROPERTIES_LENGTH_TYPE, data, strides=(1,))
    property_sizes = lengths[starts + ELEMENT.size + np.where(fits, body_sizes, 0)].astype(np.int64)
    found = _Elements(starts, heads["flag"], body_sizes, property_sizes)
    fits &= body_sizes + property_sizes == room
    whole = reached == ends
    which = np.repeat(np.arange(len(rows)), counts)
    whole[which[~fits]] = False
    return (rows, counts, found) if whole.all() else (rows[whole], counts[whole], found.of(whole[which]))

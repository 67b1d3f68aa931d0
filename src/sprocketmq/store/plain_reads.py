"""Reading what nothing is filtered out of: from entries of a queue to views of their records in the log.

Law: read at once or one by one, the bytes and the place to read on are the same.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

from sprocketmq.store.commit_log import CommitLog
from sprocketmq.store.consume_queue import FILLER_SIZE, UNIT, ConsumeQueue
from sprocketmq.store.message_store import UNIT_SIZE_BYTES, ReadResult

__all__ = ["read_at_once", "read_one_by_one"]

_MOST_AT_ONCE = 64  # what Apache's default of 32 messages a pull may be raised to before entries are read one by one
_NO_VIEW = memoryview(b"")
_iter_units = UNIT.iter_unpack
_unpack_offset = struct.Struct(">q").unpack_from


@functools.cache
def _sizes_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    """Reads the sizes of so many units."""
    return struct.Struct(">" + "8xi8x" * count).unpack_from


@functools.cache
def _offsets_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    """Reads where the records of so many units begin."""
    return struct.Struct(">" + "q12x" * count).unpack_from


def read_at_once(log: CommitLog, queue: ConsumeQueue, result: ReadResult, max_messages: int, max_bytes: int) -> bool:
    """The common case, all entries judged together: they fit the limits, and their records lie in one file of the log.

    False, and nothing has changed, where that is not so: then they are taken one by one.
    """
    offset = result.next_offset
    count = min(max_messages, queue.max_offset - offset)
    if not 0 < count <= _MOST_AT_ONCE:
        return False
    units, at = queue.units_at(offset, count)
    if at + count * UNIT_SIZE_BYTES > len(units):
        return False
    sizes = _sizes_of(count)(units, at)
    total = sum(sizes)
    (first,) = _unpack_offset(units, at)
    (last,) = _unpack_offset(units, at + (count - 1) * UNIT_SIZE_BYTES)
    end = last + sizes[-1]
    file = log.files.file_at(first)
    if (
        file is None
        or total > max_bytes
        or total >= FILLER_SIZE
        or end > log.start + log.at
        or end > file.start + file.size_bytes
    ):
        return False
    data = file.readable[first - file.start : end - file.start]
    if end - first == total:  # neighbours in the log, as offsets grow (law 2 of the consume queue)
        result.chunks = [data]
    else:
        places = _offsets_of(count)(units, at)
        chunks = [data[place - first : place - first + size] for place, size in zip(places, sizes, strict=True)]
        if min(places) < first or sum(map(len, chunks)) != total:  # an entry points nowhere, or against law 2
            return False
        result.chunks = chunks
    result.bytes, result.count = total, count
    result.next_offset = offset + count
    return True


def read_one_by_one(log: CommitLog, queue: ConsumeQueue, result: ReadResult, max_messages: int, max_bytes: int) -> None:
    """The same in every case; neighbours in the log become one chunk.

    Raises:
        StoreCorrupt: an entry points nowhere.
    """
    chunks = result.chunks
    log_end = log.max_offset
    view, view_start, view_end = _NO_VIEW, 0, -1
    total = count = skipped = 0
    run_start = run_end = 0
    for physical_offset, size, _ in _iter_units(queue.unit_bytes(result.next_offset, max(1, max_messages))):
        if total + size > max_bytes:
            if size == FILLER_SIZE:
                skipped += 1
                continue
            if count:
                break
        if physical_offset != run_end or not count or physical_offset >= view_end:
            if count:
                chunks.append(view[run_start - view_start : run_end - view_start])
            if not view_start <= physical_offset < view_end:
                view, view_start, view_end = log.part_at(physical_offset, log_end)
            run_start = physical_offset
        run_end = physical_offset + size
        if run_end > view_end:
            log.slice(physical_offset, size)  # raises: the entry points nowhere
        total += size
        count += 1
    if count:
        chunks.append(view[run_start - view_start : run_end - view_start])
    result.bytes, result.count = total, count
    result.next_offset += count + skipped

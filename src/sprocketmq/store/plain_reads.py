"""Reading what nothing is filtered out of: from entries of a queue to views of their records in the log.

Law: read at once or one by one, the bytes and the place to read on are the same.
"""

from __future__ import annotations

import functools
import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from sprocketmq.store.commit_log import CommitLog
from sprocketmq.store.consume_queue import FILLER_SIZE, UNIT, ConsumeQueue
from sprocketmq.store.message_store import UNIT_SIZE_BYTES, ReadResult

__all__ = ["read_at_once", "read_one_by_one"]

_MOST_AT_ONCE = 1024  # what a consumer may ask for at most (Java: pullBatchSize)
_FEW = 64  # beyond, neighbours are handed out as one chunk even if not all of them are neighbours
_NO_VIEW = memoryview(b"")
_iter_units = UNIT.iter_unpack
_unpack_offset = struct.Struct(">q").unpack_from


@functools.lru_cache(maxsize=128)
def _sizes_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    """Reads the sizes of so many units."""
    return struct.Struct(">" + "8xi8x" * count).unpack_from


@functools.lru_cache(maxsize=128)
def _offsets_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    """Reads where the records of so many units begin."""
    return struct.Struct(">" + "q12x" * count).unpack_from


def read_at_once(log: CommitLog, queue: ConsumeQueue, result: ReadResult, max_messages: int, max_bytes: int) -> bool:
    """The common case, all entries judged together: those that fit the limits, if their records lie in one file of the log.

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
    if max_bytes < total < FILLER_SIZE:
        count = bisect_right(list(accumulate(sizes)), max_bytes)
        sizes = sizes[:count]
        total = sum(sizes)
        if not count:
            return False
    (first,) = _unpack_offset(units, at)
    (last,) = _unpack_offset(units, at + (count - 1) * UNIT_SIZE_BYTES)
    end = last + sizes[-1]
    file = log.files.file_at(first)
    if file is None or total >= FILLER_SIZE or end > log.start + log.at or end > file.start + file.size_bytes:
        return False
    data = file.readable[first - file.start : end - file.start]
    if end - first == total:  # neighbours in the log, as offsets grow (law 2 of the consume queue)
        result.chunks = [data]
    else:
        places = _offsets_of(count)(units, at)
        if count > _FEW:
            chunks = [data[begin - first : stop - first] for begin, stop in _runs(places, sizes)]
        else:
            chunks = [data[place - first : place - first + size] for place, size in zip(places, sizes, strict=True)]
        if min(places) < first or sum(map(len, chunks)) != total:  # an entry points nowhere, or against law 2
            return False
        result.chunks = chunks
    result.bytes, result.count = total, count
    result.next_offset = offset + count
    return True


def _runs(places: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Begin and end of each run of neighbours."""
    runs = []
    begin = end = places[0]
    for place, size in zip(places, sizes, strict=True):
        if place != end:
            runs.append((begin, end))
            begin = place
        end = place + size
    runs.append((begin, end))
    return runs


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

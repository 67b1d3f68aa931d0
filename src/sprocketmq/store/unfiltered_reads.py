# SPDX-License-Identifier: Apache-2.0
"""Reads without a filter: from the entries of a queue to views of their records in the log.

``read_at_once`` handles the common case for all entries together, ``read_one_by_one`` every case, with the same bytes and next
offset; if a damaged size is too large, ``read_at_once`` may end before this entry, and the next read begins with it.
"""

from __future__ import annotations

import functools
import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from operator import eq
from typing import Any

from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.store.log.commit_log import CommitLog
from sprocketmq.store.queue.consume_queue import ConsumeQueue
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, UNIT_LAYOUT
from sprocketmq.store.recovery.entry_repair import repaired_units
from sprocketmq.store.stored_message import ReadResult
from sprocketmq.wire.records.record_layout import RECORD

_MOST_AT_ONCE = 1024  # the largest batch of a consumer (Java: pullBatchSize)
_FEW = 64  # above this, neighbours are returned as one chunk even if not all records are neighbours
_NO_VIEW = memoryview(b"")
_iter_units = UNIT.iter_unpack
_HEAD = RECORD.subset("size", "queue_id", "queue_offset")


@functools.lru_cache(maxsize=128)
def _sizes_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    return UNIT_LAYOUT.repeated("size", count).unpack_from


@functools.lru_cache(maxsize=128)
def _ends_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    """Reads the sizes of so many units, with the physical offsets of the first and the last in front of their sizes."""
    return UNIT_LAYOUT.repeated("size", count, "physical_offset").unpack_from


@functools.lru_cache(maxsize=128)
def _offsets_of(count: int) -> Callable[[memoryview | bytes, int], tuple[Any, ...]]:
    return UNIT_LAYOUT.repeated("physical_offset", count).unpack_from


def read_at_once(log: CommitLog, queue: ConsumeQueue, result: ReadResult, max_messages: int, max_bytes: int) -> bool:
    """Read the entries that fit the limits, if their records lie in one file of the log. Returns False, and changes nothing, in any
    other case."""
    offset = result.next_offset
    count = queue.max_offset - offset
    if count > max_messages:  # not min(), a call for each pull
        count = max_messages
    if not 0 < count <= _MOST_AT_ONCE:
        return False
    units, at = queue.units_at(offset, count)
    try:
        ends = _ends_of(count)(units, at)
    except struct.error:  # fewer units are there; without a comparison for each pull
        return False
    first, last = ends[0], ends[-2]
    total = sum(ends) - first - last if count > 1 else ends[1]
    if max_bytes < total < FILLER_SIZE:
        count = bisect_right(list(accumulate(_sizes_of(count)(units, at))), max_bytes)
        if not count:
            return False
        ends = _ends_of(count)(units, at)
        last = ends[-2]
        total = sum(ends) - first - last if count > 1 else ends[1]
    end = last + ends[-1]
    files = log.files.files
    file = files[-1] if files and first >= files[-1].start else log.files.file_at(first)  # mostly the newest
    if file is None or total >= FILLER_SIZE or end > log.start + log.at or end > file.start + file.size_bytes:
        return False
    data = file.readable[first - file.start : end - file.start]
    if offset < queue.written_from and not _confirmed(
        data, queue.queue_id, offset, _sizes_of(count)(units, at), _offsets_of(count)(units, at)
    ):
        return False
    if end - first == total:  # neighbours in the log, as offsets grow (rule 2 of the consume queue)
        result.chunks = [data]
    else:
        sizes, places = _sizes_of(count)(units, at), _offsets_of(count)(units, at)
        if count > _FEW:
            chunks = [data[begin - first : stop - first] for begin, stop in _runs(places, sizes)]
        else:
            chunks = [data[place - first : place - first + size] for place, size in zip(places, sizes, strict=True)]
        if min(places) < first or sum(map(len, chunks)) != total:  # an entry points outside, or contradicts rule 2
            return False
        result.chunks = chunks
    result.bytes, result.count = total, count
    result.next_offset = offset + count
    return True


def _confirmed(data: memoryview, queue_id: int, offset: int, sizes: Sequence[int], places: Sequence[int]) -> bool:
    """Whether the records at these places have these sizes, this queue and the offsets from ``offset`` on. Only for entries that
    were on the disk when the queue was opened, whose bits may have flipped: checking all would make each pull slower by a third."""
    first, last = places[0], places[-1]
    if min(places) < first or max(places) != last or sizes[-1] < _HEAD.size:
        return False
    if last + sizes[-1] - first == sum(sizes):  # neighbours: what is true of the last one is true of all
        return _HEAD.unpack_from(data, last - first) == (sizes[-1], queue_id, offset + len(sizes) - 1)
    heads = map(_HEAD.unpack_from, repeat(data), [place - first for place in places])
    return all(map(eq, heads, zip(sizes, repeat(queue_id), range(offset, offset + len(sizes)))))


def _runs(places: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    runs = []
    begin = end = places[0]
    for place, size in zip(places, sizes, strict=True):
        if place != end:
            runs.append((begin, end))
            begin = place
        end = place + size
    runs.append((begin, end))
    return runs


def read_one_by_one(
    log: CommitLog, queue: ConsumeQueue, result: ReadResult, max_messages: int, max_bytes: int, levels: DelayLevels
) -> None:
    """Repairs damaged entries (``entry_repair``). Neighbours in the log become one chunk."""
    chunks = result.chunks
    log_end = log.max_offset
    view, view_start, view_end = _NO_VIEW, 0, -1
    total = count = skipped = 0
    run_start = run_end = 0
    for physical_offset, size, _ in _iter_units(
        repaired_units(log, queue, result.next_offset, max(1, max_messages), levels)
    ):
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
        total += size
        count += 1
    if count:
        chunks.append(view[run_start - view_start : run_end - view_start])
    result.bytes, result.count = total, count
    result.next_offset += count + skipped

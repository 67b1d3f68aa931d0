# SPDX-License-Identifier: Apache-2.0
"""Repair of queue entries that do not match their records, because a bit flipped on the disk or a page was lost.

Every read compares the head of the record with the entry. Where they differ, the places that differ in one bit are tried
(the usual damage, found in microseconds), then the log between the records of the neighbours is scanned, up to a limit. The
entry is written again, or replaced by a filler, which readers skip. Apache answers a pull at such an entry with whatever
bytes are there, or the pull waits there forever.
"""

from __future__ import annotations

import itertools
import logging

from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.store.log.commit_log import NO_LIMIT, CommitLog
from sprocketmq.store.log.log_walk import LogWalk
from sprocketmq.store.log.tags_code import tags_code_of_record
from sprocketmq.store.queue.consume_queue import ConsumeQueue
from sprocketmq.store.queue.unit import FILLER_SIZE, UNIT, has_unit
from sprocketmq.wire.records.record import RecordView

_BITS = 63
_UNITS_AT_ONCE = 512
_NEIGHBOURS = 64  # entries checked on either side for one that is sound
_MOST_RECORDS = 20_000  # some 50 ms
_log = logging.getLogger("sprocketmq.store")


def confirms(log: CommitLog, queue: ConsumeQueue, offset: int, physical_offset: int, size_bytes: int) -> bool:
    """Whether the record there is the one to which the entry of ``offset`` belongs."""
    record = log.view_at(physical_offset, limit=NO_LIMIT) if physical_offset >= 0 else None
    return record is not None and record.size == size_bytes and _is_at(record, queue, offset)


def confirmed_end(log: CommitLog, queue: ConsumeQueue, log_end: int | None) -> int:
    """The offset after the last entry that its record confirms, that is a filler, or that has expired. ``log_end=None``: in the
    last file."""
    end = queue.max_offset
    if log_end is None:
        log_end = log.files.end
    while end > queue.min_offset:
        first = max(queue.min_offset, end - _UNITS_AT_ONCE)
        units = list(UNIT.iter_unpack(queue.unit_bytes(first, end - first)))
        for offset in range(end - 1, first - 1, -1):
            physical_offset, size_bytes, _ = units[offset - first]
            if size_bytes == FILLER_SIZE:
                return offset + 1
            if size_bytes > 0 and physical_offset < log.min_offset:
                before = queue.unit(offset - 1)[0] if offset > queue.min_offset else -1
                if physical_offset > before:  # expired; or a bit is flipped, and it is out of order
                    return offset + 1
            elif physical_offset + size_bytes <= log_end and confirms(log, queue, offset, physical_offset, size_bytes):
                return offset + 1
        end = first
    return end


def record_end(queue: ConsumeQueue, end: int) -> int:
    """Where the record of the last entry before the offset ``end`` ends; 0 if there is none, or a filler."""
    if end <= queue.min_offset:
        return 0
    physical_offset, size_bytes, _ = queue.unit(end - 1)
    return 0 if size_bytes == FILLER_SIZE else physical_offset + size_bytes


def _is_at(record: RecordView, queue: ConsumeQueue, offset: int) -> bool:
    return (
        record.queue_offset == offset
        and record.queue_id == queue.queue_id
        and record.topic_bytes == queue.topic_bytes
        and has_unit(record.sys_flag)
    )


def find_record(log: CommitLog, queue: ConsumeQueue, offset: int, *, one_bit_only: bool = False) -> RecordView | None:
    physical_offset, _, _ = queue.unit(offset)
    places = [physical_offset, *(physical_offset ^ (1 << bit) for bit in range(_BITS))]
    places += [place ^ (-1 << 63) for place in places if place < 0]  # the sign is a bit, too
    for place in places:
        if log.min_offset <= place:
            record = log.view_at(place, limit=NO_LIMIT)
            if record is not None and _is_at(record, queue, offset):
                return record
    return None if one_bit_only else _between_neighbours(log, queue, offset)


def _between_neighbours(log: CommitLog, queue: ConsumeQueue, offset: int) -> RecordView | None:
    at, end = log.min_offset, log.max_offset
    for before in range(offset - 1, max(queue.min_offset, offset - _NEIGHBOURS) - 1, -1):
        physical_offset, size_bytes, _ = queue.unit(before)
        if confirms(log, queue, before, physical_offset, size_bytes):
            at = physical_offset + size_bytes
            break
    for behind in range(offset + 1, min(queue.max_offset, offset + _NEIGHBOURS)):
        physical_offset, size_bytes, _ = queue.unit(behind)
        if confirms(log, queue, behind, physical_offset, size_bytes):
            end = physical_offset
            break
    near = itertools.islice(LogWalk(log, at, end).records(), _MOST_RECORDS)
    return next((record for record in near if _is_at(record, queue, offset)), None)


def repair_entry(log: CommitLog, queue: ConsumeQueue, offset: int, levels: DelayLevels) -> bool:
    record = find_record(log, queue, offset)
    physical_offset, size_bytes, tags_code = queue.unit(offset)
    if record is None:
        before = queue.unit(offset - 1)[0] if offset > queue.min_offset else 0
        queue.put_at(offset, max(0, before), FILLER_SIZE, 0)
        _log.error(
            "the entry of topic %s, queue %d, offset %d is damaged and its record is not in the log: it is skipped",
            queue.topic,
            queue.queue_id,
            offset,
        )
        return False
    if (physical_offset, size_bytes) != (record.physical_offset, record.size):
        tags_code = tags_code_of_record(record, queue.topic, levels)
        queue.put_at(offset, record.physical_offset, record.size, tags_code)
        _log.warning(
            "the entry of topic %s, queue %d, offset %d was damaged: it is rebuilt from the record at physical offset %d",
            queue.topic,
            queue.queue_id,
            offset,
            record.physical_offset,
        )
    return True


def repaired_units(log: CommitLog, queue: ConsumeQueue, offset: int, count: int, levels: DelayLevels) -> bytes:
    """The raw entries from ``offset`` on, repaired where the head of the record does not match."""
    raw = queue.unit_bytes(offset, count)
    agrees, queue_id, repaired = log.has_head, queue.queue_id, False
    for index, (physical_offset, size_bytes, _) in enumerate(UNIT.iter_unpack(raw), offset):
        if size_bytes != FILLER_SIZE and not agrees(physical_offset, size_bytes, queue_id, index):
            if not queue.files.read_only:
                repair_entry(log, queue, index, levels)
            repaired = True
    return queue.unit_bytes(offset, count) if repaired else raw

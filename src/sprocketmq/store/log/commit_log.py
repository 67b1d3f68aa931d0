# SPDX-License-Identifier: Apache-2.0
"""The commit log: all records in the order of arrival. Java: CommitLog.

A sequence of files of equal length. If a record and the 8 bytes of a blank do not fit into a file, a blank (int32 remaining size,
int32 blank magic) ends it, and the record goes into the next one. The log ends at the first place where no
valid record begins. Every byte after the end is zero.

Torn writes: a kill can interrupt a copy, so the first eight bytes of a record (size and magic) are stored last: without them the
record does not exist, with them it is complete. So is a batch, with the first header last. After a power failure, any page after
the last flush may be missing; the checks of ``view_at`` find such records.
"""

from __future__ import annotations

from typing import Final

from sprocketmq.errors import ConfigurationError, ProtocolError, StoreCorrupt
from sprocketmq.store.files.mapped_file import StoreFile
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.store.files.preallocation import Preallocator
from sprocketmq.wire.records.record import RecordView, blank_size, check_record, encode_blank
from sprocketmq.wire.records.record_layout import BLANK_BYTES, HOSTS_V6, LAYOUTS, MAGIC_V1, RECORD, V6_SHIFT

NO_LIMIT: Final = 1 << 63
"""A physical offset behind every record."""

_HEAD = RECORD.subset("size", "queue_id", "queue_offset")  # fields by which a record and its queue entry are compared
_sys_flag_of = RECORD.subset("sys_flag").unpack_from
_STORE_TIMESTAMP = tuple(layout.subset("store_timestamp_ms").unpack_from for layout in LAYOUTS)
_MAGIC_START = MAGIC_V1.to_bytes(RECORD.width("magic"), "big")[:3]  # both magics begin so
_PIECE_BYTES = 1 << 20
_NO_VIEW = memoryview(b"")


class CommitLog:
    """Writes at the end and reads everywhere.

    Attributes:
        at: the position of the end in the last file, which begins at ``start``; ``view``: that file, writable.
        room: the position up to which a record may reach in that file; a blank fits behind it.
        last_store_timestamp_ms: of the newest record.
        indexed_offset: the offset of the newest record that has its queue entry, for the checkpoint; -1 if there is none.
    """

    __slots__ = (
        "at",
        "file_size_bytes",
        "files",
        "indexed_offset",
        "last_store_timestamp_ms",
        "preallocator",
        "room",
        "start",
        "view",
    )

    def __init__(self, files: MappedFileQueue) -> None:
        self.files = files
        self.file_size_bytes = files.file_size_bytes
        self.view, self.at, self.room, self.start = _NO_VIEW, 0, -1, 0
        self.preallocator = Preallocator()
        self.last_store_timestamp_ms = 0
        self.indexed_offset = -1

    @property
    def min_offset(self) -> int:
        return self.files.start

    @property
    def max_offset(self) -> int:
        """The physical offset of the next record, unless it does not fit into the file."""
        return self.start + self.at

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def reserve(self, size_bytes: int) -> int:
        """Make room for ``size_bytes`` in one piece. Returns the physical offset at which they will begin. Raises
        ConfigurationError (they do not fit into a file), StoreNotWritable (no space; nothing has changed)."""
        if self.at + size_bytes > self.room:
            self._make_room(size_bytes)
        return self.start + self.at

    def _make_room(self, size_bytes: int) -> None:
        needed = size_bytes + BLANK_BYTES
        if needed > self.file_size_bytes:
            raise ConfigurationError(
                f"the record has {size_bytes} bytes, a commit log file takes {self.file_size_bytes - BLANK_BYTES}; "
                "send smaller messages or batches, or raise mappedFileSizeCommitLog"
            )
        file = self.files.file_at(self.start + self.at)
        if file is None or self.at + needed > self.file_size_bytes:
            file = self._roll(file, needed)
        else:
            self.preallocator.ensure(file, self.at, self.at + needed)
        self.view, self.room = file.view, file.room - BLANK_BYTES

    def _roll(self, full: StoreFile | None, needed: int) -> StoreFile:
        following = self.max_offset if full is None else full.end
        # The next file may exist already, if there was a crash between its creation and its first record.
        file = self.files.file_at(following) or self.files.create_file(following)
        self.preallocator.ensure(file, 0, needed)
        if full is not None and self.at < full.size_bytes:  # only now, because a blank means that the next file exists
            full.ensure_space(self.at, self.at + BLANK_BYTES)
            full.view[self.at : self.at + BLANK_BYTES] = encode_blank(full.size_bytes - self.at)
        # The flush thread reads start + at without a lock. In this order it can see an end that is too small, never one that is too large.
        self.at = 0
        self.start = following
        return file

    def write(self, record: bytes | memoryview) -> None:
        view, at = self.view, self.at
        end = at + len(record)
        view[at + 8 : end] = record[8:]
        view[at : at + 8] = record[:8]  # last, see "Torn writes" above
        self.at = end

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def slice(self, physical_offset: int, size_bytes: int) -> memoryview:
        """A read-only view. Raises StoreCorrupt (the range is not inside the log, so a queue entry is wrong)."""
        file = self.files.file_at(physical_offset)
        if file is None or physical_offset + size_bytes > self.start + self.at:
            raise StoreCorrupt(
                f"a queue entry points at {size_bytes} bytes at {physical_offset}, the log has {self.min_offset} to "
                f"{self.max_offset}; stop the broker and run: sprocketmq store check"
            )
        at = physical_offset - file.start
        return file.readable[at : at + size_bytes]

    def data(self, physical_offset: int, max_bytes: int) -> memoryview | None:
        """The bytes from ``physical_offset`` on, at most to the file's end, for slaves. None if there are none."""
        file = self.files.file_at(physical_offset)
        if file is None or file.start > self.start:  # the next file may exist before its first record
            return None
        at = physical_offset - file.start
        end = min(self.at if file.start == self.start else file.size_bytes, at + max_bytes)
        return file.readable[at:end] if at < end else None

    def part_at(self, physical_offset: int, log_end: int) -> tuple[memoryview, int, int]:
        """A read-only view of the file, where it begins, and the end of what is written. Raises as ``slice``."""
        file = self.files.file_at(physical_offset)
        if file is None or physical_offset >= log_end:
            self.slice(physical_offset, 1)
            raise AssertionError("slice must raise here")
        return file.readable, file.start, min(file.end, log_end)

    def view_at(self, physical_offset: int, *, check_crc: bool = False, limit: int | None = None) -> RecordView | None:
        """The valid record that begins there; None if none does. ``limit``: it must end before this offset; default: the end of the
        log. Recovery, which does not know the end yet, gives NO_LIMIT."""
        file = self.files.file_at(physical_offset)
        if limit is None:
            limit = self.max_offset
        if file is None or physical_offset >= limit:
            return None
        try:
            record = check_record(file.data, physical_offset - file.start, check_crc)
        except ProtocolError:
            return None
        if physical_offset + record.size > limit:
            return None
        return record if _is_whole(record, physical_offset) else None

    def has_head(self, physical_offset: int, size_bytes: int, queue_id: int, queue_offset: int) -> bool:
        """Whether a record with this size, queue and offset begins there: a cheap check of a queue entry."""
        file = self.files.file_at(physical_offset)
        if file is None or size_bytes < _HEAD.size or physical_offset + size_bytes > self.start + self.at:
            return False
        at = physical_offset - file.start
        return at + size_bytes <= file.size_bytes and _HEAD.unpack_from(file.readable, at) == (
            size_bytes,
            queue_id,
            queue_offset,
        )

    def store_timestamp_at(self, physical_offset: int) -> int:
        file = self.files.file_at(physical_offset)
        if file is None:
            return -1
        view, at = file.readable, physical_offset - file.start
        (sys_flag,) = _sys_flag_of(view, at)
        timestamp: int = _STORE_TIMESTAMP[(sys_flag & HOSTS_V6) >> V6_SHIFT](view, at)[0]
        return timestamp

    def end_at(self, physical_offset: int) -> None:
        self.view, self.room = _NO_VIEW, -1
        file = self.files.file_at(physical_offset)
        if file is not None:
            self.start, self.at = file.start, physical_offset - file.start
        elif self.files.files:  # exactly at the end of the last file
            self.start, self.at = self.files.files[-1].start, self.file_size_bytes
        else:
            self.start, self.at = 0, 0

    def offset_after_blank(self, physical_offset: int) -> int | None:
        file = self.files.file_at(physical_offset)
        if file is None:
            return None
        return file.end if blank_size(file.data, physical_offset - file.start) else None

    def offset_after_damage(self, physical_offset: int, check_crc: bool, *, over_zeros: bool = False) -> int | None:
        """The offset of the next valid record after a damaged one; None if the log ends there. The head of a record is written
        last: if it is zero, the log ends, unless it is known to go on (``over_zeros``)."""
        for index, file in enumerate(self.files.files):
            at = physical_offset - file.start
            if at >= file.size_bytes:
                continue
            if at >= 0 and not over_zeros and not any(file.read(at, 8)):
                return None
            found = self.next_record_in(file, max(at, 0), check_crc)
            if found is not None:
                return found
            if index == len(self.files.files) - 1:
                return None
        return None

    def damaged_body_at(self, physical_offset: int) -> RecordView | None:
        """The record there, if only its body is damaged: all its lengths are right, and the log goes on or ends behind it."""
        record = self.view_at(physical_offset, limit=NO_LIMIT)
        if record is None:
            return None
        end = physical_offset + record.size
        file = self.files.file_at(end)
        goes_on = self.view_at(end, limit=NO_LIMIT) or self.offset_after_blank(end)
        ends = file is None or not any(file.read(end - file.start, 8))
        return record if goes_on or ends else None

    def next_record_in(self, file: StoreFile, at: int, check_crc: bool) -> int | None:
        """The offset of the first valid record in a file behind the damaged one at position ``at``."""
        while at < file.size_bytes:
            piece = file.read(at, _PIECE_BYTES)
            place = piece.find(_MAGIC_START, 5)  # behind the head of the damaged one
            while place >= 0:
                candidate = file.start + at + place - 4
                if self.view_at(candidate, check_crc=check_crc, limit=NO_LIMIT) is not None:
                    return candidate
                place = piece.find(_MAGIC_START, place + 1)
            if len(piece) < _PIECE_BYTES:
                return None
            at += _PIECE_BYTES - 16
        return None

    def has_data_after_end(self) -> bool:
        """Whether not only zeros follow the end, or a later file begins with data. A later file without a record exists if the disk
        was full after its creation (``_roll``). The log continues there."""
        file = self.files.file_at(self.max_offset)
        if file is None:
            return False
        later = self.files.files[self.files.files.index(file) + 1 :]
        return any(file.data[self.at : self.at + 64]) or any(any(each.data[:64]) for each in later)

    def truncate_to_end(self) -> None:
        self.view, self.room = _NO_VIEW, -1
        self.files.truncate_to(self.max_offset)


def _is_whole(record: RecordView, physical_offset: int) -> bool:
    if record.physical_offset != physical_offset:
        return False
    # Lengths and checksum do not cover topic and properties. Zeros in them show a page that did not reach the disk.
    properties = record.raw_properties
    return 0 not in record.topic_bytes and (not properties or properties[-1] != 0)

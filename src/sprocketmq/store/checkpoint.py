"""How far the disk was known to be good: where recovery may begin after a crash. Java: StoreCheckpoint.

    0  physicMsgTimestamp   int64   store time of the last flushed record
    8  logicsMsgTimestamp   int64   ... whose queue entry is flushed too
    16 indexMsgTimestamp    int64   ... that the key index has
    24 masterFlushedOffset  int64   5.x, kept as found
    32 confirmPhyOffset     int64   5.x, kept as found
    2048 "SPRKTMQ1", durable offset int64: a record begins there, and it and all before it are flushed with their queue entries
    2112 "SPRKTIX1", offset int64, 17 characters, int32, int32: everything before the offset is in the index, whose newest file has that
         name; numbers of slots and entries of each index file
    2176 "SPRKTCQ1", int64 each: end of the log, number of queues with entries, sum of their ends, at the last clean stop
         (these three are ours; Java leaves them alone)

4096 bytes, zero elsewhere. Timestamps find a file (Java's rule), ours finds a record, so that a restart scans a second of writes and not
a whole gigabyte. The log only grows, so an old value of ours is merely early; recovery checks that a record begins there.
"""

from __future__ import annotations

import os
import struct

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.mapped_file import not_writable

__all__ = ["Checkpoint"]

_SIZE_BYTES = 4096
_TIMES = struct.Struct(">qqqqq")
_OURS = struct.Struct(">8sq")
_OURS_AT = 2048
_INDEX = struct.Struct(">8sq17sii")
_INDEX_AT = 2112
_INDEX_MARK = b"SPRKTIX1"
_CENSUS = struct.Struct(">8sqqq")
_CENSUS_AT = 2176
_CENSUS_MARK = b"SPRKTCQ1"
_MARK = b"SPRKTMQ1"
_SAFETY_MS = 3_000  # StoreCheckpoint.getMinTimestamp


class Checkpoint:
    """The fields, and ``load`` / ``save`` of the file; ``path=None`` keeps them in memory."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_phy_offset = 0
        self.durable_offset: int | None = None
        self.index_mark: tuple[str, int] | None = None  # (name of the newest index file, dispatched up to)
        self.index_numbers: tuple[int, int] | None = None  # slots and entries of an index file
        self.census: tuple[int, int, int] | None = None  # (end of the log, queues, sum of their ends)

    @property
    def min_timestamp_ms(self) -> int:
        """Everything stored before this time is on the disk with its queue entry."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MS)

    def load(self) -> None:
        """Read the file; a missing or short one means that nothing is known.

        Raises:
            StoreCorrupt: something is there that cannot be read.
        """
        if self.path is None or not os.path.exists(self.path):
            return
        try:
            with open(self.path, "rb") as file:
                raw = file.read(_SIZE_BYTES).ljust(_SIZE_BYTES, b"\0")
        except OSError as error:
            raise StoreCorrupt(f"{self.path} cannot be read: {error.strerror}; remove it, it is made anew") from error
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ) = _TIMES.unpack_from(raw)
        mark, offset = _OURS.unpack_from(raw, _OURS_AT)
        self.durable_offset = offset if mark == _MARK else None
        mark, offset, name, slot_count, entry_limit = _INDEX.unpack_from(raw, _INDEX_AT)
        self.index_numbers = (slot_count, entry_limit) if mark == _INDEX_MARK and slot_count > 0 < entry_limit else None
        mark_of_census, *census = _CENSUS.unpack_from(raw, _CENSUS_AT)
        self.census = (census[0], census[1], census[2]) if mark_of_census == _CENSUS_MARK else None
        self.index_mark = (name.rstrip(b"\0").decode("ascii", "replace"), offset) if mark == _INDEX_MARK else None

    def save(self) -> None:
        """Write and sync, in place: the length never changes and each value is valid on its own.

        Raises:
            StoreNotWritable: the disk said no.
        """
        if self.path is None:
            return
        raw = bytearray(_SIZE_BYTES)
        _TIMES.pack_into(
            raw, 0, self.physic_msg_timestamp, self.logics_msg_timestamp, self.index_msg_timestamp,
            self.master_flushed_offset, self.confirm_phy_offset,
        )  # fmt: skip
        if self.durable_offset is not None:
            _OURS.pack_into(raw, _OURS_AT, _MARK, self.durable_offset)
        if self.index_mark is not None:
            name, offset = self.index_mark
            _INDEX.pack_into(
                raw, _INDEX_AT, _INDEX_MARK, offset, name.encode("ascii", "replace"), *(self.index_numbers or (0, 0))
            )
        if self.census is not None:
            _CENSUS.pack_into(raw, _CENSUS_AT, _CENSUS_MARK, *self.census)
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            try:
                os.write(fd, raw)
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise not_writable(self.path, error) from error

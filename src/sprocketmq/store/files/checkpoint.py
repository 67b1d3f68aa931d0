# SPDX-License-Identifier: Apache-2.0
"""The checkpoint: up to where data is known to be on the disk, so that recovery can begin there after a crash. Java:
StoreCheckpoint.

Java's timestamps come first. Seven parts of ours, each behind a mark, follow at a place that Java does not touch; the rest of 4096
bytes is zero. Java finds a file by its timestamps; we find a record by an offset, so that a restart scans a second of writes and
not a gigabyte.

A Java broker may open the store of a killed broker of ours. Its use of the timestamps must not leave a hole:

1. It scans the log from a file that begins 3 s before the first two (CommitLog.isMappedFileMatchedRecover), so neither is later than
   what the disk has of log and queues.
2. The same scan gives it the keys that the index lacks, so the second is not later than what the disk has of the index either.
3. It deletes each index file that ends later than the third (IndexService.load), and never reads the keys before its scan again. So
   the third runs ahead of the entries: ``raise_index_timestamp`` comes before them, and a clean stop sets it to what is true.
"""

from __future__ import annotations

import logging
import os
import threading
import zlib
from typing import Any, NamedTuple

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files.disk_space import write_all
from sprocketmq.store.files.mapped_file import opened
from sprocketmq.wire.layout import Layout

_SIZE_BYTES = 4096
_LAYOUT = Layout(
    ("physic_msg_timestamp", "q"),  # store time of the last flushed record
    ("logics_msg_timestamp", "q"),  # ... whose queue entry is flushed too (and whose keys are in the index, rule 2)
    ("index_msg_timestamp", "q"),  # no index file in use ends later (rule 3)
    ("master_flushed_offset", "q"),  # 5.x, kept as found
    ("confirm_phy_offset", "q"),  # 5.x, kept as found
)
_TIMES = _LAYOUT.struct
_INDEX_TIME_AT = _LAYOUT.at["index_msg_timestamp"]
_INDEX_TIME = _LAYOUT.single("index_msg_timestamp")


class _Section:
    def __init__(self, at: int, mark: bytes, *fields: tuple[str, str]) -> None:
        self.at, self._mark = at, mark
        self._struct = Layout(("mark", f"{len(mark)}s"), *fields).struct

    def read(self, raw: bytes) -> tuple[Any, ...] | None:
        mark, *values = self._struct.unpack_from(raw, self.at)
        return tuple(values) if mark == self._mark else None

    def write(self, raw: bytearray, *values: Any) -> None:
        self._struct.pack_into(raw, self.at, self._mark, *values)


_OURS_AT = 2048
# The offset of a record. It and all records before it are flushed with their queue entries.
_DURABLE = _Section(_OURS_AT, b"SPRKTMQ1", ("offset", "q"))
# Where the files begin, from which a start sees that the first ones are missing.
_BEGINS = _Section(
    2064,
    b"SPRKTBG1",
    ("log", "q"),  # the log begins here or before; written before retention deletes a file
    ("sum_of_queues", "q"),  # of the first bytes of all queues' first files, at the last clean stop
)
# A Java broker wrote the store last before this place.
_JAVA = _Section(2088, b"SPRKTJV1", ("end", "q"))
_INDEX = _Section(
    2112,
    b"SPRKTIX1",
    ("offset", "q"),  # every record before it is in the index
    ("newest_file", "17s"),  # its name
    ("slot_count", "i"),  # of each index file
    ("entry_limit", "i"),
    ("index_count", "i"),  # of the newest file's header
    ("store_timestamp_ms", "q"),  # of the record before the offset
)
# At the last clean stop.
_QUEUE_TOTALS = _Section(2176, b"SPRKTCQ1", ("end_of_log", "q"), ("queues", "q"), ("sum_of_their_ends", "q"))
# The first two timestamps as we wrote them; a Java broker that writes the file has others.
_STAMP = _Section(2208, b"SPRKTTM1", ("physic_msg_timestamp", "q"), ("logics_msg_timestamp", "q"))
# CRC-32 of our parts before it. If it is wrong, a bit has flipped, and our parts are ignored.
_CHECKSUM = _Section(2240, b"SPRKTSL1", ("crc", "I"))
INDEX_AHEAD_MS = 60_000
_LARGEST_INT64 = (1 << 63) - 1
_SAFETY_MS = 3_000  # StoreCheckpoint.getMinTimestamp
_log = logging.getLogger("sprocketmq.store")


class IndexProgress(NamedTuple):
    newest_file: str  # name, empty without files
    offset: int  # every record before it is in the index
    index_count: int = 0  # of the newest file's header
    store_timestamp_ms: int = 0  # of the newest record before the offset


class QueueTotals(NamedTuple):
    """What the queues had in front of a place of the log, by which a start notices lost queues."""

    log_end: int
    queues: int  # with entries
    sum_of_ends: int  # of those queues


class Checkpoint:
    """The fields of the file; ``path=None`` keeps them in memory."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_phy_offset = 0
        self.durable_offset: int | None = None
        self.index_mark: IndexProgress | None = None  # of the last sync of the index
        self.indexed_timestamp: int | None = None  # limits the second timestamp (rule 2); None = there is no index
        self.is_ours = False  # no Java broker has written the file since we did
        self.index_numbers: tuple[int, int] | None = None  # slots and entries of an index file
        self.queue_totals: QueueTotals | None = None
        self.log_begin: int | None = None  # the log begins here or before, unless a Java broker has deleted files since
        self.sum_of_queue_begins: int | None = None  # at the last clean stop
        # A Java broker has had the log in front of it, and deletes topics without a note.
        self.javas_end: int | None = None
        self._writing = threading.Lock()  # writes keep the order of packing

    @property
    def min_timestamp_ms(self) -> int:
        """Everything stored before this time is on the disk with its queue entry."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MS)

    def load(self) -> None:
        """If the file is missing or short, nothing is known. Raises StoreCorrupt (something is there that cannot be read)."""
        if self.path is None or not os.path.exists(self.path):
            return
        try:
            with open(self.path, "rb") as file:
                raw = file.read(_SIZE_BYTES).ljust(_SIZE_BYTES, b"\0")
        except OSError as error:
            raise StoreCorrupt(f"{self.path} cannot be read: {error.strerror}; remove it, it is rebuilt") from error
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ) = _TIMES.unpack_from(raw)
        seal = _CHECKSUM.read(raw)
        if seal is not None and seal != (zlib.crc32(raw[_OURS_AT : _CHECKSUM.at]),):
            _log.warning("%s is damaged; the start checks more of the log", self.path)
            return
        (self.durable_offset,) = _DURABLE.read(raw) or (None,)
        self.index_numbers = None
        if (index := _INDEX.read(raw)) is not None:
            offset, name, slot_count, entry_limit, count, time_ms = index
            self.index_numbers = (slot_count, entry_limit) if slot_count > 0 < entry_limit else None
            self.index_mark = IndexProgress(name.rstrip(b"\0").decode("ascii", "replace"), offset, count, time_ms)
        queue_totals = _QUEUE_TOTALS.read(raw)
        self.queue_totals = None if queue_totals is None else QueueTotals(*queue_totals)
        self.log_begin, self.sum_of_queue_begins = _BEGINS.read(raw) or (None, None)
        (self.javas_end,) = _JAVA.read(raw) or (None,)
        self.is_ours = _STAMP.read(raw) == (self.physic_msg_timestamp, self.logics_msg_timestamp)

    def save(self) -> None:
        """Write and sync, in place: the length never changes and each value is valid on its own. Raises StoreNotWritable."""
        if self.path is None:
            return
        with opened(self.path) as fd:
            with self._writing:
                write_all(fd, self._packed(), 0)
            os.fsync(fd)
        self.is_ours = True

    def _packed(self) -> bytearray:
        raw = bytearray(_SIZE_BYTES)
        logics_ms = self.logics_msg_timestamp
        if self.indexed_timestamp is not None:
            logics_ms = min(logics_ms, self.indexed_timestamp)
        _TIMES.pack_into(
            raw, 0, self.physic_msg_timestamp, logics_ms, self.index_msg_timestamp, self.master_flushed_offset,
            self.confirm_phy_offset,
        )  # fmt: skip
        _STAMP.write(raw, self.physic_msg_timestamp, logics_ms)
        if self.durable_offset is not None:
            _DURABLE.write(raw, self.durable_offset)
        if self.log_begin is not None:
            _BEGINS.write(raw, self.log_begin, -1 if self.sum_of_queue_begins is None else self.sum_of_queue_begins)
        if self.javas_end is not None:
            _JAVA.write(raw, self.javas_end)
        if self.index_mark is not None:
            name, offset, count, time_ms = self.index_mark
            numbers = self.index_numbers or (0, 0)
            _INDEX.write(raw, offset, name.encode("ascii", "replace"), *numbers, count, time_ms)
        if self.queue_totals is not None:
            _QUEUE_TOTALS.write(raw, *self.queue_totals)
        _CHECKSUM.write(raw, zlib.crc32(raw[_OURS_AT : _CHECKSUM.at]))
        return raw

    def forget(self) -> None:
        """Forget what was there: the loss of files was accepted. Not saved."""
        self.physic_msg_timestamp = self.logics_msg_timestamp = self.index_msg_timestamp = self.confirm_phy_offset = 0
        self.durable_offset = self.index_mark = self.queue_totals = self.log_begin = self.sum_of_queue_begins = None
        self.javas_end = None

    def raise_index_timestamp(self, store_timestamp_ms: int) -> None:
        """Before an index file gets an entry of a record that was stored then (rule 3). Nothing is synced: the rule is about kills.
        Raises StoreNotWritable."""
        if store_timestamp_ms <= self.index_msg_timestamp or self.path is None:
            return
        with opened(self.path) as fd, self._writing:
            ahead_ms = min(store_timestamp_ms + INDEX_AHEAD_MS, _LARGEST_INT64)
            write_all(fd, _INDEX_TIME.pack(ahead_ms), _INDEX_TIME_AT)
            self.index_msg_timestamp = ahead_ms

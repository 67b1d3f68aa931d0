# SPDX-License-Identifier: Apache-2.0
"""The timer log: one unit for each waiting message, linked backwards by slot. Java: timer.TimerLog.

The files of ``timerlog/`` have 100 MiB. A blank ends a file that has no room for a unit and a blank. Positions count through all
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sprocketmq.store.files.mapped_file import StoreFile, sync_directory
from sprocketmq.store.files.mapped_file_queue import MappedFileQueue
from sprocketmq.wire.layout import Layout

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
MAGIC_DELETE: Final = 4
_MAGIC_LIMIT: Final = 0xF
_MAGIC_BLANK: Final = 0xBBCCDDEE ^ (1_880_681_586 + 8)
_LAYOUT: Final = Layout(
    ("size", "i"),  # of the unit
    ("previous", "q"),  # position of the slot's unit before this one
    ("magic", "i"),  # 1, plus 2 if the message is stored again and not delivered, plus 4 for a recall
    ("write_ms", "q"),  # when it was written: a slot
    ("delayed_ms", "i"),  # the slot's time - write_ms
    ("physical", "q"),  # of the waiting record in the commit log
    ("record_size", "i"),
    ("topic_hash", "i"),  # Java's hash of the real topic
    ("reserved", "q"),
)
_BLANK: Final = Layout(
    ("size", "i"), ("previous", "q"), ("magic", "I")
).struct  # bytes that remain in the file, 0, _MAGIC_BLANK
_UNIT: Final = _LAYOUT.struct
UNIT_BYTES: Final = _LAYOUT.size
_PIECE_BYTES: Final = UNIT_BYTES * 20_000


class TimerUnit(NamedTuple):
    previous: int
    magic: int
    write_ms: int
    delayed_ms: int
    physical_offset: int
    size: int
    topic_hash: int = 0

    @property
    def slot_ms(self) -> int:
        return self.write_ms + self.delayed_ms

    @property
    def rolls(self) -> bool:
        """Whether the message is stored again in a later slot and not delivered."""
        return self.magic & MAGIC_ROLL != 0

    @property
    def deletes(self) -> bool:
        """Whether it recalls another message of its slot."""
        return self.magic & MAGIC_DELETE != 0


def slot_times_ms(units: Any) -> Any:
    """Of an array of units."""
    return units["write_ms"].astype("int64") + units["delayed_ms"]


class TimerLog:
    def __init__(self, directory: str | None, file_size_bytes: int) -> None:
        self.files = MappedFileQueue(directory, file_size_bytes, "mappedFileSizeTimerLog", folders_above=1)
        self.end = 0

    def load(self) -> None:
        self.files.load_whole()
        self.files.new_files = bool(self.files.files)  # a killed process may not have synced their names
        self.end = self.files.start

    def append(self, unit: TimerUnit) -> int:
        """Returns its position. Raises StoreNotWritable; nothing was written."""
        files, size = self.files, self.files.file_size_bytes
        file = files.file_at(self.end) or files.create_file(self.end - self.end % size)
        at = self.end - file.start
        if size - at < UNIT_BYTES + _BLANK.size:
            if size - at >= _BLANK.size:
                file.ensure_space(at, at + _BLANK.size)
                _BLANK.pack_into(file.view, at, size - at, 0, _MAGIC_BLANK)
            self.end = file.start + size
            file, at = files.create_file(self.end), 0
        if at + UNIT_BYTES > file.room:
            file.ensure_space(at, at + UNIT_BYTES)
        _UNIT.pack_into(
            file.view, at, UNIT_BYTES, unit.previous, unit.magic, unit.write_ms, unit.delayed_ms, unit.physical_offset, unit.size,
            unit.topic_hash, 0,
        )  # fmt: skip
        position = self.end
        self.end += UNIT_BYTES
        return position

    def read(self, position: int) -> TimerUnit | None:
        file = self.files.file_at(position)
        if file is None or not 0 <= position <= self.end - UNIT_BYTES:
            return None
        at = position - file.start
        if at + UNIT_BYTES > file.size_bytes:
            return None
        size, previous, magic, write_ms, delayed_ms, physical, record_size, topic_hash, _ = _UNIT.unpack_from(
            file.readable, at
        )
        if size != UNIT_BYTES or not 0 <= magic <= _MAGIC_LIMIT:
            return None
        return TimerUnit(previous, magic, write_ms, delayed_ms, physical, record_size, topic_hash)

    def recover(self, begin: int, log_end: int) -> None:
        """Find ``end``, the first place from ``begin`` on without a unit of a record before ``log_end``; everything behind it
        becomes zero. After a power cut a unit may be there without its record, and another message gets that place in the commit
        log."""
        files, size = self.files, self.files.file_size_bytes
        for file in files.files:
            if file.end <= begin and file is not files.files[-1]:
                continue
            first = max(0, begin - file.start) if begin < file.end else 0
            at = _good_until(file, first - first % UNIT_BYTES, log_end)
            self.end, file.room = file.start + at, at
            if size - at >= UNIT_BYTES + _BLANK.size:
                break
        if files.files:
            files.truncate_to(self.end)

    def scan(self, begin: int) -> Iterator[tuple[int, Any]]:
        """(position of the first unit, array of units) for each file from the unit at ``begin`` on. The arrays are copies."""
        for file in self.files.files:
            first = max(begin, file.start)
            last = min(self.end, self._last_of_full(file.start) + UNIT_BYTES)
            count = (last - first) // UNIT_BYTES
            if count > 0:
                at = first - file.start
                import numpy as np  # takes a tenth of a second, so only if there is a unit

                units = np.frombuffer(file.readable[at : at + count * UNIT_BYTES], _LAYOUT.columns()).copy()
                yield first, units

    def align(self, position: int) -> int:
        position = min(max(position, self.files.start), self.end)
        file = self.files.file_at(position)
        return position if file is None else position - (position - file.start) % UNIT_BYTES

    def last_unit(self) -> TimerUnit | None:
        file = self.files.file_at(self.end - 1) if self.end > self.files.start else None
        if file is None:
            return None
        full = self.end == file.end
        return self.read(self._last_of_full(file.start) if full else self.end - UNIT_BYTES)

    def _last_of_full(self, start: int) -> int:
        size = self.files.file_size_bytes
        return start + (size - _BLANK.size) // UNIT_BYTES * UNIT_BYTES - UNIT_BYTES

    def delete_before(self, min_physical_offset: int) -> int:
        """Delete files whose last unit points below ``min_physical_offset``; returns how many. The last file stays. Raises
        StoreNotWritable."""
        deleted = 0
        while len(self.files.files) > 1:
            unit = self.read(self._last_of_full(self.files.start))
            if unit is None or unit.physical_offset >= min_physical_offset or not self.files.delete_first():
                break
            deleted += 1
        return deleted

    def sync(self, begin: int) -> None:
        for directory in self.files.take_new_directories():
            sync_directory(directory)
        for file in list(self.files.files):
            if file.end > begin and file.start < self.end:
                file.sync()

    def close(self) -> None:
        self.files.unmap()


def _good_until(file: StoreFile, at: int, log_end: int) -> int:
    import numpy as np

    while True:
        # Copy piece by piece: reading a sparse file to its end through the mapping would take memory, and a file with a view in use
        # cannot be truncated.
        raw = file.read(at, _PIECE_BYTES)
        units = np.frombuffer(raw, _LAYOUT.columns(), count=len(raw) // UNIT_BYTES)
        bad = np.flatnonzero(
            (units["size"] != UNIT_BYTES)
            | (units["magic"] < 0)
            | (units["magic"] > _MAGIC_LIMIT)
            | (units["physical"] >= log_end)
            | (units["record_size"] <= 0)  # a power cut took its second page
        )
        if len(bad):
            return at + int(bad[0]) * UNIT_BYTES
        at += len(units) * UNIT_BYTES
        if len(raw) < _PIECE_BYTES:
            return at

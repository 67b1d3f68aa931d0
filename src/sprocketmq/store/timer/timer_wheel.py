# SPDX-License-Identifier: Apache-2.0
"""The timer wheel: for each second, the end in the timer log of the list of messages that are due then. Java: timer.TimerWheel,
Slot.

The file ``timerwheel`` has the slots of two weeks; that of a time is at ``time / precision % slots``. It is sparse and is created
with the first timer message. Slots that are still needed are also kept in a dict, which reads use.
"""

from __future__ import annotations

import mmap
import os
from typing import BinaryIO, Final

import msgspec

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.files.disk_space import PAGE_BYTES, allow_writes, data_ranges
from sprocketmq.store.files.mapped_file import disk_errors, opened, sync_directory, sync_path
from sprocketmq.wire.layout import Layout

WHEEL_SLOTS: Final = 2 * 7 * 24 * 3600
_SLOT: Final = Layout(
    # / precision: the time of this slot; slots are used again after two weeks, so an old time means an empty slot
    ("time", "q"),
    ("first", "q"),  # position of the slot's first unit in the timer log
    ("last", "q"),  # units are linked backwards from here
    ("number", "i"),  # waiting messages without recalled ones, for flow control
    ("magic", "i"),  # kept as found
).struct
WHEEL_BYTES: Final = WHEEL_SLOTS * _SLOT.size
_READ_BYTES: Final = 1 << 20


class Slot(msgspec.Struct, gc=False):
    """The list of one second; positions are offsets in the timer log, -1 means none."""

    time_ms: int
    first: int = -1
    last: int = -1
    number: int = 0
    magic: int = 0


class TimerWheel:
    """The slots by their time in ms, which is a multiple of ``precision_ms``. ``path=None``: in memory."""

    def __init__(self, path: str | None, precision_ms: int) -> None:
        self.path, self.precision_ms = path, precision_ms
        self.slots: dict[int, Slot] = {}
        self.emptied: dict[int, int] = {}  # slots that were found empty -> the last unit that was delivered of them
        self._map: mmap.mmap | None = None
        self._is_new = False  # its name may not be on the disk
        self._may_differ = False  # from what is on the disk
        self._pages: set[int] = set()  # pages with reserved disk space

    @property
    def exists(self) -> bool:
        return self.path is not None and os.path.exists(self.path) and os.path.getsize(self.path) > 0

    def load(self, since_ms: int) -> None:
        self.slots.clear()
        self.emptied.clear()
        if self.path is None or not os.path.exists(self.path):
            return
        self._is_new = self._may_differ = True  # a killed process may have synced neither its name nor its bytes
        length = os.path.getsize(self.path)
        if length not in (0, WHEEL_BYTES):
            raise StoreCorrupt(
                f"{self.path} has {length} bytes where {WHEEL_BYTES} are expected; move it away and start again: it is rebuilt"
            )
        with open(self.path, "rb") as file:
            for begin, end in data_ranges(file.fileno(), length):
                self._read_range(file, begin, end, since_ms)

    def _read_range(self, file: BinaryIO, begin: int, end: int, since_ms: int) -> None:
        begin -= begin % _SLOT.size
        end += -end % _SLOT.size
        while begin < end:
            file.seek(begin)
            raw = file.read(min(_READ_BYTES, end - begin))
            if not raw:
                return
            for number, (unit, first, last, count, magic) in enumerate(
                _SLOT.iter_unpack(raw[: len(raw) - len(raw) % _SLOT.size]), begin // _SLOT.size
            ):
                time_ms = unit * self.precision_ms
                if time_ms >= since_ms and unit % WHEEL_SLOTS == number and time_ms > 0:
                    if last >= 0:
                        self.slots[time_ms] = Slot(time_ms, first, last, count, magic)
                    else:
                        self.emptied[time_ms] = first
            begin += len(raw)

    def get(self, time_ms: int) -> Slot | None:
        return self.slots.get(time_ms)

    def put(self, slot: Slot) -> None:
        """Raises StoreNotWritable; the slot is as before."""
        self._write(slot)
        self.slots[slot.time_ms] = slot

    def _write(self, slot: Slot) -> None:
        if self.path is not None:
            at = slot.time_ms // self.precision_ms % WHEEL_SLOTS * _SLOT.size
            view = self._map or self._open(self.path)
            if at // PAGE_BYTES not in self._pages:
                with disk_errors(self.path):
                    allow_writes(view, self.path, at, at + _SLOT.size)
                self._pages.add(at // PAGE_BYTES)
            _SLOT.pack_into(view, at, slot.time_ms // self.precision_ms, slot.first, slot.last, slot.number, slot.magic)
            self._may_differ = True

    def delete(self) -> None:
        self.close()
        self.slots.clear()
        if self.path is not None and os.path.lexists(self.path):
            os.unlink(self.path)

    def forget(self, time_ms: int) -> None:
        """Remove a delivered slot from memory. It stays in the file, as in Apache's: readers know up to when all is delivered."""
        self.slots.pop(time_ms, None)

    def empty(self, time_ms: int, last: int) -> None:
        """Remove a slot from the file, too, whose units up to ``last`` are delivered, and whose copies are on the disk: they do not come
        again if the clock is set back. Raises StoreNotWritable; the file is as before."""
        self._write(Slot(time_ms, first=last))
        self.slots.pop(time_ms, None)

    def number(self, time_ms: int) -> int:
        slot = self.slots.get(time_ms)
        return slot.number if slot is not None else 0

    def total(self) -> int:
        return sum(slot.number for slot in self.slots.values())

    def sync(self) -> None:
        if self.path is None or not self._may_differ:
            return
        self._may_differ, is_new = False, self._is_new  # before the sync: a later write sets it again
        try:
            sync_path(self.path)
            if is_new:
                sync_directory(os.path.dirname(self.path))
        except OSError:
            self._may_differ = True
            raise
        self._is_new = False

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
            self._pages.clear()

    def _open(self, path: str) -> mmap.mmap:
        with disk_errors(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._is_new |= not os.path.exists(path)
        with opened(path) as fd:
            if os.fstat(fd).st_size != WHEEL_BYTES:
                os.ftruncate(fd, WHEEL_BYTES)
            self._map = mmap.mmap(fd, WHEEL_BYTES)
            if hasattr(mmap, "MADV_RANDOM"):  # slots are scattered, so read-ahead would only read holes
                self._map.madvise(mmap.MADV_RANDOM)
        return self._map

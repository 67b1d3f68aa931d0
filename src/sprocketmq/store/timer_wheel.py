"""The timer wheel: for each second, where the list of messages due then ends in the timer log. Java: timer.TimerWheel, Slot.

    0  time / precision  i64     what this slot is about; slots are used again after two weeks, so an old time means: empty
    8  first position    i64     of the slot's units in the timer log
    16 last position     i64     units are linked backwards from here
    24 number            i32     waiting messages, less recalled ones: what flow control counts
    28 magic             i32     kept as found

The file ``timerwheel`` has 2 x 604,800 slots of 32 bytes; the slot of a time is at ``time / precision % slots``. It is sparse and made
with the first timer message. The slots that still matter are also kept in a dict, which is what is asked; the file only follows.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from sprocketmq.errors import StoreCorrupt
from sprocketmq.store.mapped_file import not_writable, sync_path

__all__ = ["WHEEL_BYTES", "WHEEL_SLOTS", "Slot", "TimerWheel"]

WHEEL_SLOTS: Final = 2 * 7 * 24 * 3600
_SLOT: Final = struct.Struct(">qqqii")
WHEEL_BYTES: Final = WHEEL_SLOTS * _SLOT.size
_READ_BYTES: Final = 1 << 20
_PAGE_BYTES: Final = 4096
_BINARY = getattr(os, "O_BINARY", 0)  # Windows


class Slot(msgspec.Struct, gc=False):
    """One second's list; positions are offsets in the timer log, -1: none."""

    time_ms: int
    first: int = -1
    last: int = -1
    number: int = 0
    magic: int = 0


class TimerWheel:
    """``slots`` by their time in ms, which is a multiple of ``precision_ms``.

    Args:
        path: the file; None keeps the wheel in memory.
        precision_ms: length of a slot.
    """

    def __init__(self, path: str | None, precision_ms: int) -> None:
        self.path, self.precision_ms = path, precision_ms
        self.slots: dict[int, Slot] = {}
        self._map: mmap.mmap | None = None
        self._pages: set[int] = set()  # whose place on the disk is taken

    @property
    def exists(self) -> bool:
        """Whether there is a file already."""
        return self.path is not None and os.path.exists(self.path)

    def load(self, since_ms: int) -> None:
        """Read the slots from ``since_ms`` on, however far away they are.

        Raises:
            StoreCorrupt: the file has another length than Apache's.
        """
        self.slots.clear()
        if self.path is None or not os.path.exists(self.path):
            return
        length = os.path.getsize(self.path)
        if length not in (0, WHEEL_BYTES):
            raise StoreCorrupt(
                f"{self.path} has {length} bytes where {WHEEL_BYTES} are expected; move it away and start again: it is rebuilt"
            )
        with open(self.path, "rb") as file:
            for begin, end in _data_ranges(file.fileno(), length):
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
                if time_ms >= since_ms and unit % WHEEL_SLOTS == number and time_ms > 0 and last >= 0:
                    self.slots[time_ms] = Slot(time_ms, first, last, count, magic)
            begin += len(raw)

    def get(self, time_ms: int) -> Slot | None:
        """The slot of a time, None when nothing waits there."""
        return self.slots.get(time_ms)

    def put(self, slot: Slot) -> None:
        """Write a slot.

        Raises:
            StoreNotWritable: the disk said no; the slot is as before.
        """
        if self.path is not None:
            at = slot.time_ms // self.precision_ms % WHEEL_SLOTS * _SLOT.size
            view = self._map or self._open(self.path)
            if at // _PAGE_BYTES not in self._pages:
                self._take_place(self.path, view, at - at % _PAGE_BYTES)
            _SLOT.pack_into(view, at, slot.time_ms // self.precision_ms, slot.first, slot.last, slot.number, slot.magic)
        self.slots[slot.time_ms] = slot

    def forget(self, time_ms: int) -> None:
        """The slot was delivered. The file keeps it, as Apache's does: whoever reads it knows the time up to which all is delivered."""
        self.slots.pop(time_ms, None)

    def number(self, time_ms: int) -> int:
        """Messages that wait in the slot of a time."""
        slot = self.slots.get(time_ms)
        return slot.number if slot is not None else 0

    def total(self) -> int:
        """Messages that wait."""
        return sum(slot.number for slot in self.slots.values())

    def sync(self) -> None:
        """Bring the file to the disk; blocks."""
        if self.path is not None and self._map is not None:
            sync_path(self.path)

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
            self._pages.clear()

    def _open(self, path: str) -> mmap.mmap:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o644)
            try:
                if os.fstat(fd).st_size != WHEEL_BYTES:
                    os.ftruncate(fd, WHEEL_BYTES)
                self._map = mmap.mmap(fd, WHEEL_BYTES)
            finally:
                os.close(fd)
        except OSError as error:
            raise not_writable(path, error) from error
        return self._map

    def _take_place(self, path: str, view: mmap.mmap, page_at: int) -> None:
        """Write a page as it is: in a sparse mapping a full disk would kill the process, an ordinary write only fails."""
        try:
            fd = os.open(path, os.O_RDWR | _BINARY)
            try:
                os.lseek(fd, page_at, os.SEEK_SET)
                os.write(fd, view[page_at : page_at + _PAGE_BYTES])
            finally:
                os.close(fd)
        except OSError as error:
            raise not_writable(path, error) from error
        self._pages.add(page_at // _PAGE_BYTES)


def _data_ranges(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """The parts of a sparse file that hold data; all of it where the system cannot tell."""
    seek_data, seek_hole = getattr(os, "SEEK_DATA", None), getattr(os, "SEEK_HOLE", None)
    if seek_data is None or seek_hole is None:
        yield 0, length
        return
    at = 0
    while at < length:
        try:
            begin = os.lseek(fd, at, seek_data)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only holes from here on
                return
            yield at, length
            return
        at = os.lseek(fd, begin, seek_hole)
        yield begin, at

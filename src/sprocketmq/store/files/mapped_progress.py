# SPDX-License-Identifier: Apache-2.0
"""Progress that survives a kill: a few numbers, written to the page cache at each change and never synced.

    "SPRKLIV4"  mark 16 bytes  count i64  120 numbers i64  the same 120 again           all in this machine's own byte order

The page cache survives the end of the process but not of the machine. So the numbers count only until the machine restarts, and
only in this very file, which the mark shows; in every other case the reader uses the progress that was synced together with the
messages.

1. A number is written in one piece, and twice, and the smaller one counts: a kill between the two writes, or a flipped bit, can repeat a
   step but cannot skip one.
2. ``save`` writes the last number first and a new count after all numbers. A caller with two related numbers changes them in an order in
   which every intermediate state is valid.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sprocketmq.store.files.disk_space import allow_writes, write_all
from sprocketmq.store.files.mapped_file import disk_errors, opened

_MAGIC: Final = b"SPRKLIV4"
_HEAD: Final = struct.Struct("=8s16sq")
_MAX_NUMBERS: Final = 120
_FILE_BYTES: Final = 4096
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_mark() -> bytes | None:
    """Changes with each start of the machine; None if the system has no such id."""
    try:
        return hashlib.sha256(_BOOT_ID.read_bytes()).digest()[:16]
    except OSError:
        return None


def file_mark(file: int | str) -> bytes | None:
    """16 bytes of a file, by descriptor or path, that change with each start of the machine, and that no copy of it has."""
    boot = boot_mark()
    return None if boot is None else hashlib.sha256(boot + _identity(file)).digest()[:16]


def _identity(file: int | str) -> bytes:
    found = os.stat(file)
    return b"%d %d" % (found.st_dev, found.st_ino)


class MappedProgress:
    """Numbers in a file, created with the first save; ``path=None``: nothing is stored. ``at``: place in its first 4096 bytes, a
    multiple of 8. ``count``: how many were saved. ``differs``: the two copies of a loaded number were different."""

    def __init__(self, path: str | None, at: int = 0) -> None:
        self.path = path if boot_mark() is not None else None
        self.count = 0
        self.differs = False
        self._at = at
        self._map: mmap.mmap | None = None
        self._numbers = memoryview(b"").cast("q")

    def load(self) -> tuple[int, ...] | None:
        if self.path is None or not os.path.exists(self.path):
            return None
        with open(self.path, "rb") as file:
            expected = file_mark(file.fileno())
            file.seek(self._at)
            raw = file.read(_HEAD.size + 2 * 8 * _MAX_NUMBERS)
        if len(raw) < _HEAD.size:
            return None
        magic, mark, count = _HEAD.unpack_from(raw)
        if magic != _MAGIC or mark != expected or not 0 <= count <= _MAX_NUMBERS:
            return None
        if len(raw) < _HEAD.size + 2 * 8 * _MAX_NUMBERS:
            return None
        once = struct.unpack_from(f"={count}q", raw, _HEAD.size)
        again = struct.unpack_from(f"={count}q", raw, _HEAD.size + 8 * _MAX_NUMBERS)
        self.differs = once != again
        return tuple(map(min, once, again))

    def save(self, numbers: Sequence[int]) -> None:
        if self.path is None:
            return
        if self._map is None:
            self._map = self._open(self.path)
            self._numbers = memoryview(self._map)[self._at + _HEAD.size :].cast("q")
        for index in reversed(range(len(numbers))):
            self._numbers[index] = self._numbers[_MAX_NUMBERS + index] = numbers[index]
        if len(numbers) != self.count:
            _HEAD.pack_into(self._map, self._at, _MAGIC, file_mark(self.path) or b"", len(numbers))
            self.count = len(numbers)

    def change(self, index: int, number: int) -> None:
        """Write one of the ``count`` numbers; cannot fail."""
        if index < self.count:
            self._numbers[index] = self._numbers[_MAX_NUMBERS + index] = number

    def _open(self, path: str) -> mmap.mmap:
        with disk_errors(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with opened(path) as fd:
            size = os.fstat(fd).st_size
            if size < _FILE_BYTES:
                write_all(fd, bytes(_FILE_BYTES - size), size)
            mapping = mmap.mmap(fd, _FILE_BYTES)
            try:
                allow_writes(mapping, path, 0, _FILE_BYTES)
            except OSError:
                mapping.close()
                raise
        return mapping

    def close(self) -> None:
        if self._map is not None:
            self._numbers.release()
            self._map.close()
            self._map, self.count = None, 0

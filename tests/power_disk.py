# SPDX-License-Identifier: Apache-2.0
"""What a power cut leaves of a folder: everything that was synced, and any part of the rest.

The model promises no more than POSIX does. ``fsync`` of a file keeps its bytes and its length, not its name; ``fsync`` of a folder keeps
the names in it as they are then, not what they name. At the cut each sector of 512 bytes and each name that has changed since is what it
was or what it is, each for itself: a rename can be there while an older one is not, a new file can be empty, a deleted one can be back.
File systems with a journal (ext4, XFS) keep more: there an ``fsync`` of anything keeps all names that were made before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECTOR_BYTES = 512
_PIECE_BYTES = 4096

Content = tuple[int, dict[int, bytes]]  # length, and the pieces that are not a hole, by number
_EMPTY: Content = (0, {})


def _content(fd: int) -> Content:
    length, pieces, at = os.fstat(fd).st_size, dict[int, bytes](), 0
    while at < length:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole to the end
                break
            raise
        for number in range(begin // _PIECE_BYTES, -(-at // _PIECE_BYTES)):
            piece = os.pread(fd, _PIECE_BYTES, number * _PIECE_BYTES)
            if any(piece):
                pieces[number] = piece.ljust(_PIECE_BYTES, b"\0")
    return length, pieces


class PowerDisk:
    """Watches ``os.fsync`` and ``os.fdatasync``. What lies below ``root`` at the beginning is on the disk.

    ``before_sync(number)`` is called with the number of each sync before it takes effect.

    Args:
        rows_in_order: of the files of one row (names of 20 digits) the later ones are there only if the earlier ones are, in full length.
            ext4, XFS, Btrfs, F2FS and ZFS do that: names and lengths in a folder come to the disk in the order in which they were made,
            and an ``fsync`` only makes them come sooner.
    """

    def __init__(self, root: Path, patch: Any, *, rows_in_order: bool = False) -> None:
        self.root = root
        self._rows_in_order = rows_in_order
        self.syncs = 0
        self.before_sync: Callable[[int], None] = lambda number: None
        self._lock = threading.RLock()
        self._held: dict[int, int] = {}  # inode -> descriptor, so that its number is not given to another file
        self._contents: dict[int, Content] = {}
        self._names: dict[int, dict[str, int]] = {}
        for path in [root, *sorted(root.rglob("*"))]:
            fd = os.open(path, os.O_RDONLY)
            self._keep(fd)
            os.close(fd)
        patch.setattr(os, "fsync", self.sync)
        patch.setattr(os, "fdatasync", self.sync)

    def close(self) -> None:
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()

    def sync(self, fd: int) -> None:
        with self._lock:
            self.syncs += 1
            self.before_sync(self.syncs)
            self._keep(fd)

    def _keep(self, fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if not path.startswith(str(self.root)):
            return
        inode = os.fstat(fd).st_ino
        if inode not in self._held:
            self._held[inode] = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        if os.path.isdir(path):
            self._names[inode] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._contents[inode] = _content(self._held[inode])

    def cut(self, to: Path, dice: random.Random) -> None:
        """Make ``to`` what the next start finds."""
        with self._lock:
            to.mkdir()
            self._folder(self.root.stat().st_ino, str(self.root), to, dice)

    def _folder(self, inode: int, path: str | None, to: Path, dice: random.Random) -> None:
        kept, now = self._names.get(inode, {}), dict[str, int]()
        if path is not None and os.path.isdir(path):
            now = {entry.name: entry.inode() for entry in os.scandir(path)}
        reaches = dice.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        found: dict[str, int] = {}
        names = sorted({*kept, *now})
        for name in names:
            chosen = (now if kept.get(name) != now.get(name) and dice.random() < reaches else kept).get(name)
            if chosen is not None and name != "lock":
                found[name] = chosen
            elif chosen is None and self._is_in_row(name) and name in now:
                break  # digits come before letters, and no folder has both
        for name, chosen in found.items():
            live = None if path is None or now.get(name) != chosen else os.path.join(path, name)
            if chosen in self._names or (live is not None and os.path.isdir(live)):
                (to / name).mkdir()
                self._folder(chosen, live, to / name, dice)
            else:
                whole = self._is_in_row(name) and name != max(found)
                self._file(chosen, live, to / name, dice, whole=whole)

    def _is_in_row(self, name: str) -> bool:
        return self._rows_in_order and name.isdigit() and len(name) == 20

    def _file(self, inode: int, live: str | None, to: Path, dice: random.Random, *, whole: bool) -> None:
        kept, now = self._contents.get(inode, _EMPTY), self._now(inode, live)
        length = now[0] if whole else dice.choice([kept[0], now[0]])
        reaches = dice.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        with open(to, "wb") as file:
            file.truncate(length)
            for number in sorted({*kept[1], *now[1]}):
                before, after = (content[1].get(number, bytes(_PIECE_BYTES)) for content in (kept, now))
                piece = after if before == after else b"".join(
                    (after if dice.random() < reaches else before)[at : at + SECTOR_BYTES]
                    for at in range(0, _PIECE_BYTES, SECTOR_BYTES)
                )  # fmt: skip
                at = number * _PIECE_BYTES
                if at < length and any(piece):
                    file.seek(at)
                    file.write(piece[: length - at])

    def _now(self, inode: int, live: str | None) -> Content:
        if inode in self._held:
            return _content(self._held[inode])
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(live or "", os.O_RDONLY)
            try:
                return _content(fd)
            finally:
                os.close(fd)
        return _EMPTY

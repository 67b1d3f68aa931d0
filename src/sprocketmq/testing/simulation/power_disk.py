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

SECTOR_BYTES = 512
_PIECE_BYTES = 4096

Content = tuple[int, dict[int, bytes]]  # length, and the pieces that are not a hole, by number
_EMPTY: Content = (0, {})
_Seen = tuple[int, int, "dict[str, int] | None", Content]  # number, inode, names of a folder


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
    """What lies below ``root`` at the beginning is on the disk, and later what ``sync`` was called for.

    ``before_sync(number)`` is called with the number of each sync before it takes effect.

    Args:
        rows_in_order: of the files of one row (names of 20 digits) the later ones are there only if the earlier ones are, in full length.
            ext4, XFS, Btrfs, F2FS and ZFS do that: names and lengths in a folder come to the disk in the order in which they were made,
            and an ``fsync`` only makes them come sooner. So do deletions of the first ones.
    """

    def __init__(self, root: Path, *, rows_in_order: bool = False) -> None:
        self.root = root
        self._rows_in_order = rows_in_order
        self.syncs = 0
        self.before_sync: Callable[[int], None] = lambda number: None
        self._lock = threading.RLock()
        self._held: dict[int, int] = {}  # inode -> descriptor, so that its number is not given to another file
        self._contents: dict[int, Content] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._dropped: dict[int, dict[int, bytes]] = {}
        self._looks = 0
        self._kept_look: dict[int, int] = {}  # by inode: the latest that a sync has kept
        for path in [root, *sorted(root.rglob("*"))]:
            fd = os.open(path, os.O_RDONLY)
            self.keep(self.look(fd))
            os.close(fd)

    def close(self) -> None:
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()

    def sync(self, fd: int) -> None:
        with self._lock:
            self.syncs += 1
            self.before_sync(self.syncs)
            self.keep(self.look(fd))

    def look(self, fd: int) -> _Seen | None:
        """What a sync that begins now keeps; None: it is not below ``root``."""
        path = os.readlink(f"/proc/self/fd/{fd}")
        if not path.startswith(str(self.root)):
            return None
        inode = os.fstat(fd).st_ino
        self._hold(inode, f"/proc/self/fd/{fd}")
        self._looks += 1
        if os.path.isdir(path):
            names = {}
            for entry in os.scandir(path):
                names[entry.name] = entry.inode()
                if entry.is_dir():  # of a folder that was not synced, its name may be back when it is gone
                    self._hold(entry.inode(), entry.path)
                    self._names.setdefault(entry.inode(), {})
            return self._looks, inode, names, _EMPTY
        return self._looks, inode, None, _content(self._held[inode])

    def _hold(self, inode: int, path: str) -> None:
        if inode not in self._held:
            self._held[inode] = os.open(path, os.O_RDONLY)

    def keep(self, seen: _Seen | None) -> None:
        if seen is None:
            return
        number, inode, names, content = seen
        if number < self._kept_look.get(inode, 0):  # a sync that began later has ended before
            return
        self._kept_look[inode] = number
        if names is not None:
            self._names[inode] = names
            return
        length, pieces = content
        if (dropped := self._dropped.get(inode)) is not None:
            before = self._contents.get(inode, _EMPTY)[1]
            pieces = {
                number: before.get(number, bytes(_PIECE_BYTES)) if dropped.get(number) == piece else piece
                for number, piece in pieces.items()
            }
        self._contents[inode] = length, pieces

    def drop(self, seen: _Seen | None, dice: random.Random) -> None:
        """A sync has failed: some pages were written, the others count as written and are not. A later sync of the same process does not
        write them again."""
        if seen is None or seen[2] is not None:
            return
        number, inode, _, (length, pieces) = seen
        before = self._contents.get(inode, _EMPTY)[1]
        changed = {number: piece for number, piece in pieces.items() if before.get(number) != piece}
        self._dropped.setdefault(inode, {}).update({at: piece for at, piece in changed.items() if dice.random() < 0.5})
        self.keep((number, inode, None, (length, pieces)))

    def emptied(self, inode: int) -> None:
        """What is written from here on is written to the disk, also if it is the same."""
        self._dropped.pop(inode, None)

    def forget_dropped(self) -> None:
        """The next process writes them all again: the model is kinder here than Linux."""
        self._dropped.clear()

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
        is_back = False  # a deleted file
        for name in sorted({*kept, *now}):
            chosen = (now if kept.get(name) != now.get(name) and dice.random() < reaches else kept).get(name)
            if (
                self._is_in_row(name) and name not in now and name < min(now, default="")
            ):  # deleted at the front, in order
                chosen = kept[name] if is_back else chosen
                is_back = chosen is not None
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
                # Dice of its own: how many pages an index has depends on ids, which another process makes in another way.
                self._file(chosen, live, to / name, random.Random(dice.getrandbits(64)), whole=whole)

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

"""One broker per store directory. Java: the ``lock`` file of DefaultMessageStore, an exclusive lock on its first byte.

The same byte is locked in the same way (fcntl record lock, or LockFile on Windows), so a Java broker and ours keep each other out. Such
locks do not work between two openers in one process, and closing any descriptor of the file drops them; a table of held paths
covers both.
"""

from __future__ import annotations

import os
import sys
import threading

from sprocketmq.errors import StoreLocked
from sprocketmq.store.mapped_file import not_writable

__all__ = ["LockFile"]

_held: set[str] = set()
_held_lock = threading.Lock()


class LockFile:
    """The lock of ``directory``; ``acquire`` and ``release``."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.realpath(os.path.join(directory, "lock"))
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            StoreLocked: somebody has it.
            StoreNotWritable: the lock file cannot be made.
        """
        with _held_lock:
            if self._path in _held:
                raise self._locked()
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            except OSError as error:
                raise not_writable(self._path, error) from error
            try:
                _lock_first_byte(fd)
                os.pwrite(fd, b"lock", 0) if hasattr(os, "pwrite") else None
            except OSError as error:
                os.close(fd)
                raise self._locked() from error
            self._fd = fd
            _held.add(self._path)

    def release(self) -> None:
        """Give the lock back; harmless when not held."""
        with _held_lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
                _held.discard(self._path)

    def _locked(self) -> StoreLocked:
        return StoreLocked(
            f"the store directory {self._directory} is in use by another broker; stop that broker or choose another directory with --store"
        )


def _lock_first_byte(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)

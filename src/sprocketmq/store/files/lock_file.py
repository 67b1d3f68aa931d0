# SPDX-License-Identifier: Apache-2.0
"""One broker per store directory. Java: the ``lock`` file of DefaultMessageStore, an exclusive lock on its first byte.

The same byte is locked, so a Java broker and ours keep each other out. Such locks do not work between two openers in one process, and
closing any descriptor of the file drops them; a table of held paths covers both. A Java broker writes ``lock`` into the file at its start,
ours something else once it has started: so the text says whose broker came last. Folders of a store may lie elsewhere, where another
broker could use them as well, so each is locked too, with flock on the folder itself, because Apache accepts no foreign file in its commit
log's folder.

A forked child has no share in the lock of the file, but shares those of the folders, which last until both processes have closed
them or one has unlocked them. So ``release`` unlocks the folders before it closes them, a child closes what it inherited without
unlocking it, and no fork falls into the middle of ``acquire`` or ``release`` of another thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence

from sprocketmq.errors import StoreLocked
from sprocketmq.store.files.mapped_file import disk_errors, not_writable

log = logging.getLogger("sprocketmq.store")

_TEXT, _JAVAS_TEXT = b"ours", b"lock"
_HELD = errno.EACCES, errno.EAGAIN, errno.EDEADLK
_PAUSES_S = 0.01, 0.1

_held: dict[str, LockFile] = {}  # by path
_held_lock = threading.RLock()  # reentrant: a signal handler that forks may interrupt the thread that holds it


class LockFile:
    def __init__(self, directory: str, folders: Sequence[str] = ()) -> None:
        self._directory, self._folders = directory, folders
        self._folder_fds: list[int] = []
        self._path = os.path.realpath(os.path.join(directory, "lock"))
        self._fd: int | None = None
        self.was_ours = False  # no Java broker has held it since ours did, and started; known after ``acquire``
        self.was_javas = False  # one has

    def acquire(self) -> None:
        """Raises StoreLocked (another broker holds it), StoreNotWritable (the lock file cannot be made)."""
        with _held_lock:
            if self._path in _held:
                raise self._locked()
            with disk_errors(self._path):
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            try:
                _lock_soon(fd)
                if hasattr(os, "pwrite"):
                    text = os.pread(fd, len(_TEXT), 0)
                    self.was_ours, self.was_javas = text == _TEXT, text == _JAVAS_TEXT
                for folder in self._folders:
                    self._lock_folder(folder)
            except OSError as error:
                self._close(fd)
                if error.errno in _HELD:
                    raise self._locked() from error
                raise not_writable(self._path, error) from error
            except StoreLocked:
                self._close(fd)
                raise
            self._fd = fd
            _held[self._path] = self

    def _lock_folder(self, folder: str) -> None:
        if sys.platform == "win32" or not os.path.isdir(folder):
            return
        import fcntl

        fd = os.open(folder, os.O_RDONLY)
        self._folder_fds.append(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreLocked(
                f"the folder {folder} is in use by another broker; stop that broker, or give this one folders of its own"
            ) from error
        except OSError as error:  # some network file systems have no such locks
            log.info("the folder %s cannot be locked: %s", folder, error)

    def _close(self, fd: int, *, unlocks: bool = True) -> None:
        for folder_fd in self._folder_fds:
            if unlocks:
                _unlock_folder(folder_fd)
            os.close(folder_fd)
        self._folder_fds = []
        os.close(fd)

    def mark_as_ours(self) -> None:
        """After a start. One that failed has not dealt with what a Java broker left: the next one must know of it, too."""
        assert self._fd is not None
        if not self.was_ours and hasattr(os, "pwrite"):
            with disk_errors(self._path):
                os.pwrite(self._fd, _TEXT, 0)
                os.fsync(self._fd)

    def release(self) -> None:
        with _held_lock:
            if self._fd is not None:
                self._close(self._fd)
                self._fd = None
                _held.pop(self._path, None)

    def after_fork_in_child(self) -> None:
        if self._fd is not None:
            self._close(self._fd, unlocks=False)
            self._fd = None

    def _locked(self) -> StoreLocked:
        return StoreLocked(
            f"the store directory {self._directory} is in use by another broker; stop that broker or choose another directory with --store"
        )


def was_last_held_by_ours(directory: str) -> bool:
    try:
        with open(os.path.join(directory, "lock"), "rb") as file:
            return file.read(len(_TEXT)) == _TEXT
    except OSError:
        return False


def is_held(directory: str) -> bool:
    """Whether a broker, ours or Apache's, has the store open now. The lock is shared for a moment; a Java broker that starts in it
    takes the store for locked."""
    path = os.path.realpath(os.path.join(directory, "lock"))
    with _held_lock:
        if path in _held:  # closing a descriptor of the file would drop that lock
            return True
        try:
            fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError:
            return False
        try:
            _lock_first_byte(fd, shared=True)
        except OSError as error:
            return error.errno in _HELD
        finally:
            os.close(fd)  # and with it the lock
    return False


def _lock_soon(fd: int) -> None:
    for pause_s in _PAUSES_S:
        try:
            _lock_first_byte(fd)
        except OSError as error:
            if error.errno not in _HELD:
                raise
            time.sleep(pause_s)
        else:
            return
    _lock_first_byte(fd)


def _lock_first_byte(fd: int, *, shared: bool = False) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, 0)


def _unlock_folder(fd: int) -> None:
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # a file system without such locks, see _lock_folder
            fcntl.flock(fd, fcntl.LOCK_UN)


def _after_fork_in_child() -> None:
    global _held_lock
    _held_lock = threading.RLock()
    inherited = list(_held.values())
    _held.clear()
    for lock in inherited:
        lock.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=lambda: _held_lock.acquire(),
        after_in_parent=lambda: _held_lock.release(),
        after_in_child=_after_fork_in_child,
    )

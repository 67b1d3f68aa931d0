# SPDX-License-Identifier: Apache-2.0
"""The broker's small JSON files (topics.json, consumerOffset.json, ...): replaced as a whole, atomically, with one backup. Java:
ConfigManager.

Order of a save: the new text is written to ``NAME.tmp`` and synced; the present file gets a second name, ``NAME.old``; the new file is
renamed to ``NAME``; the second name becomes ``NAME.bak``; the folder is synced. ``NAME`` exists at every moment and has the last text or
the new one. A crash, a power failure that keeps only some of these names, and a copy made file by file at the same time never find an
older text, which would still have what was deleted since. ``load`` uses ``NAME.bak`` if ``NAME`` cannot be read; at no moment are both
unusable. Apache reads both in the same way, but while it writes there is a moment without ``NAME``.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
from collections.abc import Callable
from typing import Final, TypeVar

from sprocketmq.errors import RocketMQError, StoreCorrupt
from sprocketmq.store.files.mapped_file import make_directories, not_writable, sync_directory

__all__ = ["ConfigFile", "load_config", "replace_file", "save_config"]

_serial = itertools.count()
T = TypeVar("T")
_log = logging.getLogger("sprocketmq.store")

# A link may fail for other reasons, too (FAT, network shares, another user's file): then only the spare copy is missing.
_DISK_FAULTS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def load_config(path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> T | None:
    """Parse ``path``, or its ``.bak`` when it is missing, empty or unreadable; None when neither exists.

    Args:
        path: the file, for example ``STORE/config/topics.json``.
        parse: bytes to value; a ValueError or a RocketMQError from it counts as unreadable.

    Raises:
        StoreCorrupt: something exists but neither copy can be read.
    """
    broken: Exception | None = None
    for candidate in (os.fspath(path), os.fspath(path) + ".bak"):
        try:
            with open(candidate, "rb") as file:
                raw = file.read()
        except (FileNotFoundError, NotADirectoryError):  # a path below a file cannot exist, so nothing is there
            continue
        if not raw.strip():
            continue
        try:
            return parse(raw)
        except (ValueError, KeyError, TypeError, RocketMQError) as error:
            broken = error
            _log.warning("%s cannot be read (%s); trying its spare copy", candidate, error)
    if broken is not None:
        raise StoreCorrupt(
            f"neither {os.fspath(path)} nor its .bak can be read ({broken}); repair or remove them, then start again"
        ) from broken
    return None


def save_config(path: str | os.PathLike[str], raw: bytes, *, private: bool = False) -> None:
    """:func:`replace_file` for the files of a store.

    Raises:
        StoreNotWritable: the disk reported an error; a complete file is there.
    """
    try:
        replace_file(path, raw, private=private)
    except OSError as error:
        raise not_writable(os.fspath(path), error) from error


def replace_file(path: str | os.PathLike[str], raw: bytes, *, private: bool = False, shared: bool = False) -> None:
    """Replace ``path`` by ``raw`` atomically, keeping the present text as ``.bak``; makes the folder.

    ``private`` is for files with secrets: only their owner may read a new one. ``shared`` is for files that other processes replace, too,
    because no lock guards their folder: temporary names are this call's own, or two would write into one file.

    Raises:
        OSError: the disk reported an error; a complete file is there.
    """
    target = os.fspath(path)
    folder = os.path.dirname(target) or "."
    make_directories(folder)
    own = f".{os.getpid()}-{next(_serial)}" if shared else ""
    temporary, old = f"{target}{own}.tmp", f"{target}{own}.old"
    with open(temporary, "wb", opener=_open_private if private else None) as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    has_old = _keep(target, old)
    os.replace(temporary, target)
    if has_old:
        os.replace(old, target + ".bak")
    sync_directory(folder)


def _keep(target: str, old: str) -> bool:
    """Give the present text a second name. False if there is none, or if the file system has no links (FAT): then the backup stays as it
    is.
    """
    if not os.path.exists(target):
        return False
    with contextlib.suppress(FileNotFoundError):  # left by a kill
        os.unlink(old)
    try:
        os.link(target, old)
    except OSError as error:
        if error.errno in _DISK_FAULTS:
            raise
        return False
    return True


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class ConfigFile:
    """The text of a configuration file; with ``path=None`` (a broker in memory) nothing is stored. ``private``: see save_config."""

    def __init__(self, path: str | os.PathLike[str] | None, *, private: bool = False) -> None:
        self.path = None if path is None else os.fspath(path)
        self._private = private
        self._saved: bytes | None = None

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """See ``load_config``."""
        return None if self.path is None else load_config(self.path, parse)

    def save(self, raw: bytes) -> bool:
        """See ``save_config``. Returns False, and does nothing, if ``raw`` is what this object saved last."""
        if self.path is None or raw == self._saved:
            return False
        self._saved = None  # a save that fails may already have replaced the file
        save_config(self.path, raw, private=self._private)
        self._saved = raw
        return True

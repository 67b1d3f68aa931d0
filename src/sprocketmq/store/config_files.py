"""The broker's small JSON files (topics.json, consumerOffset.json, ...): whole-file, atomic, with one spare copy. Java: ConfigManager.

Order of a save: the new text goes to ``NAME.tmp`` and to the disk, the present file becomes ``NAME.bak``, the new one takes its name, the
folder goes to the disk. A crash between any two steps leaves a complete file under NAME or NAME.bak, and ``load`` takes the first that
can be read. Apache reads both the same way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from sprocketmq.errors import RocketMQError, StoreCorrupt
from sprocketmq.store.mapped_file import make_directories, not_writable, sync_directory

__all__ = ["ConfigFile", "load_config", "save_config"]

T = TypeVar("T")
_log = logging.getLogger("sprocketmq.store")


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
        except (FileNotFoundError, NotADirectoryError):  # a path that cannot exist holds nothing, either
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
    """Replace ``path`` by ``raw`` atomically, keeping the present text as ``.bak``; makes the folder.

    ``private`` is for files with secrets: only their owner may read a new one.

    Raises:
        StoreNotWritable: the disk said no; the old file is still complete.
    """
    target = os.fspath(path)
    folder = os.path.dirname(target) or "."
    try:
        make_directories(folder)
        temporary = target + ".tmp"
        with open(temporary, "wb", opener=_open_private if private else None) as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.replace(target, target + ".bak")
        os.replace(temporary, target)
        sync_directory(folder)
    except OSError as error:
        raise not_writable(target, error) from error


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class ConfigFile:
    """A configuration text with a place, or without (``path=None``: a broker in memory keeps nothing). ``private``: see save_config."""

    def __init__(self, path: str | os.PathLike[str] | None, *, private: bool = False) -> None:
        self.path = None if path is None else os.fspath(path)
        self._private = private
        self._saved: bytes | None = None

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """See ``load_config``."""
        return None if self.path is None else load_config(self.path, parse)

    def save(self, raw: bytes) -> bool:
        """See ``save_config``; False when ``raw`` is what this object saved last."""
        if self.path is None or raw == self._saved:
            return False
        save_config(self.path, raw, private=self._private)
        self._saved = raw
        return True

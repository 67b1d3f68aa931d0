# SPDX-License-Identifier: Apache-2.0
"""The broker's small JSON files (topics.json, consumerOffset.json, ...): replaced as a whole, atomically, with one backup. Java:
ConfigManager.

A save writes and syncs ``NAME.tmp``, gives the present file the second name ``NAME.old``, renames the new file to ``NAME`` and the
second name to ``NAME.bak``, and syncs the folder. ``NAME`` exists at every moment and has the last text or the new one: a crash, a
power failure that keeps only some of these names, and a copy made file by file never find an older text, which would still have
what was deleted since. (While Apache writes, there is a moment without ``NAME``.)

``STORE/tables`` has the names of the files that were ever written, so that a start can tell one that is gone from one that never
was.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from sprocketmq.errors import RocketMQError, StoreCorrupt
from sprocketmq.store.files.mapped_file import disk_errors, make_directories, sync_directory

_serial = itertools.count()
_noting = threading.Lock()
_NAME_OF_ENTRY = re.compile(rb'"([^"\\]{1,255})"\s*:\s*\{')
_DATA_VERSION = re.compile(rb'"dataVersion"\s*:\s*\{([^}]*)\}')
_NUMBER = re.compile(rb'"(\w+)"\s*:\s*(\d{1,18})\b')
_TABLE_NAME = re.compile(r"[A-Za-z]+(\.json)?\n")
_MOST_NAMED = 20
_JAVAS_TABLES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")
T = TypeVar("T")
_log = logging.getLogger("sprocketmq.store")

# A link may fail for other reasons, too (FAT, network shares, another user's file): then only the spare copy is missing.
_DISK_FAULTS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def load_config(path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> T | None:
    """Parse ``path``, or its ``.bak`` when it is missing, empty or unreadable (``parse`` raises a ValueError or a RocketMQError);
    None when neither exists. Raises StoreCorrupt (something exists but neither copy can be read)."""
    broken: Exception | None = None
    fault, damaged = "", b""
    for candidate in (os.fspath(path), os.fspath(path) + ".bak"):
        try:
            with open(candidate, "rb") as file:
                raw = file.read()
        except (FileNotFoundError, NotADirectoryError):  # a path below a file cannot exist, so nothing is there
            fault = fault or "is missing"
            continue
        except OSError as error:
            broken, fault = error, f"cannot be read ({error.strerror or error})"
            continue
        if not raw.strip():
            fault = fault or "is empty"
            continue
        try:
            parsed = parse(raw)
        except (ValueError, KeyError, TypeError, RocketMQError) as error:
            broken, fault, damaged = error, f"cannot be read ({error})", damaged or raw
        else:
            if fault:
                _say_older(os.fspath(path), fault, damaged, raw)
            else:
                _compare_with_spare(candidate, raw)
            return parsed
    if broken is not None:
        raise StoreCorrupt(
            f"neither {os.fspath(path)} nor its .bak can be read ({broken}); repair or remove them, then start again"
        ) from broken
    return None


def _compare_with_spare(path: str, raw: bytes) -> None:
    """Say that a table is older than its spare copy. Someone may have restored it on purpose."""
    try:
        with open(path + ".bak", "rb") as file:
            spare = file.read()
    except OSError:
        return
    (counter, timestamp_ms), (of_spare, spare_ms) = _version_of(raw), _version_of(spare)
    if of_spare >= counter and spare_ms >= timestamp_ms and (of_spare, spare_ms) != (counter, timestamp_ms):
        _log.warning(
            "%s is older than its spare copy (dataVersion %d of %d ms, the spare copy has %d of %d ms); it is used as it is",
            path,
            counter,
            timestamp_ms,
            of_spare,
            spare_ms,
        )


def _version_of(raw: bytes) -> tuple[int, int]:
    version = _DATA_VERSION.search(raw)
    fields = dict(_NUMBER.findall(version[1])) if version else {}
    return int(fields.get(b"counter", 0)), int(fields.get(b"timestamp", 0))


def _say_older(path: str, fault: str, damaged: bytes, spare: bytes) -> None:
    """Say that the spare copy is used, and what only the last text names, as far as it can be read."""
    only = sorted(set(_NAME_OF_ENTRY.findall(damaged)) - set(_NAME_OF_ENTRY.findall(spare)))
    names = [name.decode("utf-8", "backslashreplace") for name in only]
    lost = ", ".join([*names[:_MOST_NAMED], *(["..."] if len(names) > _MOST_NAMED else [])])
    _log.warning(
        "%s %s: its spare copy is used, which may lack the last change%s",
        path,
        fault,
        f"; it lacks {lost}" if lost else "",
    )


def missing_tables(root: str | os.PathLike[str]) -> dict[str, str]:
    """The files of ``root/config`` that were written once and are gone with their spare copies, and what was found of each."""
    config = os.path.join(root, "config")
    missing = {}
    for name in _table_names(root):
        faults = [_fault_of(os.path.join(config, name + end)) for end in ("", ".bak")]
        if all(faults):
            missing[name] = (
                f"{os.path.join(config, name)} {faults[0]}, and so is its spare copy"
                if faults[1] == faults[0]
                else f"{os.path.join(config, name)} {faults[0]}, and its spare copy {faults[1]}"
            )
    return missing


def never_noted(root: str | os.PathLike[str]) -> list[str]:
    """The files that a Java broker has beside its queues, and that are not there. Empty for a store that ours ever had open: a Java
    broker does not note what it wrote, and writes each of them only when there is something to write."""
    queues = os.path.join(root, "consumequeue")
    if os.path.lexists(os.path.join(root, "tables")) or not os.path.isdir(queues) or not os.listdir(queues):
        return []
    paths = [os.path.join(root, "config", name) for name in _JAVAS_TABLES]
    return [path for path in paths if not os.path.lexists(path) and not os.path.lexists(path + ".bak")]


def _table_names(root: str | os.PathLike[str]) -> list[str]:
    names: set[str] = set()
    with contextlib.suppress(OSError), open(os.path.join(root, "tables"), encoding="utf-8", errors="replace") as file:
        names.update(line[:-1] for line in file if _TABLE_NAME.fullmatch(line))  # the file may be damaged, too
    with contextlib.suppress(OSError):
        names.update(name for name in os.listdir(os.path.join(root, "config")) if name.endswith(".json"))
    return sorted(names)


def _fault_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return "" if file.read(64).strip() else "is empty"
    except (FileNotFoundError, NotADirectoryError):
        return "is a link to nothing" if os.path.islink(path) else "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def forget_tables(root: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Go on without these files: their loss was accepted. What has their names is moved away."""
    left_out = set(names)
    replace_file(
        os.path.join(root, "tables"),
        "".join(f"{name}\n" for name in _table_names(root) if name not in left_out).encode(),
    )
    for name in left_out:
        for end in ("", ".bak"):
            path = os.path.join(root, "config", name + end)
            if os.path.lexists(path):
                os.replace(path, f"{path}.damaged")


def _note_table(path: str) -> None:
    folder, name = os.path.split(path)
    root = os.path.dirname(folder)
    if os.path.basename(folder) != "config":
        return
    with _noting, open(os.path.join(root, "tables"), "ab+") as file:
        file.seek(0)
        raw = file.read()
        whole = raw[: raw.rfind(b"\n") + 1]
        if name.encode() not in whole.splitlines():
            file.truncate(len(whole))  # a full disk took a part of a name
            file.write(f"{name}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def save_config(path: str | os.PathLike[str], raw: bytes, *, private: bool = False) -> None:
    """``replace_file`` for the files of a store. Raises StoreNotWritable; a complete file is there."""
    with disk_errors(os.fspath(path)):
        replace_file(path, raw, private=private)


def replace_file(path: str | os.PathLike[str], raw: bytes, *, private: bool = False, shared: bool = False) -> None:
    """Replace ``path`` by ``raw`` atomically, keeping the present text as ``.bak``; makes the folder.

    ``private``: only its owner may read a new file. ``shared``: other processes replace it, too, because no lock guards their
    folder; temporary names are this call's own, or two would write into one file. Raises OSError; a complete file is there.
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
    """False if there is no present text, or if the file system has no links (FAT): then the backup stays as it is."""
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
    """The text of a configuration file; ``path=None`` (a broker in memory): nothing is stored. ``private``: see ``replace_file``."""

    def __init__(self, path: str | os.PathLike[str] | None, *, private: bool = False) -> None:
        self.path = None if path is None else os.fspath(path)
        self._private = private
        self._saved: bytes | None = None
        self._is_noted = False

    def load(self, parse: Callable[[bytes], T], *, key: str = "") -> T | None:
        """See ``load_config``. A text without ``key`` is that of another table, of which ``parse`` would make an empty one."""
        if self.path is None:
            return None

        def parse_own(raw: bytes) -> T:
            if key.encode() not in raw:
                raise ValueError(f"it has no {key}")
            return parse(raw)

        return load_config(self.path, parse_own)

    def save(self, raw: bytes) -> bool:
        if self.path is None or raw == self._saved:
            return False
        self._saved = None  # a save that fails may already have replaced the file
        save_config(self.path, raw, private=self._private)
        self._saved = raw
        if not self._is_noted:
            with contextlib.suppress(OSError):  # a full disk: it is noted with another write
                _note_table(self.path)
                self._is_noted = True
        return True

# SPDX-License-Identifier: Apache-2.0
"""The disk of a simulated host: real files, as the system's calls of its stores see them.

Bytes that a process writes are in the page cache, which survives the process. A power cut leaves what ``power_disk`` says. The calls of the
modules of ``sprocketmq.store`` go through ``_Os`` and ``_open``, which can be slow, fail, write a part, or end a process: the power goes
and a process is killed in front of a change or a sync, which no ``await`` reaches.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.store.files import mapped_progress
from sprocketmq.testing.simulation.loop import current_process, process_is_dead
from sprocketmq.testing.simulation.power_disk import PowerDisk
from sprocketmq.testing.simulation.replacements import Replacements, copied

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.threads import Threads

_SYNC_MS: Final = (0.1, 5.0)
_WRITE_MS: Final = (0.005, 0.05)
_SLOWEST_MS: Final = 20_000
_NAME_BYTES: Final = 4096  # of space that a new file takes


class HostDisk:
    """``path``: where the store of the present boot is. The attributes up to ``fails_in`` are the weather.

    Attributes:
        free_bytes: None is plenty.
        error_rate: the share of writes and syncs that fail with EIO.
        slow_ms: how long a sync takes on average; None: as a healthy disk.
        writes_short: a write may take only a part of its bytes.
        power_goes_in: so many syncs from now the power goes, in front of the last one.
        power_goes_at_changes: it is so many changes, not syncs.
        is_killed_in: so many changes and syncs from now the process is killed, in front of the last one.
        fails_in: so many syncs of files from now the last one fails, and the power goes in front of one soon after; 0: it has failed.
    """

    def __init__(self, root: Path, threads: Threads, rng: random.Random) -> None:
        self._root, self._threads, self._rng = root, threads, rng
        self.boots = 0
        self.free_bytes: int | None = None
        self.error_rate = 0.0
        self.slow_ms: float | None = None
        self.writes_short = False
        self.power_goes_in: int | None = None
        self.power_goes_at_changes = False
        self.is_killed_in: int | None = None
        self.fails_in: int | None = None
        self.when_power_goes: Callable[[], object] = lambda: None
        self.when_killed: Callable[[], object] = lambda: None
        self.path = root / "0"
        self.path.mkdir(parents=True)
        self._model = PowerDisk(self.path, rows_in_order=True)

    @property
    def has_trouble(self) -> bool:
        return self.free_bytes is not None or self.error_rate > 0 or self.fails_in is not None

    def heal(self) -> None:
        self.free_bytes = self.slow_ms = self.power_goes_in = self.is_killed_in = self.fails_in = None
        self.error_rate, self.writes_short = 0.0, False

    def cut_power(self) -> None:
        """What the next boot finds is drawn now."""
        self.power_goes_in = self.is_killed_in = self.fails_in = None
        self.boots += 1
        path = self._root / str(self.boots)
        self._model.cut(path, self._rng)
        self._model.close()
        self.path = path
        self._model = PowerDisk(path, rows_in_order=True)

    def start_process(self) -> None:
        self._model.forget_dropped()

    def close(self) -> None:
        self._model.close()

    def boot_mark(self) -> bytes:
        return self.boots.to_bytes(16, "big")

    # -- calls of the system ---------------------------------------------------------------------------------------------------

    def emptied(self, fd: int) -> None:
        self._model.emptied(os.fstat(fd).st_ino)

    def sync(self, fd: int) -> None:
        self._may_end(is_sync=True)
        model = self._model
        seen = model.look(fd)
        fails = self._rng.random() < self.error_rate
        if self.fails_in and stat.S_ISREG(os.fstat(fd).st_mode):
            self.fails_in -= 1
            if not self.fails_in:
                fails, self.power_goes_in, self.power_goes_at_changes = True, self._rng.randint(1, 4), False
        self._take_time(_SYNC_MS, 1)
        if fails:
            model.drop(seen, random.Random(self._rng.getrandbits(64)))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        model.keep(seen)

    def write(self, fd: int, data: Any) -> int:
        """The number of bytes that were written, at the descriptor's place."""
        self.change()
        view = memoryview(data).cast("B")
        count = len(view)
        if self.writes_short and count > 1 and self._rng.random() < 0.5:
            count = self._rng.randint(1, count - 1)
        if self.free_bytes is not None:
            at = os.lseek(fd, 0, os.SEEK_CUR)
            if not _is_there(fd, at, count):
                count = min(count, self.free_bytes)
                self.take_bytes(count)
        return os.write(fd, view[:count])

    def change(self) -> None:
        """Something is about to be written. Raises OSError."""
        self._may_end(is_sync=False)
        if self._threads.current is not None or self.slow_ms is not None:
            self._take_time(_WRITE_MS, 1 / 50)
        if self._rng.random() < self.error_rate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _may_end(self, *, is_sync: bool) -> None:
        _check_alive()
        if self.power_goes_in is not None and is_sync != self.power_goes_at_changes:
            self.power_goes_in -= 1
            if self.power_goes_in <= 0:
                self.when_power_goes()
                _check_alive()
        if self.is_killed_in is not None:
            self.is_killed_in -= 1
            if self.is_killed_in <= 0:
                self.is_killed_in = None
                self.when_killed()
                _check_alive()

    def take_bytes(self, count: int) -> None:
        if self.free_bytes is not None:
            if self.free_bytes <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.free_bytes = max(0, self.free_bytes - count)

    def _take_time(self, healthy_ms: tuple[float, float], share: float) -> None:
        """``share``: of what a sync takes on a slow disk."""
        if self.slow_ms is None:
            ms = self._rng.uniform(*healthy_ms)
        else:
            ms = min(self._rng.expovariate(1 / (self.slow_ms * share)), _SLOWEST_MS)
        self._threads.pause(ms)
        _check_alive()


def _check_alive() -> None:
    """What a dead process still calls on its way out has no effect."""
    process = current_process.get()
    if process is not None and process.is_dead:
        raise process_is_dead()


def _is_there(fd: int, at: int, count: int) -> bool:
    """Whether these bytes have their space already."""
    try:
        return os.lseek(fd, at, os.SEEK_HOLE) >= at + count
    except OSError:
        return False
    finally:
        os.lseek(fd, at, os.SEEK_SET)


class _File(io.FileIO):
    disk: HostDisk

    def write(self, data: Any, /) -> int:
        return self.disk.write(self.fileno(), data)


class _Os(ModuleType):
    """The module ``os`` as the product's store sees it during a run."""

    def __init__(self, disk_here: Callable[[], HostDisk | None]) -> None:
        super().__init__("os")
        vars(self).update({name: value for name, value in vars(os).items() if name not in vars(_Os)})
        self._disk_here = disk_here
        for name in ("truncate", "ftruncate", "replace", "rename", "unlink", "remove", "rmdir"):
            setattr(self, name, self._changing(getattr(os, name)))
        for name in ("mkdir", "link"):
            setattr(self, name, self._changing(getattr(os, name), _NAME_BYTES))
        self.fdatasync = self.fsync
        self.getpid = lambda: os.getpid() if disk_here() is None else 1  # it is in files, whose bytes are counted

    def _changing(self, call: Callable[..., Any], count: int = 0) -> Callable[..., Any]:
        """``count``: of bytes that it takes."""

        def changes(*args: Any, **options: Any) -> Any:
            disk = self._disk_here()
            if disk is not None:
                disk.change()
                if count:
                    disk.take_bytes(count)
            return call(*args, **options)

        return changes

    def makedirs(self, name: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        if exist_ok and os.path.isdir(name):
            return
        self._changing(os.makedirs, _NAME_BYTES)(name, mode, exist_ok)

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        if flags & os.O_CREAT and not os.path.lexists(path):
            return int(self._changing(os.open, _NAME_BYTES)(path, flags, mode, **options))
        return os.open(path, flags, mode, **options)

    def write(self, fd: int, data: Any) -> int:
        disk = self._disk_here()
        return os.write(fd, data) if disk is None else disk.write(fd, data)

    def fsync(self, fd: int) -> None:
        disk = self._disk_here()
        if disk is None:
            os.fsync(fd)
        else:
            disk.sync(fd)

    def open_file(self, path: Any, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
        """The built-in ``open``."""
        disk = self._disk_here()
        if disk is None or not set(mode) & set("wax+") or isinstance(path, int):
            return builtins.open(path, mode, buffering, **options)
        opener = options.pop("opener", None) or partial(self.open, mode=0o666)
        raw = _File(path, mode.replace("b", "").replace("t", ""), opener=opener)
        raw.disk = disk
        if "w" in mode:
            disk.emptied(raw.fileno())
        file = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return file if "b" in mode else io.TextIOWrapper(file, **options)


def replace_disks(replacements: Replacements, disk_here: Callable[[], HostDisk | None]) -> None:
    """Let the modules of the store have the disk of the host whose process calls them."""
    system = _Os(disk_here)
    # How full the machine's own disk is does not matter.
    usage = type(shutil.disk_usage("."))(1 << 40, 1 << 39, 1 << 39)
    replacements.in_modules("sprocketmq.store.", (os, system), (shutil, copied(shutil, disk_usage=lambda path: usage)))
    for name, module in list(sys.modules.items()):
        if name.startswith("sprocketmq.store.") and "open" not in vars(module):
            vars(module)["open"] = system.open_file
            replacements.callback(delattr, module, "open")
    real_mark = mapped_progress.boot_mark

    def mark() -> bytes | None:
        disk = disk_here()
        return real_mark() if disk is None else disk.boot_mark()

    replacements.set(mapped_progress, "boot_mark", mark)

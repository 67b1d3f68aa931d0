# SPDX-License-Identifier: Apache-2.0
"""A disk of a few dozen megabytes that a test may fill: an ext4 or XFS image on a loop device, or a tmpfs. Needs root and mount(8)."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

# ext4 has blocks smaller than a page on small images by default; both sizes are met in the wild. XFS has a least size of 300 MB.
KINDS: Final = {
    "ext4": (["mkfs.ext4", "-q", "-F", "-b", "4096"], 64),
    "ext4 with blocks of 1 KiB": (["mkfs.ext4", "-q", "-F", "-b", "1024"], 64),
    "xfs": (["mkfs.xfs", "-q", "-f"], 320),
    "tmpfs": ([], 48),
}
_MIB: Final = 1 << 20
_LEAST_BYTES: Final = 256


class CannotMount(Exception):
    """This machine or user cannot make such a disk; the message says why."""


class SmallDisk:
    """Use as a context manager. ``path`` is the mounted folder.

    Args:
        kind: a key of `KINDS`.
        folder: where image and mount point go.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / "disk"
        self._image = folder / "disk.img"
        self._filler = self.path / "filler"

    def __enter__(self) -> SmallDisk:
        command, size_mib = KINDS[self.kind]
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            raise CannotMount("only root may mount a disk")
        self.path.mkdir(parents=True)
        options = ["-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs"]
        if command:
            if shutil.which(command[0]) is None:
                raise CannotMount(f"{command[0]} is not installed")
            with self._image.open("wb") as image:
                image.truncate(size_mib * _MIB)
            _run([*command, str(self._image)])
            options = ["-o", "loop", str(self._image)]
        _run(["mount", *options, str(self.path)])
        return self

    def __exit__(self, *args: object) -> None:
        with contextlib.suppress(CannotMount):
            _run(["umount", str(self.path)])
            return
        _run(["umount", "-l", str(self.path)])  # a process that a failed test left behind holds it

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all space but about ``leave_bytes``, as another process would: to the last block."""
        fd = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = _MIB
            while size >= _LEAST_BYTES:
                usage = os.statvfs(self.path)
                if leave_bytes and usage.f_bfree * usage.f_frsize <= leave_bytes + size:
                    size //= 2
                    continue
                try:
                    os.write(fd, bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2
        finally:
            os.close(fd)

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)
        os.sync()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMount(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")

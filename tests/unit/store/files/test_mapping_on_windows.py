# SPDX-License-Identifier: Apache-2.0
"""Mapping a file with what mmap takes on Windows: there it knows neither flags nor trackfd, whatever the version of Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import mmap, os, shutil, sys  # shutil asks what the system is when it is loaded, from 3.13 on for a module of Windows

real = mmap.mmap


def as_on_windows(fileno, length, tagname=None, access=mmap.ACCESS_WRITE, offset=0):
    return real(fileno, length, access=access, offset=offset)


mmap.mmap = as_on_windows
for name in [name for name in vars(mmap) if name.startswith(("MAP_", "PROT_"))]:
    delattr(mmap, name)
sys.platform, sys.version_info = "win32", (3, int(sys.argv[2]), 0)
from sprocketmq.store.files.mapping import map_file

fd = os.open(sys.argv[1], os.O_RDWR)
for read_only in (True, False):
    mapping = map_file(fd, 4, read_only=read_only)
    assert mapping[:4] == b"data"
    mapping.close()
"""


@pytest.mark.parametrize("version", ["11", "13"])
def test_a_file_is_mapped(tmp_path, version):
    path = tmp_path / "file"
    path.write_bytes(b"data")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), version], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")

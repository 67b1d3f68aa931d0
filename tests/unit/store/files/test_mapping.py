# SPDX-License-Identifier: Apache-2.0
"""Mapped files keep no file descriptor."""

from __future__ import annotations

import mmap
import os
import sys

import pytest

from sprocketmq.core.descriptor_budget import MAPPING_TAKES_ONE
from sprocketmq.store.files.mapping import map_file

pytestmark = pytest.mark.skipif(MAPPING_TAKES_ONE, reason="here Python's mmap keeps a descriptor")
SIZE_BYTES = 3 * mmap.PAGESIZE


def mapped(path, *, read_only=False):
    fd = os.open(path, os.O_RDONLY if read_only else os.O_RDWR)
    try:
        return map_file(fd, SIZE_BYTES, read_only=read_only)
    finally:
        os.close(fd)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"begin".ljust(SIZE_BYTES, b"."))
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_three_hundred_mappings_take_no_descriptor(path):
    before = len(os.listdir("/proc/self/fd"))
    mappings = [mapped(path) for _ in range(300)]
    assert len(os.listdir("/proc/self/fd")) <= before
    for mapping in mappings:
        mapping.close()


def test_what_is_written_to_a_mapping_is_in_the_file_and_in_other_mappings(path):
    first, second = mapped(path), mapped(path)
    assert first[:5] == b"begin"
    first[mmap.PAGESIZE : mmap.PAGESIZE + 3] = b"new"
    assert second[mmap.PAGESIZE : mmap.PAGESIZE + 3] == b"new"
    assert path.read_bytes()[mmap.PAGESIZE : mmap.PAGESIZE + 3] == b"new"
    with path.open("r+b") as file:
        file.write(b"other")
    assert first[:5] == b"other"
    first.close()


def test_views_outlive_their_mapping_object(path):
    view = memoryview(mapped(path))[:5]
    assert bytes(view) == b"begin"
    view[:] = b"after"
    assert path.read_bytes()[:5] == b"after"

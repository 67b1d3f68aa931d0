# SPDX-License-Identifier: Apache-2.0
"""The two functions for the checksum of a body return the same numbers; a process with zlib-ng uses its function."""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.wire.records import checksum

zlib_ng = pytest.importorskip("zlib_ng.zlib_ng", reason="the extra broker installs zlib-ng")


@pytest.fixture
def without_zlib_ng(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    importlib.reload(checksum)
    yield
    monkeypatch.undo()
    importlib.reload(checksum)


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(0, 9))
def test_both_functions_return_the_same_number(part, times, begin):
    body = memoryview(part * times)[begin:]  # as a body in a frame: not aligned, and of any length
    assert zlib_ng.crc32(body) == zlib_ng.crc32(bytes(body)) == zlib.crc32(body)


def test_a_process_with_zlib_ng_uses_its_function():
    assert checksum.crc32 is zlib_ng.crc32


@pytest.mark.usefixtures("without_zlib_ng")
def test_a_process_without_zlib_ng_uses_the_standard_library():
    assert checksum.crc32 is zlib.crc32

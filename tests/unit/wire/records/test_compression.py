# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.records.compression import CompressionType, compress, decompress
from sprocketmq.wire.records.sys_flag import COMPRESSED

_kinds = st.sampled_from(list(CompressionType))


@given(st.binary(max_size=500), _kinds)
def test_a_body_comes_back(body, kind):
    assert decompress(compress(body, kind), kind.sys_flag) == body


def test_sys_flags_are_javas():
    assert CompressionType.LZ4.sys_flag == COMPRESSED | 0x100
    assert CompressionType.ZSTD.sys_flag == COMPRESSED | 0x200
    assert CompressionType.ZLIB.sys_flag == COMPRESSED | 0x300


def test_formats_are_those_of_the_java_libraries():
    assert compress(b"a" * 100, CompressionType.ZLIB) == zlib.compress(b"a" * 100, 5)
    assert compress(b"a", CompressionType.LZ4)[:4].hex() == "04224d18"  # magic of an LZ4 frame
    assert compress(b"a", CompressionType.ZSTD)[:4].hex() == "28b52ffd"  # magic of a ZSTD frame


def test_no_type_is_zlib_of_old_clients():
    assert decompress(zlib.compress(b"old"), COMPRESSED) == b"old"


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_body_cut_anywhere_is_a_protocol_error(kind):
    body = compress(bytes(range(256)), kind)
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            decompress(body[:end], kind.sys_flag)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_growth_is_limited(kind):
    bomb = compress(bytes(1_000_000), kind)
    with pytest.raises(ProtocolError):
        decompress(bomb, kind.sys_flag, max_bytes=999_999)
    assert len(decompress(bomb, kind.sys_flag, max_bytes=1_000_000)) == 1_000_000


def test_a_zstd_frame_that_announces_too_much_is_refused():
    # A frame head with an 8 byte content size of 2^62: decompressing it at once would try to allocate that.
    frame = bytes.fromhex("28b52ffde0") + (2**62).to_bytes(8, "little") + bytes(20)
    with pytest.raises(ProtocolError):
        decompress(frame, CompressionType.ZSTD.sys_flag)


def test_an_unknown_type_is_named():
    with pytest.raises(ProtocolError):
        decompress(b"", 0x501)
    with pytest.raises(ConfigurationError):
        CompressionType.of("snappy")
    assert CompressionType.of("lz4") is CompressionType.LZ4


@pytest.mark.parametrize(("kind", "package"), [(CompressionType.LZ4, "lz4"), (CompressionType.ZSTD, "zstandard")])
def test_a_missing_library_is_named_with_the_way_to_get_it(kind, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"{package}.frame", raising=False)
    with pytest.raises(ConfigurationError, match=rf"package {package}.*pip install 'sprocketmq\[compression\]'"):
        compress(b"x", kind)
    with pytest.raises(ConfigurationError, match=f"package {package}"):
        decompress(b"x", kind.sys_flag)

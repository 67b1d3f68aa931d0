# SPDX-License-Identifier: Apache-2.0
"""Compressed message bodies (Java: CompressionType and its Compressors). ZLIB is an RFC 1950 stream; LZ4 means the LZ4 *frame* format,
ZSTD ordinary frames, both of the ``compression`` extra. Bit 0x1 of the sysFlag says whether a body is compressed, bits 8 to 10 how.
Clients before 5 write 0 there, which means ZLIB."""

from __future__ import annotations

import importlib
import zlib
from enum import IntEnum
from typing import Any, Final

from sprocketmq.errors import ConfigurationError, ProtocolError
from sprocketmq.wire.records.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK

# The limit of a decompressed body, because a few hostile bytes may grow to any size. Far above the 4 MiB that brokers accept by default.
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024


class CompressionType(IntEnum):
    """How a body is compressed; the value is that of Java's CompressionType."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        return COMPRESSED | (self.value << 8)

    @classmethod
    def of(cls, name: str) -> CompressionType:
        """Return the type with this name, as in ``compressType=LZ4``. Raises ConfigurationError (no such type)."""
        try:
            return cls[name.strip().upper()]
        except (AttributeError, KeyError):
            raise ConfigurationError(f"compress_type is {name!r}, LZ4, ZSTD or ZLIB are allowed") from None


def compress(body: bytes, compression_type: CompressionType = CompressionType.ZLIB, level: int = 5) -> bytes:
    """Compress ``body``, at ``level`` of the library. The caller adds ``compression_type.sys_flag`` to the sysFlag. Raises
    ConfigurationError (the library for this type is not installed)."""
    if compression_type is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if compression_type is CompressionType.LZ4:
        return bytes(_library("lz4.frame", "LZ4").compress(body, compression_level=level))
    return bytes(_library("zstandard", "ZSTD").ZstdCompressor(level=level).compress(body))


def check_library(compression_type: CompressionType) -> None:
    compress(b"-", compression_type)


def decompress(body: bytes, sys_flag: int, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress a body, by the type bits of ``sys_flag``. The caller then clears the bit COMPRESSED, and no other. Raises
    ProtocolError (broken or truncated data, an unknown type, or a result of more than ``max_bytes``), ConfigurationError (the
    library for this type is not installed)."""
    kind = (sys_flag & COMPRESSION_TYPE_MASK) >> 8
    if kind in (0, CompressionType.ZLIB):
        return _inflate(body, max_bytes)
    if kind == CompressionType.LZ4:
        return _unframe_lz4(body, max_bytes)
    if kind == CompressionType.ZSTD:
        return _unframe_zstd(body, max_bytes)
    raise ProtocolError(f"compression type {kind} is unknown, 0 and 3 (ZLIB), 1 (LZ4) and 2 (ZSTD) are allowed")


def _inflate(body: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise ProtocolError(f"a ZLIB body of {len(body)} bytes cannot be decompressed: {error}") from error
    return _whole(plain, stream.eof, body, max_bytes, "ZLIB")


def _unframe_lz4(body: bytes, max_bytes: int) -> bytes:
    stream = _library("lz4.frame", "LZ4").LZ4FrameDecompressor()
    try:
        plain = bytes(stream.decompress(body, max_length=max_bytes + 1))
    except RuntimeError as error:  # the library's only exception for bad data
        raise ProtocolError(f"an LZ4 body of {len(body)} bytes cannot be decompressed: {error}") from error
    return _whole(plain, stream.eof, body, max_bytes, "LZ4")


def _unframe_zstd(body: bytes, max_bytes: int) -> bytes:
    library = _library("zstandard", "ZSTD")
    # A reader, because decompress() allocates the size in the frame's header without a check.
    stream = library.ZstdDecompressor().stream_reader(body)
    try:
        plain = bytes(stream.read(max_bytes + 1))
        # A truncated frame gives a shorter result without an error. Only the size in its header shows it; the usual writers set that.
        size = library.frame_content_size(body)
    except library.ZstdError as error:
        raise ProtocolError(f"a ZSTD body of {len(body)} bytes cannot be decompressed: {error}") from error
    return _whole(plain, size < 0 or len(plain) == size, body, max_bytes, "ZSTD")


def _whole(plain: bytes, ended: bool, body: bytes, max_bytes: int, name: str) -> bytes:
    if len(plain) > max_bytes:
        raise ProtocolError(f"a {name} body of {len(body)} bytes grows beyond the {max_bytes} bytes that are allowed")
    if not ended:
        raise ProtocolError(f"a {name} body of {len(body)} bytes ends too early")
    return plain


def _library(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        from sprocketmq.extras import missing_extra

        raise missing_extra(f"a {name} body", "compression", error) from error

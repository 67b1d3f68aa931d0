# SPDX-License-Identifier: Apache-2.0
"""Cutting a byte stream into frames (Java: NettyDecoder, a LengthFieldBasedFrameDecoder over the int32 length). Large reads are kept as
they are, small ones in one buffer, because each object takes memory of its own; a frame that is split over many reads is joined once. A
length beyond the limit is an error before any byte of the frame is kept, so the limit bounds the memory of a connection."""

from __future__ import annotations

import struct
from typing import Final

from sprocketmq.errors import FrameTooLarge, ProtocolError

# com.rocketmq.remoting.frameMaxLength: 16 MiB, counted with the four length bytes.
MAX_FRAME_BYTES: Final = 16_777_216
# Reads below this size are gathered: a peer that sends byte by byte must not use forty times as much memory.
_SMALL_BYTES: Final = 8192
_LENGTH: Final = struct.Struct(">i").unpack_from
_LENGTH_AND_WORD: Final = struct.Struct(">iI").unpack_from
_SMALLEST_BYTES: Final = 8  # of a frame with its length word

# Begin and end of a frame without its length word, and its first four bytes as a number: encoding and length of its header.
Span = tuple[int, int, int]


class FrameDecoder:
    """Incremental decoder of one connection. After an error, close the connection, because the start of the next frame is unknown."""

    __slots__ = ("_max_frame_bytes", "_need", "_rest", "pending_bytes")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._rest: list[bytes | bytearray | memoryview] = []  # the beginning of an incomplete frame
        self.pending_bytes = 0
        """Bytes of an incomplete frame that are kept: 0 between frames. They take at most twice as much memory."""
        self._need = 4  # number of bytes in _rest that can complete its frame or its length word

    @property
    def begins_as_http2(self) -> bool:
        """Whether the bytes that are kept begin as a server of HTTP/2 does: a SETTINGS frame of stream 0 (RFC 9113, 3.4 and 6.5). In the
        remoting protocol that is a header of 0 bytes, which no peer sends."""
        begin = b"".join(bytes(part[:9]) for part in self._rest[:9])[:9]
        return len(begin) == 9 and begin[3] == 4 and not any(begin[5:])

    def cut(self, data: bytes | bytearray | memoryview) -> tuple[bytes, list[Span]]:
        """Take the bytes that arrived. Return immutable bytes and the spans of the complete frames in them (without their length
        words). Raises ProtocolError (the stream is not the remoting protocol: close the connection), such as FrameTooLarge."""
        rest = self._rest
        if rest:
            if self.pending_bytes + len(data) < self._need:
                self._wait(data if isinstance(data, bytes) else bytes(data))
                return b"", []
            whole = b"".join((*rest, data))
            self._rest, self.pending_bytes = [], 0
        else:
            whole = data if isinstance(data, bytes) else bytes(data)
        return whole, self._spans(whole)

    def _spans(self, whole: bytes) -> list[Span]:
        spans: list[Span] = []
        at, end, most = 0, len(whole), self._max_frame_bytes - 4
        last = end - _SMALLEST_BYTES
        self._need = 4
        while at <= last:
            length, word = _LENGTH_AND_WORD(whole, at)
            if not 4 <= length <= most:
                raise _wrong_length(length, most)
            begin = at + 4
            stop = begin + length
            if stop > end:
                self._need = 4 + length
                break
            spans.append((begin, stop, word))
            at = stop
        else:
            if end - at >= 4:  # a length word, and less than the header's length
                (length,) = _LENGTH(whole, at)
                if not 4 <= length <= most:
                    raise _wrong_length(length, most)
                self._need = 4 + length
        if at < end:
            rest = memoryview(whole)[at:]
            # A view keeps all of the read in memory, so it must be most of it.
            self._wait(rest if 2 * at <= end else bytes(rest))
        return spans

    def _wait(self, data: bytes | memoryview) -> None:
        rest = self._rest
        self.pending_bytes += len(data)
        if len(data) >= _SMALL_BYTES:
            rest.append(data)
        elif rest and isinstance(rest[-1], bytearray):
            rest[-1] += data
        else:
            rest.append(bytearray(data))


def _wrong_length(length: int, most: int) -> ProtocolError:
    if length < 4:
        return ProtocolError(f"a frame announces {length} bytes, at least 4 are needed for its header length")
    return FrameTooLarge(f"a frame announces {length} bytes, at most {most} are allowed")

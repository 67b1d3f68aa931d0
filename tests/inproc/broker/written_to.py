# SPDX-License-Identifier: Apache-2.0
"""A connection without a socket: what a broker writes to it can be looked at."""

from __future__ import annotations

import struct

from sprocketmq.wire.frames.command import Command, decode_command


class WrittenTo:
    """A connection's transport: keeps what was written to it, and reads nothing."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.written = b""
        self.closed = False
        self.host = host

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": (self.host, 45678), "sockname": ("127.0.0.1", 10911)}.get(name, default)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += bytes(data)

    def writelines(self, chunks: list[bytes]) -> None:
        self.written += b"".join(chunks)

    def answers(self) -> list[Command]:
        found, at = [], 0
        while at < len(self.written):
            (length,) = struct.unpack_from(">i", self.written, at)
            found.append(decode_command(memoryview(self.written)[at + 4 : at + 4 + length]))
            at += 4 + length
        return found

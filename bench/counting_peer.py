# SPDX-License-Identifier: Apache-2.0
"""What the benches without a socket give a connection as its transport. Imports nothing of ours: any checkout may use it."""

from __future__ import annotations

import asyncio
import struct


class Peer:
    """The transport of a connection without a socket: counts the answers that are written to it."""

    def __init__(self) -> None:
        self.count = self.awaited = 0
        self.all_came = asyncio.Event()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("127.0.0.1", 45678), "sockname": ("127.0.0.1", 10911)}.get(name, default)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def expect(self, answers: int) -> None:
        """Set ``all_came`` after this number of answers."""
        self.count, self.awaited = 0, answers
        self.all_came.clear()

    def write(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            self.count += 1
            at += 4 + struct.unpack_from(">i", data, at)[0]
        if self.count >= self.awaited:
            self.all_came.set()

    def writelines(self, chunks: list[bytes]) -> None:
        self.write(b"".join(chunks))

# SPDX-License-Identifier: Apache-2.0
"""What a connection over TLS reads, in blocks of their own size. asyncio and uvloop read each record into a new block of 256 KiB and
shrink it; what is left fits no further one, so a process that keeps the parts of many long frames took, and kept, two to three times
their bytes. A protocol with a buffer of its own gets its records in that buffer, and copies what came."""

from __future__ import annotations

import asyncio
from typing import Final

from sprocketmq.net.connection import Connection

_READ_BYTES: Final = 256 * 1024


class TlsReads(asyncio.BufferedProtocol):
    """Stands between the transport and a connection. Args: ``buffer`` from ``read_buffer``, shared by all connections of a loop."""

    def __init__(self, connection: Connection, buffer: memoryview) -> None:
        self.connection, self._buffer = connection, buffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connection.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.connection_lost(exc)

    def eof_received(self) -> None:
        self.connection.eof_received()

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.connection.data_received(bytes(self._buffer[:nbytes]))


def read_buffer() -> memoryview:
    """A buffer for connections of one loop: it is filled and copied in one turn."""
    return memoryview(bytearray(_READ_BYTES))

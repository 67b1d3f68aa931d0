# SPDX-License-Identifier: Apache-2.0
"""The replication port, which has a simple protocol of its own (Java: DefaultHAService.AcceptSocketService, DefaultHAConnection).

    slave --> master   int64: the slave has the log up to this physical offset
    master --> slave   int64 physical offset, int32 size, then so many bytes of the log; size 0 is a heartbeat

While a slave does not read, ``writable`` is False and nothing more should be sent, so a slow slave takes a limited amount of memory.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Any, Final, cast

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.address import joined_address
from sprocketmq.net.output.queued_bytes import QueuedBytes
from sprocketmq.net.output.write_pieces import write_pieces
from sprocketmq.net.process.descriptors import ConnectionShare, connection_share

_REPORT: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qi")
_HIGH_WATER_BYTES: Final = 1024 * 1024


class HaConnection(asyncio.Protocol):
    """The connection of one slave. All callbacks get this connection; ``on_report`` also gets the newest offset of a read."""

    def __init__(
        self,
        on_open: Callable[[HaConnection], None],
        on_report: Callable[[HaConnection, int], None],
        on_writable: Callable[[HaConnection], None],
        on_close: Callable[[HaConnection], None],
        queued: QueuedBytes | None = None,
    ) -> None:
        self._on_open, self._on_report = on_open, on_report
        self._on_writable, self._on_close = on_writable, on_close
        self._transport: asyncio.Transport | None = None
        self._begun = b""
        self.remote_address = ""
        self.writable = False
        self._queued = queued
        self._share: ConnectionShare | None = None  # the share that its descriptor is counted in
        self.now_s: Callable[[], float] = time.monotonic

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        share = connection_share()
        if not share.take():
            transport.abort()
            return
        self._transport, self._share = transport, share
        self.now_s = asyncio.get_running_loop().time
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.remote_address = joined_address(str(peer[0]), peer[1])
        self.writable = True
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        data = self._begun + data
        whole = len(data) - len(data) % _REPORT.size
        self._begun = data[whole:]
        if whole:
            # Reported offsets only grow, so the last one is enough.
            self._on_report(self, _REPORT.unpack_from(data, whole - _REPORT.size)[0])

    def queued_bytes(self) -> tuple[int, int]:
        return 0, 0 if self.writable or self._transport is None else self._transport.get_write_buffer_size()

    def _note(self) -> None:
        if self._queued is not None:
            self._queued.note(self, *self.queued_bytes(), self.now_s())

    def pause_writing(self) -> None:
        self.writable = False
        asyncio.get_running_loop().call_soon(self._note)

    def resume_writing(self) -> None:
        self.writable = not self.is_closed
        self._note()
        if self.writable:
            self._on_writable(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, self.writable = None, False
        if self._queued is not None:
            self._queued.discard(self)
        if self._share is not None:
            self._share.give_back()
            self._on_close(self)

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def send(self, physical_offset: int, data: Any = b"") -> None:
        """Send ``data``, a view of the log from ``physical_offset`` on; without data a heartbeat. Does nothing if closed."""
        if self._transport is None or self._transport.is_closing():
            return
        head = _HEAD.pack(physical_offset, len(data))
        if len(data):
            write_pieces(self._transport, [head, data], _HIGH_WATER_BYTES, is_paused=not self.writable)
        else:
            self._transport.write(head)

    def close(self) -> None:
        """Close the connection. A slave connects again by itself and requests what it misses."""
        self.abort()

    def abort(self) -> None:
        self.writable = False
        if self._transport is not None:
            self._transport.abort()


class HaServer:
    """The listening side: calls ``new_connection`` for each slave. Call ``start``, then ``stop``; it cannot be started again."""

    def __init__(self, new_connection: Callable[[], HaConnection]) -> None:
        self._new_connection = new_connection
        self._server: asyncio.AbstractServer | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen (port 0: any free one) and return the port. Raises ConfigurationError (the port is taken or not allowed)."""
        try:
            self._server = await asyncio.get_running_loop().create_server(self._new_connection, host, port)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen for slaves on {host}:{port}: {error.strerror or error}; choose another haListenPort, or -1 for none"
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening. The caller of ``HaServer`` closes the connections."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

# SPDX-License-Identifier: Apache-2.0
"""A listening socket whose connections speak the remoting protocol (Java: NettyRemotingServer). One peer cannot block it for others: a
connection above the limit is closed at once, a silent one after a while, and so is one whose peer reads (nearly) nothing of the bytes
that wait for it, even if it is half-closed."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec import Struct

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection, RequestHandler, SlowLog, close_all
from sprocketmq.net.output.queued_bytes import COUNTED_OUT_BYTES, QueuedBytes
from sprocketmq.net.process import fork
from sprocketmq.net.process.descriptors import connection_share
from sprocketmq.net.tls import ServerTls
from sprocketmq.net.tls_listener import TlsListener
from sprocketmq.wire.frames.frame import MAX_FRAME_BYTES
from sprocketmq.wire.frames.raw_command import HeaderReader

_BACKLOG: Final = 1024
_NO_DESCRIPTORS: Final = (
    "a connection is refused: %d are open on all ports, and the process has no file descriptors for more (ulimit -n)"
)


class Limits(Struct, frozen=True):
    """Limits of a server, of which ``max_idle_s`` is Apache's serverChannelMaxIdleTimeSeconds, ``max_frame_bytes`` its
    com.rocketmq.remoting.frameMaxLength, and the buffers serverSocketSndBufSize and serverSocketRcvBufSize (0: the system's default).

    Connections above ``max_connections``, and those for which the process has no spare descriptor (net.process.descriptors), are closed
    at once. ``slow_reader_timeout_s``: while more than 64 KiB wait for a peer, it has to read 64 KiB in this time.
    """

    max_connections: int = 65_536
    max_idle_s: float = 120.0
    slow_reader_timeout_s: float = 60.0
    max_frame_bytes: int = MAX_FRAME_BYTES
    send_buffer_bytes: int = 0
    receive_buffer_bytes: int = 0

    @property
    def sweep_interval_s(self) -> float:
        return min(self.max_idle_s, self.slow_reader_timeout_s) / 4


class Server:
    """Accepts connections and passes their requests to ``handler``. Call ``start``, then ``stop``; it cannot be started again."""

    def __init__(
        self,
        handler: RequestHandler,
        *,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        tls: ServerTls | None = None,
        limits: Limits | None = None,
        readers: Mapping[bytes, HeaderReader] | None = None,
        slow: SlowLog | None = None,
        queued: QueuedBytes | None = None,
    ) -> None:
        self._handler = handler
        self.queued = queued or QueuedBytes()
        """Shared by all servers of one broker or name server, so that they have one limit."""
        self._readers, self._slow = readers or {}, slow
        self._user_on_open, self._user_on_close = on_open, on_close
        self._tls, self._limits = tls, limits or Limits()
        self._share = connection_share()
        self._connections: dict[Connection, None] = {}  # in the order of their opening
        # For each connection with a backlog: the backlog, and since when its peer has read hardly any of it.
        self._stalled: dict[Connection, tuple[tuple[int, int], float]] = {}
        self.refused_connections = self.cut_off_connections = 0
        self._server: asyncio.AbstractServer | None = None
        self._tls_listener: TlsListener | None = None
        self._idle_sweep: asyncio.TimerHandle | None = None
        self.host, self.port = "", 0
        # For a manual clock: what a server asks clients, it asks for a client that waits for its answer.
        self.is_busy = False
        self.calls = frozenset[object]()
        fork.register(self)

    def after_fork_in_child(self) -> None:
        """In a forked child: give up the listening sockets, so that the port is free again when the parent stops."""
        for listening in getattr(self._server, "sockets", None) or ():
            fork.redirect_to_devnull(listening.fileno())
        for connection in self._connections:
            connection.after_fork_in_child()

    @property
    def connections(self) -> Collection[Connection]:
        return list(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (port 0: any free one) and return the port. Raises ConfigurationError (the port is taken, not
        allowed, or the host is not one of this machine)."""
        loop = asyncio.get_running_loop()
        try:
            self.host, self.port = host, await self._listen(host, port)
        except OSError as error:
            why = {errno.EADDRINUSE: "another process listens there", errno.EACCES: "not permitted"}.get(
                error.errno or 0, error.strerror or str(error)
            )
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {why}; choose another port, or 0 for any free one"
            ) from error
        self._idle_sweep = loop.call_later(self._limits.sweep_interval_s, self._sweep)
        return self.port

    async def _listen(self, host: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        if self._tls is not None:
            self._tls_listener = TlsListener(
                self._tls, self._new_connection, self._has_room, self._limits.max_idle_s, self.queued.troubles
            )
            return await self._tls_listener.start(host, port, _BACKLOG)
        self._server = await loop.create_server(self._new_connection, host, port, backlog=_BACKLOG)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._idle_sweep is not None:
            self._idle_sweep.cancel()
        if self._server is not None:
            self._server.close()
        if self._tls_listener is not None:
            self._tls_listener.close()
        await close_all(list(self._connections))
        if self._server is not None:
            await self._server.wait_closed()

    def _new_connection(self) -> Connection:
        return Connection(
            self._handler,
            self._opened,
            self._closed,
            self._limits.max_frame_bytes,
            readers=self._readers,
            is_served=True,
            slow=self._slow,
            queued=self.queued,
        )

    def _has_room(self, others: int = 0) -> bool:
        limit = self._limits.max_connections
        if len(self._connections) + others >= limit:
            self._refuse("a connection is refused: %d are open, which is the limit (maxConnections)", limit)
            return False
        if not self._share.has_room(others):
            self._refuse(_NO_DESCRIPTORS, self._share.limit)
            return False
        return True

    def _refuse(self, sentence: str, limit: int) -> None:
        self.refused_connections += 1
        self.queued.troubles.failed("too many connections", sentence, limit)

    def _opened(self, connection: Connection) -> None:
        if not self._has_room() or not self._share.take():
            connection.abort()
            return
        self._connections[connection] = None
        connection.set_socket_buffers(self._limits.send_buffer_bytes, self._limits.receive_buffer_bytes)
        if self._user_on_open is not None:
            self._user_on_open(connection)

    def _closed(self, connection: Connection) -> None:
        if connection not in self._connections:  # it was refused
            return
        del self._connections[connection]
        self._share.give_back()
        self._stalled.pop(connection, None)
        if self._user_on_close is not None:
            self._user_on_close(connection)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection in list(self._connections):
            if connection.backs_up or connection.is_closed:  # while closing, its peer may not read the last bytes
                self._check_slow_reader(connection, now_s)
            else:
                self._stalled.pop(connection, None)
                if now_s - connection.last_read_s > self._limits.max_idle_s:
                    connection.close()
        self._idle_sweep = loop.call_later(self._limits.sweep_interval_s, self._sweep)

    def _check_slow_reader(self, connection: Connection, now_s: float) -> None:
        (number, left_bytes) = backlog = connection.backlog
        (number_before, left_before_bytes), since_s = self._stalled.setdefault(connection, (backlog, now_s))
        if number != number_before or left_before_bytes - left_bytes >= COUNTED_OUT_BYTES:
            self._stalled[connection] = (backlog, now_s)
        elif now_s - since_s >= self._limits.slow_reader_timeout_s:
            self.cut_off_connections += 1
            sentence = "%s reads nothing, or nearly nothing, of the %d bytes that wait for it; its connection is closed"
            address = connection.remote_address
            self.queued.troubles.failed("slow readers", sentence, address, connection.unsent_bytes, of=address)
            connection.abort()

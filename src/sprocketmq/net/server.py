"""A listening socket whose connections speak the remoting protocol (Java: NettyRemotingServer)."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from typing import Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.wire.frame import MAX_FRAME_BYTES

__all__ = ["Server"]

# NettyServerConfig.serverChannelMaxIdleTimeSeconds
_MAX_IDLE_S: Final = 120.0
_BACKLOG: Final = 1024


class Server:
    """Accepts connections and feeds their requests to ``handler``. ``start`` then ``stop``; not restartable."""

    def __init__(
        self,
        handler: RequestHandler,
        *,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._handler = handler
        self._user_on_open, self._user_on_close = on_open, on_close
        self._ssl_context = ssl_context
        self._max_frame_bytes = max_frame_bytes
        self._connections: set[Connection] = set()
        self._server: asyncio.AbstractServer | None = None
        self._idle_sweep: asyncio.TimerHandle | None = None
        self.host, self.port = "", 0

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (port 0: any free one) and return the port.

        Raises:
            ConfigurationError: the port is taken, not allowed, or the host is not one of this machine.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._new_connection, host, port, backlog=_BACKLOG, ssl=self._ssl_context
            )
        except OSError as error:
            why = {errno.EADDRINUSE: "another process listens there", errno.EACCES: "not permitted"}.get(
                error.errno or 0, error.strerror or str(error)
            )
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {why}; choose another port, or 0 for any free one"
            ) from error
        self.host, self.port = host, self._server.sockets[0].getsockname()[1]
        self._idle_sweep = loop.call_later(_MAX_IDLE_S / 4, self._sweep)
        return self.port

    async def stop(self) -> None:
        """Stop listening and close every connection; written answers still go out."""
        if self._idle_sweep is not None:
            self._idle_sweep.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        for _ in range(50):  # a peer that does not read may hold its bytes: give it half a second, then cut
            if not self._connections:
                break
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()

    def _new_connection(self) -> Connection:
        return Connection(self._handler, self._opened, self._closed, self._max_frame_bytes)

    def _opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._user_on_open is not None:
            self._user_on_open(connection)

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._user_on_close is not None:
            self._user_on_close(connection)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in list(self._connections):
            if loop.time() - connection.last_read_s > _MAX_IDLE_S:
                connection.close()
        self._idle_sweep = loop.call_later(_MAX_IDLE_S / 4, self._sweep)

# SPDX-License-Identifier: Apache-2.0
"""Listening with a check whether the first byte of a connection begins TLS (Java: NettyRemotingServer.TlsModeHandler).

A connection that sends nothing, or does not finish its handshake in time, is closed; until then it counts as a connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.net.tls import HANDSHAKE_BYTE, ServerTls
from sprocketmq.net.tls_reads import TlsReads, read_buffer
from sprocketmq.troubles import Troubles

log = logging.getLogger("sprocketmq.net")

_HANDSHAKE_TIMEOUT_S: Final = 10.0  # netty's default
_ACCEPT_PAUSE_S: Final = 1.0
_ACCEPTS_PER_TURN: Final = 100


class TlsListener:
    """Listening sockets and the connections that have not become protocols yet. ``make_protocol``: returns a new protocol for a
    connection that is ready. ``has_room``: whether one more connection is allowed, given the number of those without a protocol
    so far. ``first_byte_timeout_s``: how long a connection may send nothing."""

    def __init__(
        self,
        tls: ServerTls,
        make_protocol: Callable[[], Connection],
        has_room: Callable[[int], bool],
        first_byte_timeout_s: float,
        troubles: Troubles,
    ) -> None:
        self._troubles = troubles
        self._tls, self._make_protocol, self._has_room = tls, make_protocol, has_room
        self._first_byte_timeout_s = first_byte_timeout_s
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._shaking = Tasks(log, "a TLS handshake")
        self._buffer = read_buffer()

    async def start(self, host: str, port: int, backlog: int) -> int:
        """Listen on all addresses of ``host`` and return the port. Raises OSError as binding does."""
        infos = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(infos):
                listening = socket.socket(family, kind, protocol)
                self._listening.append(listening)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind((address[0], port, *address[2:]))
                listening.listen(backlog)
                listening.setblocking(False)
                port = listening.getsockname()[1]  # with port 0, all sockets use the port that the first one got
                self._watch(listening)
        except BaseException:
            self.close()
            raise
        return port

    def close(self) -> None:
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        for connection, timer in list(self._silent.items()):
            timer.cancel()
            self._loop.remove_reader(connection)
            connection.close()
        self._silent.clear()
        self._shaking.cancel()

    @property
    def unfinished(self) -> int:
        return len(self._silent) + len(self._shaking)

    def _watch(self, listening: socket.socket) -> None:
        if listening.fileno() < 0:
            return
        try:
            self._loop.add_reader(listening, self._accept, listening)
        except NotImplementedError as error:
            raise ConfigurationError(
                "TLS needs an event loop that watches sockets; use a selector loop or uvloop"
            ) from error

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors left: retrying at once would only waste time
                sentence = "no connection can be accepted for %s s, those that are open go on: %s"
                self._troubles.failed("accept", sentence, _ACCEPT_PAUSE_S, error.strerror, level=logging.ERROR)
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_PAUSE_S, self._watch, listening)
                return
            if not self._has_room(self.unfinished):
                connection.close()
                continue
            connection.setblocking(False)
            self._silent[connection] = self._loop.call_later(self._first_byte_timeout_s, self._give_up, connection)
            self._loop.add_reader(connection, self._peek, connection)

    def _give_up(self, connection: socket.socket) -> None:
        self._silent.pop(connection).cancel()
        self._loop.remove_reader(connection)
        connection.close()

    def _peek(self, connection: socket.socket) -> None:
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        speaks_tls = first[:1] == bytes([HANDSHAKE_BYTE])
        if not first or (self._tls.is_enforcing and not speaks_tls):
            if first:
                peer, sentence = _peer(connection), "a plain connection from %s is closed: only TLS is allowed here"
                self._troubles.failed("without TLS", sentence, peer, of=peer)
            self._give_up(connection)
            return
        self._silent.pop(connection).cancel()
        self._loop.remove_reader(connection)
        self._shaking.start(self._start_protocol(connection, self._tls.context if speaks_tls else None))

    def _make_protocol_of_tls(self) -> TlsReads:
        return TlsReads(self._make_protocol(), self._buffer)

    async def _start_protocol(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        peer = _peer(connection)
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol if context is None else self._make_protocol_of_tls,
                connection,
                ssl=context,
                ssl_handshake_timeout=None if context is None else _HANDSHAKE_TIMEOUT_S,
            )
        except (TimeoutError, OSError) as error:  # SSLError and ConnectionError are OSErrors
            sentence, why = "the TLS handshake with %s failed: %s", str(error) or type(error).__name__
            self._troubles.failed("handshakes", sentence, peer, why, of=peer)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise


def _peer(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return "a disconnected peer"

# SPDX-License-Identifier: Apache-2.0
"""The two ports of a broker: the one that is reported to clients, and the one two below it (Java: remotingServer, fastRemotingServer).

Slaves request topics on the lower one, and clients with ``vipChannelEnabled`` send to it; it is opened only with replication.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.network_settings import limits_of
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.address import packed_address
from sprocketmq.net.connection import Connection
from sprocketmq.net.process.clock import watch
from sprocketmq.net.server import Server
from sprocketmq.wire.requests.readers import READERS

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_TRIES: Final = 20  # to find a port whose lower neighbour is free too, if any port may be used


class Ports:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._server: Server | None = None
        self._fast_server: Server | None = None

    def new_server(self) -> Server:
        broker = self._broker
        server = Server(
            broker.handle,
            on_open=note_born_host,
            on_close=broker.connection_closed,
            readers=READERS,
            slow=broker.slow_requests,
            tls=broker.tls,
            limits=limits_of(broker.config),
            queued=broker.queued_bytes,
        )
        watch(broker.clock, server)
        return server

    @property
    def is_open(self) -> bool:
        return self._server is not None

    @property
    def connection_count(self) -> int:
        return sum(len(server.connections) for server in (self._server, self._fast_server) if server is not None)

    @property
    def refused_connections(self) -> int:
        return sum(server.refused_connections for server in (self._server, self._fast_server) if server is not None)

    @property
    def cut_off_connections(self) -> int:
        return sum(server.cut_off_connections for server in (self._server, self._fast_server) if server is not None)

    async def open(self, host: str, port: int, *, with_fast_port: bool) -> int:
        """Listen on ``host:port`` (0: any free one), and if wanted on the port two below it, which may be taken: a warning. Returns the
        port. Raises ConfigurationError (the port is taken)."""
        for left in reversed(range(_TRIES)):
            self._server = self.new_server()
            found = await self._server.start(host, port)
            if not with_fast_port or found < 3:
                return found
            fast_server = self.new_server()
            try:
                await fast_server.start(host, found - 2)
            except ConfigurationError as error:
                if port == 0 and left:
                    await self._server.stop()
                    continue
                log.warning("slaves cannot copy the topics, and VIP clients cannot connect: %s", error)
                return found
            self._fast_server = fast_server
            return found
        raise AssertionError("the last try returns")

    async def close(self) -> None:
        """Stop listening and close every connection; written answers still go out."""
        for server in (self._fast_server, self._server):
            if server is not None:
                await server.stop()


def note_born_host(connection: Connection) -> None:
    connection.state["born_host"] = packed_address(connection.peer)

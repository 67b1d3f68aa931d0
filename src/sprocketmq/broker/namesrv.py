"""The name server: brokers say what they have, clients ask where a topic is (Java: DefaultRequestProcessor, ClientRequestProcessor).

    REGISTER_BROKER 103            GET_ROUTEINFO_BY_TOPIC 105              QUERY_DATA_VERSION 322
    UNREGISTER_BROKER 104          GET_BROKER_CLUSTER_INFO 106             BROKER_HEARTBEAT 904
    DELETE_TOPIC_IN_NAMESRV 216    GET_ALL_TOPIC_LIST_FROM_NAMESERVER 206

Everything known is in memory and comes back within 30 s from the brokers themselves; there is nothing to store. The rules are in
core.namesrv_table, here are only the requests, the scan for silent brokers, and the connections.

Gaps: compressed registrations (not Apache's default), key-value configuration (order topics), acting masters, zones, static topics.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Final

from sprocketmq.broker.config import NameServerConfig
from sprocketmq.broker.service import Periodic, Service
from sprocketmq.core.namesrv_table import BROKER_EXPIRE_MS, NamesrvTable
from sprocketmq.errors import ProtocolError
from sprocketmq.net.clock import Clock, SystemClock
from sprocketmq.net.connection import Connection
from sprocketmq.net.engine import Engine
from sprocketmq.net.server import Server
from sprocketmq.wire.bodies import DataVersion, KVTable, RegisterBrokerBody, TopicConfigSerializeWrapper, TopicList
from sprocketmq.wire.codes import RequestCode, ResponseCode, Version
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import (
    BrokerHeartbeatRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetRouteInfoRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)

__all__ = ["NameServer"]

log = logging.getLogger("sprocketmq.namesrv")

_MAX_SILENCE_MS: Final = (
    3_600_000  # a broker may ask for its own timeout; an hour of a dead broker in the routes is enough
)


class NameServer(Service):
    """A name server for brokers and clients of Apache RocketMQ 4.9 and 5.x, and for ours.

    Args:
        host: address to listen on, 127.0.0.1 by default.
        port: 9876 by default; 0 takes any free one, see :attr:`port` after the start.
        clock: time of the scan for silent brokers; the machine's by default.
        config: further settings.
        engine: an :class:`~sprocketmq.net.engine.Engine` to run on; a thread of its own by default.

    Use ``start()`` and ``stop()`` or ``with`` from blocking code, ``astart()`` and ``astop()`` or ``async with`` inside a loop. Set
    ``intercept`` to a function ``(connection, command, handler) -> answer`` to stand in front of every request.

    Raises (at the start):
        ConfigurationError: the port is taken.
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        *,
        clock: Clock | None = None,
        config: NameServerConfig | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__("sprocketmq-namesrv", engine)
        self.config = config or NameServerConfig()
        self.host = host or self.config.bind_address or "127.0.0.1"
        self.port = self.config.listen_port if port is None else port
        self.clock: Clock = clock or SystemClock()
        self.table = NamesrvTable()
        self._server: Server | None = None
        self._scan: Periodic | None = None
        self._handlers: dict[int, Callable[[Connection, Command, int], Command]] = {
            RequestCode.REGISTER_BROKER: self._register_broker,
            RequestCode.UNREGISTER_BROKER: self._unregister_broker,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topic_list,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.BROKER_HEARTBEAT: self._broker_heartbeat,
        }

    @property
    def address(self) -> str:
        """``host:port``, what clients and brokers take as their name server address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    namesrv_addr = address

    def __repr__(self) -> str:
        return f"NameServer({self.address}, {self._state})"

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._server = Server(self._handle, on_close=self._connection_closed)
        self.port = await self._server.start(self.host, self.port)
        self._scan = Periodic(self.clock, self.config.scan_not_active_broker_interval_ms, self._scan_silent_brokers)
        log.info("name server listens on %s", self.address)

    async def _stop(self) -> None:
        if self._scan is not None:
            self._scan.cancel()
        if self._server is not None:
            await self._server.stop()

    def _scan_silent_brokers(self) -> None:
        for live in self.table.expire(self.clock.now_ms()):
            log.warning(
                "broker %s at %s was silent for %d ms and is gone", live.broker_name, live.address, live.timeout_ms
            )
            if isinstance(live.owner, Connection):
                live.owner.close()

    def _connection_closed(self, connection: Connection) -> None:
        for live in self.table.connection_closed(connection):
            log.warning("broker %s at %s closed its connection and is gone", live.broker_name, live.address)

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def _dispatch(self, connection: Connection, command: Command) -> Command | None:
        handler = self._handlers.get(command.code)
        if handler is None:
            remark = f"request code {command.code} is not served by this name server"
            return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        return handler(connection, command, self.clock.now_ms())

    def _register_broker(self, connection: Connection, command: Command, now_ms: int) -> Command:
        header = command.header(RegisterBrokerRequestHeader)
        body = bytes(command.body)
        if header.body_crc32 and zlib.crc32(body) & 0x7FFFFFFF != header.body_crc32:
            return response(
                command, ResponseCode.SYSTEM_ERROR, "the body does not have the announced checksum bodyCrc32"
            )
        if header.compressed:
            remark = "compressed registrations are not read here; set compressedRegister=false on the broker"
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
        if body:
            topics = RegisterBrokerBody.decode(body).topic_config_serialize_wrapper
        else:
            topics = TopicConfigSerializeWrapper()
        silence_ms = header.heartbeat_timeout_millis or BROKER_EXPIRE_MS
        result = self.table.register(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            topics.topic_config_table,
            topics.data_version,
            now_ms,
            ha_address=header.ha_server_addr,
            timeout_ms=min(silence_ms, _MAX_SILENCE_MS),
            owner=connection,
        )
        answer = RegisterBrokerResponseHeader(
            ha_server_addr=result.ha_server_address or None, master_addr=result.master_address or None
        )
        return response(command, header=answer, body=KVTable(table={}).encode())

    def _unregister_broker(self, connection: Connection, command: Command, now_ms: int) -> Command:
        header = command.header(UnRegisterBrokerRequestHeader)
        self.table.unregister(header.cluster_name, header.broker_name, header.broker_addr)
        return response(command)

    def _route(self, connection: Connection, command: Command, now_ms: int) -> Command:
        header = command.header(GetRouteInfoRequestHeader)
        route = self.table.route(header.topic)
        if route is None:
            remark = f"no broker has topic {header.topic}; create it, or check its name"
            return response(command, ResponseCode.TOPIC_NOT_EXIST, remark)
        # Clients from 4.9.4 on, and those who ask for it, get JSON with quoted keys; older Java clients cannot tell the two apart.
        standard = command.version >= Version.V4_9_4 or bool(header.accept_standard_json_only)
        return response(command, body=route.encode_standard() if standard else route.encode())

    def _cluster_info(self, connection: Connection, command: Command, now_ms: int) -> Command:
        return response(command, body=self.table.cluster_info().encode())

    def _topic_list(self, connection: Connection, command: Command, now_ms: int) -> Command:
        if not self.config.enable_all_topic_list:
            return response(
                command, ResponseCode.SYSTEM_ERROR, "the list of topics is disabled here (enableAllTopicList)"
            )
        return response(command, body=TopicList(topic_list=self.table.topics()).encode())

    def _delete_topic(self, connection: Connection, command: Command, now_ms: int) -> Command:
        header = command.header(DeleteTopicFromNamesrvRequestHeader)
        self.table.delete_topic(header.topic, header.cluster_name or None)
        return response(command)

    def _query_data_version(self, connection: Connection, command: Command, now_ms: int) -> Command:
        header = command.header(QueryDataVersionRequestHeader)
        known = self.table.touch(header.cluster_name, header.broker_addr, now_ms)
        changed = known is None or known != DataVersion.decode(command.body)
        body = known.encode() if known is not None else b""
        return response(command, header=QueryDataVersionResponseHeader(changed=changed), body=body)

    def _broker_heartbeat(self, connection: Connection, command: Command, now_ms: int) -> Command:
        header = command.header(BrokerHeartbeatRequestHeader)
        if not header.broker_addr:
            raise ProtocolError("request code 904: brokerAddr is empty")
        self.table.touch(header.cluster_name, header.broker_addr, now_ms)
        return response(command)

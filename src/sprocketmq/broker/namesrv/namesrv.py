# SPDX-License-Identifier: Apache-2.0
"""The name server: brokers register their topics, clients request routes (Java: NamesrvController). Routes are in memory only, because
brokers register again within 30 s; the rules are in core.namesrv_table. Gaps: static topics; the controller of 5.x."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from sprocketmq.broker.namesrv.namesrv_requests import HANDLERS, changing_codes
from sprocketmq.broker.network_settings import client_tls_of, limits_of, queued_bytes_of, tls_of, watched_certificates
from sprocketmq.broker.security.name_checks import refusal_of_names
from sprocketmq.broker.service import Periodic, Service
from sprocketmq.broker.settings.config import NameServerConfig
from sprocketmq.broker.tables.kv_config import KVConfigTable
from sprocketmq.core.cluster.namesrv_table import NamesrvTable
from sprocketmq.core.cluster.registration import LiveBroker, MinIdChange
from sprocketmq.errors import RocketMQError
from sprocketmq.net.address import joined_address
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.clock import Clock, SystemClock, watch
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.net.server import Server
from sprocketmq.plain_values import plain_int, plain_text
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.troubles import Troubles
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import NotifyMinBrokerIdChangeRequestHeader
from sprocketmq.wire.requests.declaration import Peer
from sprocketmq.wire.text.java_properties import format_properties

log = logging.getLogger("sprocketmq.namesrv")


class NameServer(Service):
    """A name server for brokers and clients of Apache RocketMQ 4.9 and 5.x, and for ours.

    Args:
        port: 9876 by default; 0 takes any free one, see :attr:`port` after the start.
        clock: time of the scan for silent brokers; the machine's by default.

    ``host``, ``config`` and ``engine`` are as those of a :class:`~sprocketmq.broker.Broker`; so is how to start, stop and intercept it.

    Raises (at the start):
        ConfigurationError: the port is taken.
        StoreCorrupt: the file of the key-value configuration cannot be read.
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
        self.host = plain_text(host or self.config.bind_address or "127.0.0.1")
        self.port = self.config.listen_port if port is None else plain_int(port)
        self.clock: Clock = clock or SystemClock()
        self.troubles = Troubles(log, self.clock.steady_ms)
        self.table = NamesrvTable()
        self._changing = changing_codes()
        requests.check_handlers(Peer.NAME_SERVER, HANDLERS)
        self._server: Server | None = None
        self._scan: Periodic | None = None
        self._certificates: list[Periodic] = []
        self.kv_config = KVConfigTable(self.config.kv_config_path, troubles=self.troubles)
        self.start_ms = self.clock.steady_ms()
        self._pool: ConnectionPool | None = None
        self._tasks = Tasks(log, "background work")
        self._apply_config()

    @property
    def address(self) -> str:
        """The ``host:port`` that clients and brokers use as name server address."""
        return joined_address(self.host, self.port)

    namesrv_addr = address

    def __repr__(self) -> str:
        return f"NameServer({self.address}, {self._state})"

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self.start_ms = self.clock.steady_ms()
        self.kv_config.load()
        self._pool = ConnectionPool(ssl_context=client_tls_of(self.config), troubles=self.troubles)
        tls = tls_of(self.config)
        self._server = Server(
            self.handle,
            on_close=self._connection_closed,
            tls=tls,
            limits=limits_of(self.config),
            slow=self.slow_requests,
            queued=queued_bytes_of(self.config, self.troubles),
        )
        watch(self.clock, self._server)
        self.port = await self._server.start(self.host, self.port)
        self._scan = Periodic(self.clock, self.config.scan_not_active_broker_interval_ms, self._scan_silent_brokers)
        self._certificates = watched_certificates(self.clock, tls)
        self.ready.set()
        log.info("name server listens on %s", self.address)

    async def _stop(self) -> None:
        if self._scan is not None:
            self._scan.cancel()
        for watching in self._certificates:
            watching.cancel()
        self._tasks.cancel()
        self.cancel_answers()
        if self._server is not None:
            await self._server.stop()
        if self._pool is not None:
            await self._pool.aclose()
        self.kv_config.file.close()

    def _scan_silent_brokers(self) -> None:
        self.kv_config.file.retry()
        self.troubles.sweep()
        self.table.forget_old(self.clock.steady_ms())
        self._forget_closed_brokers(self.table.expire(self.clock.steady_ms()), self._was_silent)

    def _connection_closed(self, connection: Connection) -> None:
        closed = self.table.connection_closed(connection, self.clock.steady_ms())
        self._forget_closed_brokers(closed, self._has_closed)

    def _forget_closed_brokers(self, gone: Iterator[LiveBroker], report: Callable[[LiveBroker], None]) -> None:
        live = next(gone, None)
        if live is not None:
            report(live)
            self.notify_min_broker_id_changes()
            asyncio.get_running_loop().call_soon(self._forget_closed_brokers, gone, report)

    def _was_silent(self, live: LiveBroker) -> None:
        self._is_gone(live, f"was silent for {live.timeout_ms} ms")
        if isinstance(live.owner, Connection):
            live.owner.close()

    def _has_closed(self, live: LiveBroker) -> None:
        self._is_gone(live, "closed its connection")

    def _is_gone(self, live: LiveBroker, why: str) -> None:
        sentence = "broker %s at %s %s and is removed, clients do not find it until it registers again"
        self.troubles.failed(live.address, sentence, live.broker_name, live.address, why, lasts=True)

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, command: Command, is_intercepted: bool = False) -> Command | None:
        if self.intercept is not None and not is_intercepted:
            return self._ask_interceptor(connection, command)
        handler = HANDLERS.get(command.code)
        if handler is None:
            remark = f"request code {command.code} is not served by this name server"
            return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        if command.code in self._changing and not self._may_change(connection.peer[0]):
            reason = f"{connection.peer[0]} may not change anything here: brokerAllowedAddresses does not name it"
            self.troubles.failed(
                "refusals", "request code %d is refused: %s", command.code, reason, of=connection.peer[0]
            )
            return response(command, ResponseCode.NO_PERMISSION, reason)
        return refusal_of_names(command) or handler(self, connection, command, self.clock.steady_ms())

    def _may_change(self, host: str) -> bool:
        return not self._broker_addresses or any(pattern.matches(host) for pattern in self._broker_addresses)

    # -- what handlers use ---------------------------------------------------------------------------------------------------------

    def update_config(self, changes: dict[str, str]) -> None:
        """Change settings while running, by Apache's keys; unknown keys are logged. Raises ConfigurationError: a value is not
        allowed; nothing was changed."""
        self.config = NameServerConfig.from_properties({**self.config.to_properties(), **changes})
        self._apply_config()
        if self.config.config_store_path:
            ConfigFile(self.config.config_store_path).save(format_properties(self.config.to_properties()).encode())

    def _apply_config(self) -> None:
        self._broker_addresses = self.config.broker_addresses()
        self.table.max_brokers, self.table.max_topics = self.config.max_brokers, self.config.max_topics
        self.kv_config.max_keys = self.config.max_kv_config_keys
        self.kv_config.max_bytes = self.config.max_kv_config_bytes
        self.table.support_acting_master = self.config.support_acting_master
        self.table.delete_missing_topics = self.config.delete_topic_with_broker_registration
        if self._scan is not None:
            self._scan.cancel()
            self._scan = Periodic(self.clock, self.config.scan_not_active_broker_interval_ms, self._scan_silent_brokers)

    def notify_min_broker_id_changes(self) -> None:
        """Notify the remaining brokers of groups that lost a broker, for the changes that the table has noted."""
        changes, self.table.min_id_changes = self.table.min_id_changes, []
        for change in changes:
            self.notify_min_broker_id_change(change)

    def notify_min_broker_id_change(self, change: MinIdChange) -> None:
        """Notify the brokers of a 5.x group of its lowest id, if the settings say so. Java: notifyMinBrokerIdChanged."""
        if not self.config.notify_min_broker_id_changed or self._pool is None:
            return
        header = NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=change.min_id,
            min_broker_addr=change.min_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        for address in change.notified:
            self._tasks.start(self._notify(self._pool, address, header))

    async def _notify(self, pool: ConnectionPool, address: str, header: NotifyMinBrokerIdChangeRequestHeader) -> None:
        sentence = "broker %s was not told which broker has the lowest id of its group now: %s"
        try:
            connection = await pool.connection(address)
            if not connection.push(requests.name_servers.NOTIFY_MIN_BROKER_ID_CHANGE.command(header, oneway=True)):
                self.troubles.failed("notices", sentence, address, "it does not read", of=address)
        except RocketMQError as error:
            self.troubles.failed("notices", sentence, address, error, of=address)

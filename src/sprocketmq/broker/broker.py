# SPDX-License-Identifier: Apache-2.0
"""The broker: one store, one loop, the tables and timers around them (Java: BrokerStartup, BrokerController).

    connection --command--> names are checked --> access control, if it is on --> a handler: handle(broker, connection, command, now_ms)
        handler --> topics groups offsets consumers locks                  tables, no I/O
                `-> put (store.append), store.read                         at once, no await
        put     --> schedule (delay levels), timers, parked (long polling) are told what was stored
    timers: registration 30 s, offsets 5 s, delay progress 10 s, silent clients 10 s, old files 10 s

Everything runs on one loop, so handlers see and leave consistent tables without locks. Order of stopping: leave the name servers, stop
the parts that produce messages (schedule), answer waiting requests (pulls, SYNC_FLUSH), close connections, write the config files, close
the store.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from sprocketmq.broker.delivery.filters import FilterTable, PullFilter
from sprocketmq.broker.delivery.parked import ParkedPulls, PullRequest
from sprocketmq.broker.delivery.schedule import ScheduleMessageService
from sprocketmq.broker.delivery.timer_messages import TimerMessages
from sprocketmq.broker.delivery.transactions import Transactions
from sprocketmq.broker.delivery.undeliverable import Undeliverable
from sprocketmq.broker.expiry_clock import ExpiryClock
from sprocketmq.broker.handlers import HANDLERS
from sprocketmq.broker.handlers.messages.pull import handle_pull
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.housekeeping import Housekeeping
from sprocketmq.broker.index_building import IndexBuilding
from sprocketmq.broker.lazy_imports import LazyImports
from sprocketmq.broker.member_notices import MemberNotices
from sprocketmq.broker.network_settings import client_tls_of, queued_bytes_of, tls_of, watched_certificates
from sprocketmq.broker.observe.counters import Counters
from sprocketmq.broker.observe.memory_span import memory_span_bytes
from sprocketmq.broker.observe.metrics import BrokerMetrics
from sprocketmq.broker.observe.slow_requests import SlowRequests
from sprocketmq.broker.observe.statistics import Statistics
from sprocketmq.broker.ports import Ports
from sprocketmq.broker.replication.durability import DurableAnswers
from sprocketmq.broker.replication.handover import HandoverDriver
from sprocketmq.broker.replication.registration import Registration
from sprocketmq.broker.replication.replication import Replication
from sprocketmq.broker.replication.route_lookup import RouteLookup
from sprocketmq.broker.security.access import AccessValidator, acl_file, codes_in, topic_at, with_access_checks
from sprocketmq.broker.security.name_checks import ACCEPTED_NAMES, NAMES_IN, refusal_of_names
from sprocketmq.broker.security.plain_access import PlainAccessValidator
from sprocketmq.broker.security.users import UserAccessValidator, inner_credentials
from sprocketmq.broker.service import Periodic, Service
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.broker.settings.config_store import ConfigStore
from sprocketmq.broker.settings.live_config import LiveConfig
from sprocketmq.broker.tables.broker_identity import BrokerIdentity
from sprocketmq.broker.tables.consumers import ConsumerTable, ProducerTable
from sprocketmq.broker.tables.groups import GroupTable
from sprocketmq.broker.tables.offsets import OffsetTable
from sprocketmq.broker.tables.request_modes import RequestModes
from sprocketmq.broker.tables.table_file import answer_when_saved
from sprocketmq.broker.tables.topics import TopicTable
from sprocketmq.core.access.need_readers import Place
from sprocketmq.core.consume.queue_lock import QueueLockTable
from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import RocketMQError, StoreError
from sprocketmq.extras import needs_extra
from sprocketmq.net.address import address_of, announced_host, joined_address
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool, split_address
from sprocketmq.net.process.clock import Clock, SystemClock, watch
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.tls import ServerTls
from sprocketmq.store import (
    AppendResult,
    BatchAppendResult,
    DiskMessageStore,
    MessageStore,
    StoredBatch,
    StoredMessage,
)
from sprocketmq.troubles import Troubles
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import FLAG_ONEWAY, Command, response
from sprocketmq.wire.requests.declaration import Peer

log = logging.getLogger("sprocketmq.broker")

_REFUSED_WHILE_STOPPING: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
)


class Part(Protocol):
    """What runs in the background of a broker, on its loop. ``start`` is called when the store is loaded and the port is known, ``stop``
    before the store is closed, also after a start that failed half-way."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Broker(Service):
    """A broker for clients of Apache RocketMQ 4.9 and 5.x, and for ours.

    Args:
        namesrv_addr: name servers to register with, ``host:port``, several joined by ``;``. Default: ``config``, else the environment
            variable ``NAMESRV_ADDR``; without any the broker serves clients that know its address.
        host: address to listen on, 127.0.0.1 by default.
        port: 10911 by default; 0 takes any free one, see :attr:`port` after the start.
        store_dir: directory of messages and configuration in Apache RocketMQ's format; None (default) keeps everything in memory.
        broker_name, cluster_name: as clients and tools see them; ``broker-a`` and ``DefaultCluster`` by default.
        clock: time of everything but sockets; the machine's by default, a ManualClock in tests.
        config: further settings, see :class:`BrokerConfig`; arguments given here win.
        engine: an :class:`~sprocketmq.net.process.engine.Engine` to run on; a thread of its own by default.
        config_file: the properties file that ``config`` was read from: settings that a tool changes while the broker runs are changed
            there, too. Without one such a change lasts until the next start.

    Use ``start()`` and ``stop()`` or ``with`` from blocking code, ``astart()`` and ``astop()`` or ``async with`` inside a loop. Set
    ``intercept`` to a function ``(connection, command, handler) -> answer`` to intercept every request.

    Raises:
        ConfigurationError: an argument is out of range; at the start: the port is taken.
        StoreError: at the start: the directory is locked, not writable, or holds something that is not a store.
    """

    def __init__(
        self,
        namesrv_addr: str | None = None,
        host: str | None = None,
        port: int | None = None,
        store_dir: str | os.PathLike[str] | None = None,
        broker_name: str | None = None,
        cluster_name: str | None = None,
        *,
        clock: Clock | None = None,
        config: BrokerConfig | None = None,
        engine: Engine | None = None,
        config_file: str | os.PathLike[str] | None = None,
    ) -> None:
        # NumPy and lark are imported with the first request that needs them, which is too late to report that they are not installed.
        needs_extra("the broker", "broker", "lark", "numpy", "yaml")
        super().__init__("sprocketmq-broker", engine)
        given: dict[str, Any] = {
            "namesrv_addr": namesrv_addr,
            "bind_address": host,
            "listen_port": port,
            "store_path_root_dir": None if store_dir is None else os.fspath(store_dir),
            "broker_name": broker_name,
            "broker_cluster_name": cluster_name,
        }
        given = {field: value for field, value in given.items() if value is not None}
        self.config = config = BrokerConfig(**{**msgspec.structs.asdict(config or BrokerConfig()), **given})
        self.host = config.bind_address or "127.0.0.1"
        self.port = config.listen_port
        self.announced_host = announced_host(self.host, config.broker_ip)
        addresses = config.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
        self.name_servers = [address.strip() for address in addresses.split(";") if address.strip()]
        for address in self.name_servers:
            split_address(address, "namesrvAddr")
        self.clock: Clock = clock or SystemClock()
        self.start_ms = self.clock.now_ms()
        self.troubles = Troubles(log, self.clock.steady_ms)
        self.queued_bytes = queued_bytes_of(config, self.troubles)
        # Nothing is opened or read before the start.
        self.root = Path(config.store_path_root_dir) if config.store_path_root_dir else None
        store_config = config.store_config()
        self.store = MessageStore(store_config) if self.root is None else DiskMessageStore(self.root, store_config)
        self.memory_span_bytes = memory_span_bytes(config.access_message_in_memory_max_ratio)
        self.initial_max_offset = 0  # the end of the log at the start
        self.tls: ServerTls | None = None
        self.pool: ConnectionPool | None = None
        self._make_tables()
        self._make_delivery()
        self._make_access()
        self._make_replication()
        self._make_parts(None if config_file is None else Path(config_file))
        self._has_loaded = False
        self._periodic: list[Periodic] = []
        # With access control, ``_handlers`` has its check of each request, which calls the handler of ``_unchecked_handlers``.
        self._unchecked_handlers = self._handlers = dict(HANDLERS)
        requests.check_handlers(Peer.BROKER, self._handlers)
        if self._access is not None:
            self._handlers = with_access_checks(self._unchecked_handlers, self._access)

    def _make_tables(self) -> None:
        config = self.config
        self.topics = TopicTable(self)
        self.groups = GroupTable(self)
        self.offsets = OffsetTable(config.max_consumer_offsets)
        self.filters = FilterTable(self.clock, self.root, config.max_filters, self.troubles)
        self.member_notices = MemberNotices()
        self.consumers = ConsumerTable(self)
        self.producers = ProducerTable()
        self.locks = QueueLockTable(max_locks=config.max_queue_locks)
        self.request_modes = RequestModes(self.root, config.max_request_modes, self.troubles)
        self.routes = RouteLookup(self)
        self.counters = Counters(config.max_tallies)
        self.statistics = Statistics(self)
        self.slow_requests = SlowRequests(config.slow_request_ms)
        self.expressions: dict[str, PullFilter] = {}  # filters by tags, by their text: a cache
        self.identity = BrokerIdentity(config, address_of(self.announced_host), self.port)

    def _make_delivery(self) -> None:
        self.undeliverable = Undeliverable(self)
        self.schedule = ScheduleMessageService(self)
        self.timers = TimerMessages(self)
        self.expiry_clock = ExpiryClock(self.clock)
        self.transactions = Transactions(self)
        self.parked = ParkedPulls(self)
        self.lazy_imports = LazyImports()

    def _make_access(self) -> None:
        config = self.config
        place = Place(config.broker_cluster_name, topic_at(self.store))
        self.plain_access: PlainAccessValidator | None = None
        if config.acl_enable:
            open_codes = codes_in(config.authorization_whitelist, "authorizationWhitelist")
            self.plain_access = PlainAccessValidator(self.clock, acl_file(config), place, open_codes)
        self.users = UserAccessValidator(config, self.root, place)
        self._access: AccessValidator | None = self.users if config.authentication_enabled else self.plain_access

    def _make_replication(self) -> None:
        self.replication = Replication(self)
        self.handover = HandoverDriver(self)
        self.durable_answers = DurableAnswers(self) if self.config.flush_disk_type == "SYNC_FLUSH" else None
        # Whether the answer to a send waits for the disk or a slave. An attribute, because each send asks.
        self.sends_wait = self._sends_wait()

    def _make_parts(self, config_file: Path | None) -> None:
        self.ports = Ports(self)
        self.registration = Registration(self)
        self.config_store = ConfigStore(self)
        self.live_config = LiveConfig(self, config_file)
        self.metrics = BrokerMetrics(self)
        self.housekeeping = Housekeeping(self)
        self.index_building = IndexBuilding(self.store)
        # In the order of starting; they are stopped in the opposite order.
        self.parts: list[Part] = [
            self.filters,
            self.transactions,  # before parts that store messages: an interrupted commit must be the last record of the log
            self.schedule,
            self.timers,
            self.replication,
            self.handover,
            self.metrics,
            self.request_modes,
            self.housekeeping,
            self.index_building,
        ]
        if self.plain_access is not None:
            self.parts.append(self.plain_access)

    @property
    def address(self) -> str:
        """The ``host:port`` that is reported to clients."""
        return joined_address(self.announced_host, self.port)

    @property
    def ha_address(self) -> str:
        """The ``host:port`` that is reported to slaves; empty without a replication port."""
        host = self.config.broker_ip2 or self.announced_host
        return joined_address(host, self.replication.port) if self.replication.port else ""

    @property
    def namesrv_addr(self) -> str:
        return ";".join(self.name_servers)

    @property
    def connection_count(self) -> int:
        return self.ports.connection_count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.broker_name!r}, {self.address}, {self._state})"

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        now_ms = self.start_ms = self.clock.now_ms()
        self.handover.check_not_handed_over()
        self.config_store.check_tables(accepts_loss=self.config.accept_store_loss)
        known_topics = self.config_store.load_topics()
        self.store.load(self.topics.deleted, known_topics)
        self.config_store.load()
        if self.store.has_lost_messages:
            self.config_store.clamp_progress()
        if self.plain_access is not None:
            self.plain_access.load()
        self.users.load()
        self.topics.forget_deletions(self.store.min_physical_offset, self.store.max_physical_offset)
        self.topics.adopt(self.store.queues(), now_ms)
        for topic in self.topics.deleted.keys() - self.topics.table:
            self.offsets.forget_topic(topic)  # a kill came between the two files
        # Before such a topic is created again, and before any append.
        await self.config_store.saved(offsets=self.offsets.is_dirty)
        self.initial_max_offset = self.store.max_physical_offset
        self.tls = tls_of(self.config)
        self.port = await self.ports.open(self.host, self.config.listen_port, with_fast_port=self.replication.is_wanted)
        # Again: the port is known now.
        self.identity = BrokerIdentity(self.config, address_of(self.announced_host), self.port)
        self.pool = ConnectionPool(
            ssl_context=client_tls_of(self.config),
            credentials=inner_credentials(self.config),
            troubles=self.troubles,
        )
        watch(self.clock, self.pool)
        self._has_loaded = True
        for part in self.parts:
            await part.start()
        self._periodic = watched_certificates(self.clock, self.tls)
        self.config_store.save_all()
        await self.config_store.saved()
        if not self.name_servers:
            log.warning(
                "no name server is given: broker %s serves only clients that know %s",
                self.config.broker_name,
                self.address,
            )
        await self.registration.start()
        log.info("broker %s listens on %s", self.config.broker_name, self.address)

    async def _stop(self) -> None:
        for code in _REFUSED_WHILE_STOPPING:
            self._handlers[code] = _refuse_while_stopping
        try:
            await self._stop_serving()
        finally:
            # Else nothing was loaded, and nothing may be overwritten.
            self.config_store.close(save=self.ports.is_open)
            self.store.close()

    async def _stop_serving(self) -> None:
        await self.registration.stop()
        for periodic in self._periodic:
            periodic.cancel()
        for part in reversed(self.parts):
            await part.stop()
        self.parked.stop()
        if self.durable_answers is not None:
            self.durable_answers.stop()
        self.cancel_answers()
        await self.ports.close()
        if self.pool is not None:
            await self.pool.aclose()

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, command: Command, is_intercepted: bool = False) -> Command | None:
        if self.intercept is not None and not is_intercepted:
            return self._ask_interceptor(connection, command)
        handler = self._handlers.get(command.code)
        if handler is None:
            remark = f"request code {command.code} is not served by this broker"
            return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        header = command.typed_header
        # As in refusal_of_names, without a call: nearly all requests have names that were accepted before.
        if header is None or not ACCEPTED_NAMES.issuperset(NAMES_IN[type(header)](header)):
            refusal = refusal_of_names(command)
            if refusal is not None:
                return refusal
        try:
            return handler(self, connection, command, self.clock.now_ms())
        except StoreError as error:  # no space, a failed disk: the client may try another broker
            return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))

    def before_request(self, code: int, check: Callable[[Connection, Command], Command | None]) -> None:
        """Call ``check`` with each request that access control allowed. If it returns an answer, the handler is not called."""
        handler = self._unchecked_handlers.get(code)
        if handler is None:
            return

        def checked(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
            return check(connection, command) or handler(broker, connection, command, now_ms)

        self._unchecked_handlers[code] = checked

    def answer_pull_again(self, pull: PullRequest) -> None:
        connection, command = pull.connection, pull.command
        if connection.is_closed:
            return
        if connection.is_congested:  # its peer does not read: the messages stay in the store until it does
            connection.when_writable(lambda: self.parked.answer_soon(pull))
            return
        group = pull.header.consumer_group
        try:
            if group not in self.groups:  # deleted while the pull waited; a lookup would create it again
                connection.send(unknown_group(command, group))
                return
            answer = handle_pull(self, connection, command, self.clock.now_ms(), pull.header)
        except RocketMQError as error:
            answer = response(command, ResponseCode.SYSTEM_ERROR, str(error))
        if answer is not None:
            connection.send(answer)

    def may_send(self, connection: Connection, topic: str) -> bool:
        """Whether a client, by its last heartbeat, may send to a topic. Then the broker may ask it about half messages for the topic."""
        return self._access is None or self._access.may_send(connection, topic)

    def connection_closed(self, connection: Connection) -> None:
        """Forget a disconnected client: its waiting pulls and its groups. Does nothing the second time."""
        self.parked.connection_closed(connection)
        self.producers.connection_closed(connection)
        self.consumers.connection_closed(connection)

    # -- what handlers use -----------------------------------------------------------------------------------------------------------

    def put(self, message: StoredMessage, now_ms: int, *, is_new: bool = True) -> AppendResult:
        """Store one message and wake the pulls that wait for it. ``is_new``: False for a copy of an accepted message, which
        ``maxMessageSize`` does not limit again. Raises ConfigurationError (over a limit), StoreNotWritable; nothing was written."""
        store = self.store
        result = store.append(message, now_ms) if is_new else store.append_again(message, now_ms)
        self.counters.stored(message.topic, 1, result.size)
        if message.topic == SCHEDULE_TOPIC:
            self.schedule.stored(message.queue_id)
        elif message.topic == TIMER_TOPIC:
            self.timers.stored()
        self.parked.arrived(message.topic, message.queue_id, message.tags_code)
        return result

    def put_batch(self, batch: StoredBatch, now_ms: int) -> BatchAppendResult:
        """Store messages of one topic and queue, all or none. Raises as ``put``."""
        result = self.store.append_batch(batch, now_ms)
        self.counters.stored(batch.topic, batch.elements.count, result.size)
        if batch.topic == TIMER_TOPIC:
            self.timers.stored()
        if self.parked.waiting(batch.topic, batch.queue_id):
            for tags_code in set(batch.tags_codes):
                self.parked.arrived(batch.topic, batch.queue_id, tags_code)
        return result

    def answer_when_durable(
        self,
        connection: Connection,
        command: Command,
        answer: Command,
        end: int,
        waits: bool,
        *,
        sent_back: bool = False,
    ) -> Command | None:
        """Send ``answer`` now, or under SYNC_FLUSH once the log up to ``end`` is on the disk (unless the message says WAIT=false).
        ``sent_back``: of a message that a consumer sent back, which waits less (rule 4 of ``DurableAnswers``)."""
        if not waits or not self.sends_wait or (self.durable_answers is None and sent_back):
            return answer
        # The request is let go: its body and fields are in the log, and must not be held a second time for seconds.
        asked = None if command.flag & FLAG_ONEWAY else answer
        if self.durable_answers is not None:
            self.durable_answers.wait(connection, asked, end, sent_back=sent_back)
        else:
            self.replication.wait(connection, asked, end)
        return None

    def answer_when_saved(
        self, connection: Connection, command: Command, answer: Command, *, offsets: bool = False
    ) -> None:
        answer_when_saved(connection, command, answer, partial(self.config_store.when_saved, offsets=offsets))

    def earliest_store_time(self) -> int:
        """Store time of the oldest message in the log, -1 if it is empty."""
        first = self.store.view_at(self.store.min_physical_offset)  # a file of the log begins with a record
        return -1 if first is None else first.store_timestamp_ms

    async def registered(self) -> None:
        """Wait until every reachable name server knows the present topics."""
        await self.registration.finished()

    # -- changes -----------------------------------------------------------------------------------------------------------------

    def topics_changed(self) -> None:
        """Topics have to be written and registered. While tables are loaded nothing is: all are written at the end of the start."""
        if self._has_loaded:
            self.config_store.topics_changed()
            self.registration.changed()

    def groups_changed(self) -> None:
        if self._has_loaded:
            self.config_store.groups_changed()

    def replace_config(self, after: BrokerConfig, now_ms: int) -> None:
        before, self.config = self.config, after
        self.sends_wait = self._sends_wait()
        self.store.reconfigure(after.store_config())
        self.memory_span_bytes = memory_span_bytes(after.access_message_in_memory_max_ratio)
        if after.broker_permission != before.broker_permission:
            self.topics.announce(now_ms)

    def _sends_wait(self) -> bool:
        return self.durable_answers is not None or self.config.broker_role == "SYNC_MASTER"


def _refuse_while_stopping(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    remark = f"broker {broker.config.broker_name} is stopping; use another one, or try again later"
    return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, remark)

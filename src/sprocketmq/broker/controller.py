# SPDX-License-Identifier: Apache-2.0
"""The broker: one store, one loop, the tables and timers around them (Java: BrokerController).

    connection --command--> handlers/<family> --> topics groups offsets consumers locks        tables, no I/O
                                              `-> store.append / store.read                     at once, no await
                    put --> schedule (delay levels), parked (long polling)                      woken by what was stored
                    timers: registration 30 s, offsets 5 s, delay progress 10 s, silent clients 10 s, old files 10 s

Everything runs on one loop, so handlers see and leave consistent tables without locks. Order of stopping: leave the name servers, stop
the parts that produce messages (schedule), answer waiting requests (pulls, SYNC_FLUSH), close connections, write the config files, close
the store.
"""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from sprocketmq.broker.believed_time import BelievedTime
from sprocketmq.broker.delivery.filters import FilterTable, PullFilter
from sprocketmq.broker.delivery.parked import ParkedPulls, PullRequest
from sprocketmq.broker.delivery.schedule import ScheduleMessageService
from sprocketmq.broker.delivery.timer_messages import TimerMessages
from sprocketmq.broker.delivery.transactions import Transactions
from sprocketmq.broker.delivery.undeliverable import Undeliverable
from sprocketmq.broker.housekeeping import Housekeeping
from sprocketmq.broker.index_building import IndexBuilding
from sprocketmq.broker.lazy_imports import LateLibraries
from sprocketmq.broker.listening import client_tls_of, queued_bytes_of, tls_of, watched_certificates
from sprocketmq.broker.member_notices import MemberNotices
from sprocketmq.broker.observe.counters import Counters
from sprocketmq.broker.observe.memory_span import memory_span_bytes
from sprocketmq.broker.observe.metrics import BrokerMetrics
from sprocketmq.broker.observe.slow_requests import SlowRequests
from sprocketmq.broker.observe.statistics import Statistics
from sprocketmq.broker.ports import Ports
from sprocketmq.broker.replication.durability import DurableAnswers
from sprocketmq.broker.replication.handover import HandoverDriver
from sprocketmq.broker.replication.registration import Registration, registration_parts
from sprocketmq.broker.replication.replication import Replication
from sprocketmq.broker.replication.route_lookup import RouteLookup
from sprocketmq.broker.security.access import AccessValidator, acl_file, codes_in, topic_at
from sprocketmq.broker.security.plain_access import PlainAccessValidator
from sprocketmq.broker.security.users import UserAccessValidator, inner_credentials
from sprocketmq.broker.service import Part, Periodic, Service
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.broker.settings.config_store import ConfigStore
from sprocketmq.broker.settings.live_config import LiveConfig
from sprocketmq.broker.tables.consumers import ConsumerGroup, ConsumerTable, ProducerTable
from sprocketmq.broker.tables.groups import GroupTable
from sprocketmq.broker.tables.offsets import OffsetTable
from sprocketmq.broker.tables.request_modes import RequestModes
from sprocketmq.broker.tables.stamps import Stamps
from sprocketmq.broker.tables.table_file import answer_when_saved, once_saved
from sprocketmq.broker.tables.topics import TopicTable
from sprocketmq.core.access.need_readers import Place
from sprocketmq.core.consume.queue_lock import QueueLockTable
from sprocketmq.core.retry.retry_schedule import SCHEDULE_TOPIC, DelayLevels
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import StoreError
from sprocketmq.net.address import address_of, announced_host, joined_address
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool, split_address
from sprocketmq.net.process.clock import Clock, SystemClock, watch
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.server import Server
from sprocketmq.net.tls import ServerTls
from sprocketmq.store import (
    AppendResult,
    BatchAppendResult,
    DiskMessageStore,
    MessageStore,
    StoredBatch,
    StoredMessage,
)
from sprocketmq.wire.frames.command import FLAG_ONEWAY, Command
from sprocketmq.wire.records.record import RecordView

log = logging.getLogger("sprocketmq.broker")

SYNC_MASTER: Final = "SYNC_MASTER"

# Answers one request: returns the answer, or None if it sends the answer later itself.
Handler = Callable[["BrokerController", Connection, Command, int], "Command | None"]


class BrokerController(Service):
    """A broker as its handlers see it: the store, the tables, the background parts, and the order of starting and stopping.

    ``Broker`` has the table of requests and handlers: handlers import this class, and it imports none of them.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock | None, engine: Engine | None, config_file: Path | None
    ) -> None:
        super().__init__("sprocketmq-broker", engine)
        self.config = config
        self.host = self.config.bind_address or "127.0.0.1"
        self.port = self.config.listen_port
        self.announced_host = announced_host(self.host, self.config.broker_ip)
        addresses = self.config.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
        self.name_servers = [address.strip() for address in addresses.split(";") if address.strip()]
        for address in self.name_servers:
            split_address(address, "namesrvAddr")
        self.clock: Clock = clock or SystemClock()
        self.start_ms = self.clock.now_ms()
        self.queued_bytes = queued_bytes_of(self.config)
        self._registration: Registration | None = None
        # Nothing is opened or read before the start.
        root = Path(config.store_path_root_dir) if config.store_path_root_dir else None
        store_config = config.store_config()
        self.store: MessageStore = MessageStore(store_config) if root is None else DiskMessageStore(root, store_config)
        self._make_tables(root)
        self._make_delivery(root)
        self._make_replication(root)
        self._make_access(root)
        self._make_parts(root, config_file)
        self._tls: ServerTls | None = None
        self._ports = Ports(self._new_server)
        self._pool: ConnectionPool | None = None
        self._periodic: list[Periodic] = []

    def _make_tables(self, root: Path | None) -> None:
        """Make the tables that requests read and change."""
        config, now_ms = self.config, self.start_ms
        self.topics = TopicTable(lambda: self.config, now_ms, self._topics_changed)
        self.groups = GroupTable(lambda: self.config, now_ms, self._groups_changed)
        self.offsets = OffsetTable(config.max_consumer_offsets)
        self.filters = FilterTable(self.clock, root, config.max_filters)
        self._notices = MemberNotices()
        self.consumers = ConsumerTable(
            self._notify_members,
            lambda group: self.filters.unregister(group, self.clock.now_ms()),
            lambda group, subscription: self.filters.restore(group, subscription, self.clock.now_ms()),
        )
        self.producers = ProducerTable()
        self.locks = QueueLockTable(max_locks=config.max_queue_locks)
        self.request_modes = RequestModes(root, config.max_request_modes)
        self.routes = RouteLookup(
            self.clock, lambda: self._pool, self.name_servers, config.broker_name, self.topics.get
        )
        self.counters = Counters(config.max_tallies)
        self.statistics = Statistics(self.counters, config.broker_cluster_name, self.topics.is_system, now_ms)
        self.slow_requests = SlowRequests(config.slow_request_ms)
        self.expressions: dict[str, PullFilter] = {}
        self.stamps = Stamps(config, address_of(self.announced_host), self.port)
        self.memory_span_bytes = memory_span_bytes(config.access_message_in_memory_max_ratio)
        self.initial_max_offset = 0

    def _make_delivery(self, root: Path | None) -> None:
        """Make the parts for waiting pulls and waiting messages."""
        config = self.config
        self.undeliverable = Undeliverable(self.clock, self.store, self.topics, self.put)
        self.schedule = ScheduleMessageService(
            self.clock,
            self.store,
            DelayLevels.parse(config.message_delay_level),
            self.undeliverable.deliver,
        )
        self.timers = TimerMessages(
            self.clock, self.store, lambda: self.config, root, self.undeliverable.deliver, self.undeliverable.wait_on
        )
        self._believed_time = BelievedTime(self.clock)
        self.transactions = Transactions(
            self,
            self.clock,
            self._believed_time,
            self.store,
            self.topics,
            self.offsets,
            self.producers,
            self.undeliverable,
        )
        self.parked = ParkedPulls(
            self.clock,
            self._answer_pull_again,
            self.store.max_offset,
            limit=config.max_parked_pulls,
            limit_per_connection=config.max_parked_pulls_per_connection,
        )
        self.lazy_imports = LateLibraries()

    def _make_replication(self, root: Path | None) -> None:
        """Make the parts that wait for disk and slaves before a send is answered."""
        config = self.config
        self._slave_addresses = config.slave_addresses()
        self.replication = Replication(
            self.clock, self.store, lambda: self.config, lambda: self.port, self._may_copy, self.queued_bytes
        )
        self.handover = HandoverDriver(
            self, config.broker_name, self.clock, self.store, self.topics, self.replication, root
        )
        self._durable: DurableAnswers | None = None
        if config.flush_disk_type == "SYNC_FLUSH":
            self._durable = DurableAnswers(self.store, config.sync_flush_timeout_ms, self._answer_when_replicated)
        # Whether the answer to a send waits for the disk or a slave. An attribute, because each send asks.
        self.sends_wait = self._sends_wait()

    def _make_access(self, root: Path | None) -> None:
        config = self.config
        place = Place(config.broker_cluster_name, topic_at(self.store))
        self.plain_access: PlainAccessValidator | None = None
        if config.acl_enable:
            open_codes = codes_in(config.authorization_whitelist, "authorizationWhitelist")
            self.plain_access = PlainAccessValidator(self.clock, acl_file(config), place, open_codes)
        self.users = UserAccessValidator(config, root, place)
        self._access: AccessValidator | None = self.users if config.authentication_enabled else self.plain_access

    def _make_parts(self, root: Path | None, config_file: Path | None) -> None:
        """Make the background parts."""
        self._config_store = ConfigStore(
            root, self.clock, self.store, self.topics, self.groups, self.offsets, self.schedule
        )
        self.live_config = LiveConfig(
            lambda: self.config, self._replace_config, self.start_ms, has_tls=lambda: self.has_tls, file=config_file
        )
        self.metrics = BrokerMetrics(self)
        self.housekeeping = Housekeeping(self, self.clock, self._believed_time, self._config_store)
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
        """The name servers this broker registers with, joined by ``;``."""
        return ";".join(self.name_servers)

    @property
    def has_tls(self) -> bool:
        """Whether clients may or must use TLS."""
        return self._tls is not None

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return self._ports.connection_count

    @property
    def refused_connections(self) -> int:
        """Number of connections that were refused since the start."""
        return self._ports.refused_connections

    @property
    def cut_off_connections(self) -> int:
        """Number of connections that were closed since the start because their peers did not read."""
        return self._ports.cut_off_connections

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.broker_name!r}, {self.address}, {self._state})"

    # -- what serves the requests: ``Broker`` ---------------------------------------------------------------------------------

    @abstractmethod
    def before_request(self, code: int, look: Callable[[Connection, Command], Command | None]) -> None:
        """Call ``look`` with each request with ``code`` that access control allowed. If it returns an answer, the handler is not called."""

    @abstractmethod
    def _new_server(self) -> Server: ...

    @abstractmethod
    def _answer_pull_again(self, pull: PullRequest) -> None:
        """Answer a pull that waited, or let it continue to wait."""

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        now_ms = self.start_ms = self.clock.now_ms()
        self.handover.check_not_handed_over()
        self._config_store.check_tables(accepts_loss=self.config.accept_store_loss)
        known_topics = self._config_store.load_topics()
        self.store.load(self.topics.deleted, known_topics)
        self._config_store.load()
        if self.store.has_lost_messages:
            self._config_store.clamp_progress()
        if self.plain_access is not None:
            self.plain_access.load()
        self.users.load()
        self.topics.forget_deletions(self.store.min_physical_offset, self.store.max_physical_offset)
        self.topics.adopt(self.store.queues(), now_ms)
        for topic in self.topics.deleted.keys() - self.topics.table:
            self.offsets.forget_topic(topic)  # a kill came between the two files
        await self.saved(offsets=self.offsets.is_dirty)  # before such a topic is created again, and before any append
        self.initial_max_offset = self.store.max_physical_offset
        self._tls = tls_of(self.config)
        self.port = await self._ports.open(
            self.host, self.config.listen_port, with_fast_port=self.replication.is_wanted
        )
        self.stamps = Stamps(self.config, address_of(self.announced_host), self.port)  # again: the port is known now
        self._pool = ConnectionPool(ssl_context=client_tls_of(self.config), credentials=inner_credentials(self.config))
        watch(self.clock, self._pool)
        self._registration = Registration(
            self.clock,
            self._pool,
            self.name_servers,
            cluster_name=self.config.broker_cluster_name,
            broker_name=self.config.broker_name,
            address=self.address,
            period_ms=self.config.register_namesrv_period_ms,
            parts=lambda: registration_parts(self.config, self.topics),
            ha_address=lambda: self.ha_address,
            on_order_topics=lambda topics: self.topics.mark_ordered(topics, self.clock.now_ms()),
            on_known=self.ready.set,
        )
        for part in self.parts:
            await part.start()
        self._periodic = watched_certificates(self.clock, self._tls)
        self._config_store.save_all()
        await self.saved()
        if not self.name_servers:
            log.warning(
                "no name server is given: broker %s serves only clients that know %s",
                self.config.broker_name,
                self.address,
            )
        await self._registration.start()
        log.info("broker %s listens on %s", self.config.broker_name, self.address)

    async def _stop(self) -> None:
        try:
            await self._stop_serving()
        finally:
            # Else nothing was loaded, and nothing may be overwritten.
            self._config_store.close(save=self._ports.is_open)
            self.store.close()

    async def _stop_serving(self) -> None:
        if self._registration is not None:
            await self._registration.stop()
        for periodic in self._periodic:
            periodic.cancel()
        for part in reversed(self.parts):
            await part.stop()
        self.parked.stop()
        if self._durable is not None:
            self._durable.stop()
        self.cancel_answers()
        await self._ports.close()
        if self._pool is not None:
            await self._pool.aclose()

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def _may_copy(self, host: str) -> bool:
        """Whether a slave may connect from this address. The setting decides; with access control it is required."""
        if self._slave_addresses:
            return any(pattern.matches(host) for pattern in self._slave_addresses)
        if self.plain_access is not None:  # the documented place of slaves at 4.9's accounts; they sign nothing
            return self.plain_access.is_white(host)
        return not self.config.authentication_enabled and not (self._tls is not None and self._tls.is_enforcing)

    def may_send(self, connection: Connection, topic: str) -> bool:
        """Whether a client, by its last heartbeat, may send to a topic. Then the broker may ask it about half messages for the topic."""
        return self._access is None or self._access.may_send(connection, topic)

    def connection_closed(self, connection: Connection) -> None:
        """Remove a disconnected client from all groups and waiting requests. Does nothing the second time."""
        self.parked.connection_closed(connection)
        self.producers.connection_closed(connection)
        self.consumers.connection_closed(connection)

    # -- what handlers use -----------------------------------------------------------------------------------------------------------

    def put(self, message: StoredMessage, now_ms: int, *, is_new: bool = True) -> AppendResult:
        """Store one message and wake the pulls that wait for it.

        ``is_new``: False for a copy of an accepted message: ``maxMessageSize``, which may be lower by now, only limits new
        messages. Raises ConfigurationError: over a limit; nothing was written. StoreNotWritable: nothing was written.
        """
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
        """Store messages of one topic and queue, all or none. Raises as :meth:`put`."""
        result = self.store.append_batch(batch, now_ms)
        self.counters.stored(batch.topic, batch.elements.count, result.size)
        if batch.topic == TIMER_TOPIC:
            self.timers.stored()
        if self.parked.waiting(batch.topic, batch.queue_id):
            for tags_code in set(batch.tags_codes):
                self.parked.arrived(batch.topic, batch.queue_id, tags_code)
        return result

    def answer_when_durable(
        self, connection: Connection, command: Command, answer: Command, end: int, waits: bool
    ) -> Command | None:
        """Send ``answer`` now, or under SYNC_FLUSH once the log up to ``end`` is on the disk (unless the message says WAIT=false)."""
        if not waits or not self.sends_wait:
            return answer
        # The request is let go: its body and fields are in the log, and must not be held a second time for seconds.
        asked = None if command.flag & FLAG_ONEWAY else answer
        if self._durable is not None:
            self._durable.wait(connection, asked, end)
        else:
            self.replication.wait(connection, asked, end)
        return None

    def _answer_when_replicated(self, connection: Connection, answer: Command | None, end: int) -> None:
        """Send an answer whose record is on the disk, perhaps after a slave has the record, too."""
        if self.config.broker_role == SYNC_MASTER:
            self.replication.wait(connection, answer, end)
        elif answer is not None:
            connection.send(answer)

    def answer_when_saved(
        self, connection: Connection, command: Command, answer: Command, *, offsets: bool = False
    ) -> None:
        """Send ``answer`` once topics and groups (and offsets, with ``offsets``) are on the disk in their present state, or an error if
        they cannot be written."""
        answer_when_saved(connection, command, answer, partial(self._config_store.when_saved, offsets=offsets))

    async def saved(self, *, offsets: bool = False) -> StoreError | None:
        """Wait until topics and groups (and offsets, with ``offsets``) are on the disk in their present state; return the error if any."""
        return await once_saved(partial(self._config_store.when_saved, offsets=offsets))

    def earliest_store_time(self) -> int:
        """Store time of the oldest message in the log, -1 if it is empty."""
        first = self.store.record_at(self.store.min_physical_offset)  # a file of the log begins with a record
        return -1 if first is None else RecordView(first).store_timestamp_ms

    def save_offsets(self) -> None:
        """Write ``consumerOffset.json`` as soon as the log that it refers to is on the disk, without waiting for the next 5 s."""
        self._config_store.save_offsets()

    async def registered(self) -> None:
        """Wait until every reachable name server knows the present topics."""
        if self._registration is not None:
            await self._registration.settled()

    # -- timers and changes ----------------------------------------------------------------------------------------------------------

    # Without a registration the tables are being loaded; all of them are written at the end of the start.

    def _topics_changed(self) -> None:
        if self._registration is not None:
            self._config_store.topics_changed()
            self._registration.changed()

    def _groups_changed(self) -> None:
        if self._registration is not None:
            self._config_store.groups_changed()

    def _replace_config(self, after: BrokerConfig, now_ms: int) -> None:
        before, self.config = self.config, after
        self.sends_wait = self._sends_wait()
        self.store.reconfigure(after.store_config())
        self.memory_span_bytes = memory_span_bytes(after.access_message_in_memory_max_ratio)
        if after.broker_permission != before.broker_permission:
            self.topics.announce(now_ms)

    def _sends_wait(self) -> bool:
        return self._durable is not None or self.config.broker_role == SYNC_MASTER

    def _notify_members(self, group: ConsumerGroup) -> None:
        if self.config.notify_consumer_ids_changed_enable:
            self._notices.notify(group)

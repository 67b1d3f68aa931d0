# SPDX-License-Identifier: Apache-2.0
"""The client instance: what all producers and consumers of one client id share (S1; Java: MQClientInstance, MQClientManager).

One per client id and cluster: connections, routes, heartbeat and the periodic work; the first user starts it, the last one closes it.

    each 2 min  the list of name servers read again, if it is not fixed   (first after 10 s)
    each 30 s   routes of all topics in use    (first after 30 s: a client that starts reads those of its topics itself)
    each 1 s    routes of topics that are new to its consumers (``core.group.young_topics``), while there are some
    each 30 s   connections of offline brokers closed, heartbeat to every broker    (first after 1 s, and whenever a member changes),
                each broker for itself (``client.remoting.heartbeats``)
    each 5 s    progress of all consumers persisted             (first after 10 s)
    each 1 min  listener pools grown or shrunk by what waits for them
    each 20 s   rebalance of each consumer; at once when the broker says that the group changed, again after 1 s while not balanced,
                never sooner than 1 s after the one before (``core.coalesced_runs``)

Periodic work runs on ``clock``; network timeouts run on the loop's own time.

Rules
    1. One client id at one cluster has one instance in a process, started once; the last user closes it, and it is not started again. A
       client with other shared options is refused (``shared_options``).
    2. Periodic work continues after a failed round, and a failing or slow consumer does not delay the work for others.
    3. After ``release`` by the last user no task of the instance runs and no connection is open.
    4. After a fork the child cannot use it: connections are the parent's, and using them raises an error (``net.pool``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.coalesced_work import CoalescedWork
from sprocketmq.client.remoting.heartbeats import Heartbeats
from sprocketmq.client.remoting.message_writer import ANY_DELAY_LEVEL
from sprocketmq.client.remoting.name_servers import FIRST_REREAD_MS, REREAD_INTERVAL_MS
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.remoting.sender import Sender, vip_address
from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.shared_options import address_set, check_shared
from sprocketmq.core.group.rebalance import REBALANCE_INTERVAL_MS, REBALANCE_MIN_INTERVAL_MS
from sprocketmq.core.group.young_topics import YoungTopics
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, RocketMQError
from sprocketmq.net.address import local_ip
from sprocketmq.net.connection import Connection, bytes_while_waiting
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process import fork
from sprocketmq.net.process.clock import Clock, watch
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.troubles import listed
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

# MixAll.CLIENT_INNER_PRODUCER_GROUP: sends retry copies that a broker did not accept as a send-back.
_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
_FIRST_HEARTBEAT_MS: Final = 1_000
_POOLS_MS: Final = 60_000
_YOUNG_MS: Final = 1_000


class RequestProcessor(Protocol):
    """What serves the brokers' requests of one code for the producers of an instance: transaction checks, or replies."""

    def __init__(self, instance: ClientInstance) -> None: ...

    def process(self, connection: Connection, command: Command) -> Command | None: ...


P = TypeVar("P", bound=RequestProcessor)


class ClientInstance:
    """Get it by ``acquire`` and return it by ``release``. All methods belong to its loop."""

    _instances: ClassVar[dict[tuple[str, frozenset[str]], ClientInstance]] = {}

    def __init__(self, client_id: str, options: ClientOptions) -> None:
        self._addresses = address_set(options)
        self._key = (client_id, self._addresses)
        self._loop = asyncio.get_running_loop()
        self.client_id = client_id
        self._options = options
        self.clock: Clock = options.clock
        self._tasks = Tasks(log, f"client {client_id}: background work")
        outages = Outages(self.clock, self._who, self._broker_name, self.spawn)
        pool = ConnectionPool(
            self._handle,
            ssl_context=options.new_ssl_context(),
            credentials=options.credentials,
            namespace=options.namespace_v2,
            on_reopen=self._reconnected,
            on_lost=outages.lost,
            on_heard=outages.heard,
            troubles=outages.troubles,
        )
        watch(self.clock, pool)
        self.cluster = Cluster(
            pool,
            parse_addresses(options.addresses),
            options.mq_client_api_timeout_ms,
            outages,
            from_environment=options.from_environment,
            are_refreshed=True,
        )
        self.keys = UniqueKeys(options.client_ip or local_ip())
        self._senders: dict[str, Sender] = {}
        self._consumers: dict[str, RunningConsumer] = {}
        self._users = 0
        # By group: a round that hangs delays its consumer only (rule 2).
        self._rebalances: dict[str, CoalescedWork] = {}
        self._young_topics = YoungTopics(options.poll_name_server_interval_ms // _YOUNG_MS)
        self._young_work: asyncio.Task[None] | None = None
        self.heartbeats = Heartbeats(self)
        self._closed = False
        self.is_inherited = False
        fork.register(self)
        self._processors: dict[int, RequestProcessor] = {}
        self.inner_sender = self.add_sender(SendSettings(group=_INNER_PRODUCER_GROUP))

    # -- life ------------------------------------------------------------------------------------------------------------------

    @classmethod
    def acquire(cls, options: ClientOptions, client_id: str) -> ClientInstance:
        """The instance of ``client_id`` at this cluster, started by its first user. Raises ConfigurationError (there is one that
        differs in what its members share, or that runs on another loop)."""
        instance = cls._running_instance(client_id, address_set(options))
        if instance is None:
            made = cls(client_id, options)
            # Another thread may make one at the same time. The first one counts; the second caller gets it, or is refused.
            instance = cls._instances.setdefault(made._key, made)
            if instance is made:
                made._start()
        check_shared(client_id, instance._options, options)
        if instance._loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                f"client {client_id!r} runs on another event loop of this process; give this one an instance_name of its own, "
                "or one engine to both"
            )
        instance._users += 1
        instance.cluster.outages.watchers.append(options)
        return instance

    @classmethod
    def _running_instance(cls, client_id: str, addresses: frozenset[str]) -> ClientInstance | None:
        """The instance of this client id that has a name server in common: clusters share no name server. The list may have changed since
        it was given."""
        for instance in tuple(cls._instances.values()):
            if instance._loop.is_closed():
                cls._instances.pop(instance._key, None)  # its loop ended without it
                continue
            known = (instance._addresses, frozenset(instance.cluster.name_servers.addresses))
            if instance.client_id != client_id or not addresses & (known[0] | known[1]):
                continue
            if addresses not in known:
                raise ConfigurationError(
                    f"namesrv_addr is {';'.join(sorted(addresses))!r}, and the running client {client_id!r} has "
                    f"{';'.join(sorted(known[1] or known[0]))!r}; clients of one instance_name share it: give both the same, "
                    "or this one an instance_name of its own"
                )
            return instance
        return None

    def after_fork_in_child(self) -> None:
        """In a forked child: this instance is the parent's. A client with this id in the child gets a new one."""
        self._closed = self.is_inherited = True
        ClientInstance._instances.pop(self._key, None)

    async def release(self, options: ClientOptions) -> None:
        self.cluster.outages.watchers = [one for one in self.cluster.outages.watchers if one is not options]
        self._users -= 1
        if self._users or self._closed:
            return
        self._closed = True
        self.heartbeats.close()
        if self._instances.get(self._key) is self:
            del self._instances[self._key]
        await self._tasks.close()
        await self.cluster.aclose()
        self.cluster.outages.troubles.close()

    def _start(self) -> None:
        options = self._options
        routes_ms = options.poll_name_server_interval_ms
        self._every("routes", routes_ms, routes_ms, self._refresh_routes)
        self._every("heartbeat", _FIRST_HEARTBEAT_MS, options.heartbeat_broker_interval_ms, self._clean_and_heartbeat)
        offsets_ms = options.persist_consumer_offset_interval_ms
        # Java's first time is 10 s, and 5 s its default (MQClientInstance.startScheduledTask).
        self._every("offsets", 2 * offsets_ms, offsets_ms, self._persist_offsets)
        self._every("pools", _POOLS_MS, _POOLS_MS, self._adjust_pools)
        if not self.cluster.name_servers.is_fixed:
            self._every("name server list", FIRST_REREAD_MS, REREAD_INTERVAL_MS, self.cluster.name_servers.reread)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that ends with the instance; its failure is logged."""
        return self._tasks.start(work)

    def _every(self, name: str, first_ms: int, period_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            delay_ms = first_ms
            while True:
                await self.clock.sleep(delay_ms)
                delay_ms = period_ms
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - logged
                    sentence = "client %s: the periodic %s failed: %s"
                    self.cluster.outages.failed(name, error, sentence, self.client_id, name, error)

        self._tasks.keep(run, self.clock, f"client {self.client_id}: the periodic {name}")

    # -- members ---------------------------------------------------------------------------------------------------------------

    def add_sender(self, settings: SendSettings, options: ClientOptions | None = None) -> Sender:
        """A new sender for a producer group, which is in the heartbeats from now on. ``options``: the producer's own,
        which decide on namespace, VIP channel and delay levels; the instance itself sends without them. Raises ConfigurationError
        (the instance has a producer of that group already)."""
        if settings.group in self._senders:
            raise ConfigurationError(
                f"instance {self.client_id} has a producer of group {settings.group!r} already; use that one, or another instance_name"
            )
        sender = Sender(
            self.cluster,
            self.clock,
            self.keys,
            settings,
            namespace=options.namespace if options is not None else None,
            unit_mode=self._options.unit_mode,
            vip_channel=options.vip_channel_enabled if options is not None else False,
            max_delay_level=options.max_delay_level if options is not None else ANY_DELAY_LEVEL,
        )
        self._senders[settings.group] = sender
        return sender

    async def remove_sender(self, group: str) -> None:
        if self._senders.pop(group, None) is not None:
            await self._unregister(group, None)

    def add_consumer(self, consumer: RunningConsumer) -> None:
        """Raises ConfigurationError (the instance has a consumer of that group already)."""
        if consumer.name in self._consumers:
            raise ConfigurationError(
                f"instance {self.client_id} has a consumer of group {consumer.name!r} already; give each consumer of a group its own "
                "instance_name"
            )
        self._consumers[consumer.name] = consumer
        rebalances = CoalescedWork(self.clock, REBALANCE_MIN_INTERVAL_MS, lambda: self._rebalance(consumer), self.spawn)
        self._rebalances[consumer.name] = rebalances
        rebalances.soon(REBALANCE_INTERVAL_MS)

    async def remove_consumer(self, group: str) -> None:
        if self.forget_consumer(group):
            await self._unregister(None, group)

    def forget_consumer(self, group: str) -> bool:
        rebalances = self._rebalances.pop(group, None)
        if rebalances is not None:
            rebalances.close()
        was_known = self._consumers.pop(group, None) is not None
        if not self._consumers and self._young_work is not None:
            self._young_work.cancel()  # the next consumer begins it again
        return was_known

    @property
    def topics(self) -> set[str]:
        topics: set[str] = set()
        for sender in self._senders.values():
            topics |= sender.queue_choice.topics
        for consumer in self._consumers.values():
            topics |= consumer.topics
        return topics

    async def _unregister(self, producer_group: str | None, consumer_group: str | None) -> None:
        async def unregister(address: str) -> None:
            await self.heartbeats.wait_for(address)
            if address not in self.cluster.pool.addresses:
                return
            try:
                header = headers.UnregisterClientRequestHeader(
                    client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
                )
                await self.cluster.ask(requests.consumers.UNREGISTER_CLIENT, header, at=address)
            except (NetworkError, RemoteError, RequestTimeout) as error:
                log.info("broker %s was not told that %s left: %s", address, self.client_id, error)

        # Only connected brokers, and those with a heartbeat under way, may know this client; a dead broker must not delay a shutdown.
        addresses = self.heartbeats.under_way.union(self.cluster.pool.addresses) & {
            address for _, _, address in self._broker_addresses()
        }
        await asyncio.gather(*(unregister(address) for address in addresses))

    # -- periodic work ---------------------------------------------------------------------------------------------------------

    async def _refresh_routes(self) -> None:
        await self._read_routes(self.topics)

    async def _read_routes(self, topics: Collection[str]) -> None:
        """A change of a known route brings a heartbeat to brokers that do not know this client yet, and a rebalance."""
        route_of = self.cluster.routes.table.route
        before = {topic: route_of(topic) for topic in topics}
        await self.cluster.routes.refresh_all(topics)
        if any(route is not None and route_of(topic) is not route for topic, route in before.items()):
            self.heartbeats.soon()
            self.rebalance_soon()

    def _follow_young_topics(self, consumer: RunningConsumer) -> None:
        self._young_topics.saw(filter(self.cluster.routes.is_known, consumer.topics))
        if self._young_topics and (self._young_work is None or self._young_work.done()):
            self._young_work = self.spawn(self._read_young_topics())

    async def _read_young_topics(self) -> None:
        route_of = self.cluster.routes.table.route
        while self._young_topics:
            await self.clock.sleep(_YOUNG_MS)
            await self._read_routes(
                self._young_topics.second_passed(
                    lambda topic: len(route.broker_datas) if (route := route_of(topic)) else 0
                )
            )

    async def _persist_offsets(self) -> None:
        await self._of_each_consumer("offsets", lambda consumer: consumer.persist_offsets())

    async def _adjust_pools(self) -> None:
        async def adjust(consumer: RunningConsumer) -> None:
            consumer.adjust_pool()

        await self._of_each_consumer("pools", adjust)

    async def _of_each_consumer(self, what: str, work: Callable[[RunningConsumer], Awaitable[None]]) -> None:
        """Concurrently; a failure affects its consumer only (rule 2)."""

        async def one(consumer: RunningConsumer) -> None:
            try:
                await work(consumer)
            except Exception as error:  # noqa: BLE001 - logged
                sentence, group = "group %s: the periodic %s failed: %s", consumer.name
                self.cluster.outages.failed(what, error, sentence, group, what, error, of=group)

        await asyncio.gather(*map(one, list(self._consumers.values())))

    async def _clean_and_heartbeat(self) -> None:
        brokers = {address for _, _, address in self._broker_addresses()}
        known = {*brokers, *map(vip_address, brokers), *self.cluster.name_servers.addresses}
        for address in self.cluster.pool.addresses:
            if address not in known:
                self.cluster.pool.close_connection(address)  # no route has it any more: the broker is gone
        self.cluster.outages.look_after(known)
        self.heartbeats.soon()

    def _broker_name(self, address: str) -> str:
        return next((name for name, _, one in self._broker_addresses() if address in (one, vip_address(one))), "")

    def _who(self) -> str:
        groups = sorted({*self._consumers, *self._senders} - {_INNER_PRODUCER_GROUP})
        return f"group {listed(groups)}" if groups else f"client {self.client_id}"

    def _broker_addresses(self) -> list[tuple[str, int, str]]:
        return [
            (name, broker_id, address)
            for name, addresses in self.cluster.routes.table.brokers().items()
            for broker_id, address in addresses.items()
        ]

    def heartbeat_data(self) -> bodies.HeartbeatData:
        return bodies.HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[bodies.ProducerData(group_name=group) for group in sorted(self._senders)],
            consumer_data_set=[consumer.consumer_data() for consumer in self._consumers.values()],
        )

    def _reconnected(self, address: str) -> None:
        # A server that restarted does not know this client any more, and answers pulls that carry their filter all the same (Java:
        # ClientConfig.enableHeartbeatChannelEventListener).
        if address in self.heartbeat_targets():
            self.heartbeats.begin(address)

    def heartbeat_targets(self) -> set[str]:
        """All brokers of all topics in use; slaves get heartbeats of consumers only."""
        return {address for _, broker_id, address in self._broker_addresses() if broker_id == 0 or self._consumers}

    # -- rebalance -------------------------------------------------------------------------------------------------------------

    def rebalance_soon(self) -> None:
        for rebalances in self._rebalances.values():
            rebalances.soon()

    async def _rebalance(self, consumer: RunningConsumer) -> None:
        balanced = False
        try:
            balanced = await consumer.rebalance()
        except Exception as error:  # noqa: BLE001 - logged
            group = consumer.name
            self.cluster.outages.failed("rebalance", error, "group %s: rebalance failed: %s", group, error, of=group)
        self._follow_young_topics(consumer)
        rebalances = self._rebalances.get(consumer.name)
        if rebalances is not None:
            rebalances.soon(REBALANCE_INTERVAL_MS if balanced else REBALANCE_MIN_INTERVAL_MS)

    # -- what brokers ask of us -----------------------------------------------------------------------------------

    def processor(self, code: int, kind: type[P]) -> P:
        """The ``kind`` that serves the brokers' requests of this code; made when it is first asked for."""
        processor = self._processors.get(code)
        if processor is None:
            processor = self._processors[code] = kind(self)
        assert isinstance(processor, kind)
        return processor

    def _handle(self, connection: Connection, command: Command) -> Command | None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            group = command.ext_fields.get("consumerGroup") or ""
            log.info("group %s changed, says %s", group, connection.remote_address)
            if (consumer := self._consumers.get(group)) is not None:
                consumer.members_changed()
            self.rebalance_soon()
            return None
        processor = self._processors.get(command.code)
        if processor is not None:
            return processor.process(connection, command)
        group = command.ext_fields.get("consumerGroup") or command.ext_fields.get("group") or ""
        consumer = self._consumers.get(group)
        if command.code not in _SERVED:
            return response(
                command,
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"request code {command.code} is not served by this client",
            )
        if consumer is None:
            return response(command, ResponseCode.SYSTEM_ERROR, f"this client has no consumer of group {group!r}")
        if connection.holds_much:
            remark = "this client works on as many requests of this broker as it may; try again later"
            return response(command, ResponseCode.SYSTEM_BUSY, remark)
        kept_bytes = bytes_while_waiting(command)
        connection.hold(kept_bytes)
        self.spawn(self._serve(connection, consumer, command)).add_done_callback(
            lambda _: connection.release(kept_bytes)
        )
        return None

    async def _serve(self, connection: Connection, consumer: RunningConsumer, command: Command) -> None:
        try:
            answer = await consumer.requests.serve(command)
        except RocketMQError as error:
            answer = response(command, ResponseCode.SYSTEM_ERROR, str(error))
        if not command.is_oneway:
            connection.send(answer)


_SERVED: Final = frozenset(
    {
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
    }
)

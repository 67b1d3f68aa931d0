"""Asking and telling the cluster: AsyncAdmin, and Admin, its blocking face (Java: DefaultMQAdminExt, a small part of it)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.api import RemotingApi
from sprocketmq.client.face import BlockingFace
from sprocketmq.client.name_servers import NameServers, parse_addresses
from sprocketmq.client.options import ClientOptions
from sprocketmq.client.routes import Routes
from sprocketmq.client.split_options import split_options
from sprocketmq.client.validators import check_group, check_range, check_topic
from sprocketmq.core.route_table import DEFAULT_TOPIC, MASTER_ID
from sprocketmq.errors import ConfigurationError, RemoteError, RequestTimeout, TopicNotExist
from sprocketmq.net.engine import Engine
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.message import MessageExt, MessageQueue, format_host
from sprocketmq.wire.message_id import decode_offset_message_id
from sprocketmq.wire.record import decode_record

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Admin", "AsyncAdmin", "QueueProgress"]

_READ_WRITE: Final = 6
_POLL_S: Final = 0.02
_NO_DATA: Final = (
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.CONSUMER_NOT_ONLINE,
)


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group is in one queue.

    Attributes:
        broker_offset: one behind the last message.
        consumer_offset: the next to consume; -1 when the group has no progress there.
        last_timestamp_ms: store time of the last consumed message, 0 if unknown.
    """

    broker_offset: int
    consumer_offset: int
    last_timestamp_ms: int = 0

    @property
    def lag(self) -> int:
        """Messages not consumed yet."""
        return max(0, self.broker_offset - max(0, self.consumer_offset))


class AsyncAdmin:
    """Administrative requests from a running event loop. Connections open as they are needed; close with ``shutdown`` or ``async with``.

    Args:
        options: those of ``ClientOptions`` (``namesrv_addr``, ``mq_client_api_timeout_ms``, ...).

    Every method raises RemoteError (the server refused), NetworkError or RequestTimeout (no answer).
    """

    def __init__(self, **options: Any) -> None:
        self._options, _ = split_options(options, ClientOptions, None, "an admin client")
        self._pool: ConnectionPool | None = None
        self._routes_: Routes | None = None
        self._api_: RemotingApi | None = None

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing is opened before the first request; here so that ``async with`` reads like the other clients."""

    async def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        pool, routes = self._pool, self._routes_
        self._pool = self._api_ = self._routes_ = None
        if routes is not None:
            await routes.aclose()
        if pool is not None:
            await pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    @property
    def _api(self) -> RemotingApi:
        if self._api_ is None:
            self._pool = ConnectionPool(ssl_context=self._options.ssl_context, credentials=self._options.credentials)
            servers = NameServers(self._pool, parse_addresses(self._options.addresses))
            self._api_ = RemotingApi(self._pool, servers, self._options.mq_client_api_timeout_ms)
            self._routes_ = Routes(self._api_)
        return self._api_

    @property
    def _routes(self) -> Routes:
        assert self._api is not None
        assert self._routes_ is not None
        return self._routes_

    # -- topics ----------------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = _READ_WRITE,
        order: bool = False,
        cluster: str | None = None,
        broker_name: str | None = None,
        wait_ms: int = 5_000,
    ) -> None:
        """Create a topic, or change it, and wait until the name server knows it.

        Args:
            topic: its name.
            queues: queues per broker, to read and to write; ``read_queues`` and ``write_queues`` set them apart.
            perm: 6 read and write, 4 read only, 2 write only.
            order: mark it as ordered.
            cluster: on the brokers of this cluster; default all brokers.
            broker_name: on this broker alone.
            wait_ms: how long to wait for the name server; RequestTimeout after that.

        Raises:
            ConfigurationError: a value is out of range, or no such cluster or broker.
        """
        check_topic(topic)
        header = headers.CreateTopicRequestHeader(
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=check_range("read_queues", queues if read_queues is None else read_queues, 1, 65_535),
            write_queue_nums=check_range("write_queues", queues if write_queues is None else write_queues, 1, 65_535),
            perm=check_range("perm", perm, 0, 7),
            order=order,
        )
        masters = await self._masters(cluster, broker_name)
        await asyncio.gather(*(self._api.create_topic(address, header) for address in masters.values()))
        await self._wait_for_route(topic, set(masters), header, wait_ms)

    async def _wait_for_route(
        self, topic: str, broker_names: set[str], header: headers.CreateTopicRequestHeader, wait_ms: int
    ) -> None:
        """Brokers tell the name server about a new topic by themselves, a moment later."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_ms / 1000
        while True:
            route = await self._api.route(topic)
            if route is not None and broker_names <= {
                data.broker_name
                for data in route.queue_datas
                if (data.read_queue_nums, data.write_queue_nums) == (header.read_queue_nums, header.write_queue_nums)
            }:
                return
            if loop.time() > end_s:
                raise RequestTimeout(
                    f"topic {topic!r} was created, but the name server does not show it after {wait_ms} ms",
                    self._api.name_servers.chosen,
                    wait_ms,
                )
            await asyncio.sleep(_POLL_S)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from all brokers (of ``cluster``) and from the name servers. Its messages are gone."""
        check_topic(topic)
        masters = await self._masters(cluster, None)
        await asyncio.gather(*(self._api.delete_topic(address, topic) for address in masters.values()))
        await self._api.delete_topic_in_namesrv(topic)

    async def topics(self) -> list[str]:
        """All topics the name server knows, system topics included, sorted."""
        return sorted(await self._api.topic_list())

    async def route(self, topic: str) -> bodies.TopicRouteData:
        """Which brokers have which queues of ``topic``. Raises TopicNotExist."""
        route = await self._api.route(check_topic(topic))
        if route is None:
            raise TopicNotExist(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic!r} does not exist", self._api.name_servers.chosen
            )
        return route

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of ``topic``, in order. Raises TopicNotExist."""
        self._routes.table.update(topic, await self.route(topic))
        return list(self._routes.table.subscribe_queues(topic))

    async def topic_stats(self, topic: str) -> dict[MessageQueue, bodies.TopicOffset]:
        """Min and max offset and time of the last message, per queue. Raises TopicNotExist."""
        self._routes.table.update(topic, await self.route(topic))
        names = {queue.broker_name for queue in self._routes.table.subscribe_queues(topic)}
        tables = await asyncio.gather(*(self._api.topic_stats(self._address(name), topic) for name in names))
        return dict(
            sorted((entry for table in tables for entry in table.offset_table.items()), key=lambda pair: pair[0])
        )

    # -- queues ----------------------------------------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is still there."""
        return await self._api.min_offset(await self._address_of(queue), queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """One behind the newest message."""
        return await self._api.max_offset(await self._address_of(queue), queue)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first message stored at or after ``timestamp_ms``."""
        return await self._api.search_offset(await self._address_of(queue), queue, timestamp_ms)

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """When the oldest message was stored, -1 for an empty queue."""
        return await self._api.earliest_store_time(await self._address_of(queue), queue)

    async def view_message(self, offset_message_id: str) -> MessageExt:
        """The stored copy that ``offset_message_id`` names.

        Raises:
            ConfigurationError: it is no offset message id.
        """
        host, offset = decode_offset_message_id(offset_message_id)
        return decode_record(await self._api.view_message(format_host(*host), offset))

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The next offset ``group`` will consume; None when it has no progress there."""
        return await self._api.query_consumer_offset(await self._address_of(queue), check_group(group), queue)

    async def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the progress of ``group``; its members must be down, or they overwrite it with theirs.

        Raises:
            GroupNotExist, TopicNotExist: a 5.x broker does not know it; see ``create_group`` (4.9 takes any).
        """
        check_range("offset", offset, 0, 1 << 62)
        await self._api.update_consumer_offset(await self._address_of(queue), check_group(group), queue, offset)

    async def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """Progress and lag of ``group`` per queue, in all its topics or in one; empty when no broker knows the group."""
        check_group(group)

        async def ask(address: str) -> bodies.ConsumeStats | None:
            try:
                return await self._api.consume_stats(address, group, topic)
            except RemoteError as error:
                if error.code in _NO_DATA:
                    return None
                raise

        answers = await asyncio.gather(*map(ask, (await self._masters(None, None)).values()))
        found = {
            queue: QueueProgress(offsets.broker_offset, offsets.consumer_offset, offsets.last_timestamp)
            for stats in answers
            if stats is not None
            for queue, offsets in stats.offset_table.items()
        }
        return dict(sorted(found.items()))

    async def lag(self, group: str, topic: str | None = None) -> int:
        """Messages that ``group`` has not consumed yet, in sum."""
        return sum(progress.lag for progress in (await self.consumer_progress(group, topic)).values())

    async def consumer_connection(self, group: str) -> bodies.ConsumerConnection | None:
        """Members, subscriptions and settings of ``group`` as the first broker that has one online sees it; None when it is offline."""
        check_group(group)
        for address in (await self._masters(None, None)).values():
            connection = await self._consumer_connection(address, group)
            if connection is not None:
                return connection
        return None

    async def _consumer_connection(self, address: str, group: str) -> bodies.ConsumerConnection | None:
        try:
            return await self._api.consumer_connection(address, group)
        except RemoteError as error:
            if error.code in _NO_DATA:
                return None
            raise

    async def consumer_ids(self, group: str) -> list[str]:
        """Client ids of the members that are online, sorted."""
        check_group(group)
        masters = (await self._masters(None, None)).values()
        answers = await asyncio.gather(*(self._api.consumer_ids(address, group) for address in masters))
        return sorted({client_id for answer in answers for client_id in answer})

    async def create_group(self, group: str, *, cluster: str | None = None, **settings: Any) -> None:
        """Create or change a consumer group. ``settings``: fields of SubscriptionGroupConfig, such as ``retry_max_times=5``."""
        try:
            config = bodies.SubscriptionGroupConfig(group_name=check_group(group), **settings)
        except TypeError as error:
            allowed = ", ".join(sorted(set(bodies.SubscriptionGroupConfig.__struct_fields__) - {"group_name"}))
            raise ConfigurationError(f"a group has no such setting: {error}; allowed are {allowed}") from error
        masters = await self._masters(cluster, None)
        await asyncio.gather(*(self._api.create_group(address, config) for address in masters.values()))

    # -- cluster ---------------------------------------------------------------------------------------------------------------

    async def cluster_info(self) -> bodies.ClusterInfo:
        """Clusters, their brokers and the addresses of these."""
        return await self._api.cluster_info()

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """The broker's own numbers, as text by text."""
        return await self._api.broker_runtime_info(address)

    async def _masters(self, cluster: str | None, broker_name: str | None) -> dict[str, str]:
        """Broker name -> address of the masters asked for."""
        info = await self._api.cluster_info()
        names = set(info.broker_addr_table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                known = ", ".join(sorted(info.cluster_addr_table)) or "none"
                raise ConfigurationError(f"cluster {cluster!r} is unknown, the name server knows {known}")
            names &= set(info.cluster_addr_table[cluster])
        if broker_name is not None:
            if broker_name not in names:
                known = ", ".join(sorted(names)) or "none"
                raise ConfigurationError(f"broker {broker_name!r} is unknown, the name server knows {known}")
            names = {broker_name}
        masters = {
            name: info.broker_addr_table[name].broker_addrs[MASTER_ID]
            for name in sorted(names)
            if MASTER_ID in info.broker_addr_table[name].broker_addrs
        }
        if not masters:
            raise ConfigurationError(
                f"no broker with a master is known to the name server {self._api.name_servers.chosen}; start one, or check namesrv_addr"
            )
        return masters

    async def _address_of(self, queue: MessageQueue) -> str:
        if self._routes.broker_address(queue.broker_name) is None:
            self._routes.table.update(queue.topic, await self.route(queue.topic))
        return self._address(queue.broker_name)

    def _address(self, broker_name: str) -> str:
        address = self._routes.broker_address(broker_name, only_this=False)
        if address is None:
            raise ConfigurationError(f"broker {broker_name!r} has no address at the name server")
        return address


class Admin(BlockingFace):
    """AsyncAdmin for callers without an event loop: the same requests, each waits.

    ::

        with Admin(namesrv_addr="127.0.0.1:9876") as admin:
            admin.create_topic("flights", queues=8)
            print(admin.lag("delays"))
    """

    def __init__(self, *, engine: Engine | None = None, **options: Any) -> None:
        self._async = AsyncAdmin(**options)
        super().__init__(engine)

    def start(self) -> None:
        """Nothing is opened before the first request."""

    def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        self._run(self._async.shutdown())

    def create_topic(self, topic: str, **settings: Any) -> None:
        """As ``AsyncAdmin.create_topic``."""
        self._run(self._async.create_topic(topic, **settings))

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """As ``AsyncAdmin.delete_topic``."""
        self._run(self._async.delete_topic(topic, cluster=cluster))

    def topics(self) -> list[str]:
        """As ``AsyncAdmin.topics``."""
        return self._run(self._async.topics())

    def route(self, topic: str) -> bodies.TopicRouteData:
        """As ``AsyncAdmin.route``."""
        return self._run(self._async.route(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As ``AsyncAdmin.queues``."""
        return self._run(self._async.queues(topic))

    def topic_stats(self, topic: str) -> dict[MessageQueue, bodies.TopicOffset]:
        """As ``AsyncAdmin.topic_stats``."""
        return self._run(self._async.topic_stats(topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """As ``AsyncAdmin.min_offset``."""
        return self._run(self._async.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """As ``AsyncAdmin.max_offset``."""
        return self._run(self._async.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """As ``AsyncAdmin.offset_by_time``."""
        return self._run(self._async.offset_by_time(queue, timestamp_ms))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """As ``AsyncAdmin.earliest_store_time_ms``."""
        return self._run(self._async.earliest_store_time_ms(queue))

    def view_message(self, offset_message_id: str) -> MessageExt:
        """As ``AsyncAdmin.view_message``."""
        return self._run(self._async.view_message(offset_message_id))

    def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """As ``AsyncAdmin.consumer_offset``."""
        return self._run(self._async.consumer_offset(group, queue))

    def set_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """As ``AsyncAdmin.set_consumer_offset``."""
        self._run(self._async.set_consumer_offset(group, queue, offset))

    def consumer_progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """As ``AsyncAdmin.consumer_progress``."""
        return self._run(self._async.consumer_progress(group, topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """As ``AsyncAdmin.lag``."""
        return self._run(self._async.lag(group, topic))

    def consumer_connection(self, group: str) -> bodies.ConsumerConnection | None:
        """As ``AsyncAdmin.consumer_connection``."""
        return self._run(self._async.consumer_connection(group))

    def consumer_ids(self, group: str) -> list[str]:
        """As ``AsyncAdmin.consumer_ids``."""
        return self._run(self._async.consumer_ids(group))

    def create_group(self, group: str, **settings: Any) -> None:
        """As ``AsyncAdmin.create_group``."""
        self._run(self._async.create_group(group, **settings))

    def cluster_info(self) -> bodies.ClusterInfo:
        """As ``AsyncAdmin.cluster_info``."""
        return self._run(self._async.cluster_info())

    def broker_runtime_info(self, address: str) -> dict[str, str]:
        """As ``AsyncAdmin.broker_runtime_info``."""
        return self._run(self._async.broker_runtime_info(address))

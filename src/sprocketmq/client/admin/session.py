# SPDX-License-Identifier: Apache-2.0
"""Connections and addresses of an administrative client, which all requests in this folder use."""

from __future__ import annotations

import contextlib
import difflib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from sprocketmq.client.admin.checked_arguments import checked
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.async_client import AsyncClient, in_order
from sprocketmq.client.reach import Reach
from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.group_members import consumer_connection
from sprocketmq.client.remoting.pulls import TOOLS_GROUP, read_queue
from sprocketmq.client.remoting.server_kind import ServerKind
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.split_options import split_options
from sprocketmq.client.settings.validators import check_topic
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.core.lifecycle import LifeState
from sprocketmq.core.produce.route_table import MASTER_ID, find_broker, subscribe_queues
from sprocketmq.core.resource_names import dlq_topic, retry_topic
from sprocketmq.errors import (
    ConfigurationError,
    GroupNotExist,
    NetworkError,
    RemoteError,
    RequestNotServed,
    RequestTimeout,
    RocketMQError,
    TopicNotExist,
)
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.clock import watch
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Buffer, Command
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.requests.declaration import A, B, H, Request
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.admin.async_admin import AsyncAdmin
    from sprocketmq.client.keyword_options import CommonOptions
    from sprocketmq.client.produce.async_producer import AsyncProducer

V = TypeVar("V")
PAGE: Final = 1_000
"""Topics or groups asked for at once; 5.x answers with fewer when it likes, 4.9 has never heard of pages and answers with everything."""

NO_DATA: Final = (
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.CONSUMER_NOT_ONLINE,
)
"""How a broker says that it has nothing about a group or topic; the versions do not agree."""


class AdminParts:
    runs_caller = False

    def __init__(self, options: ClientOptions, *, leaves_silent: bool) -> None:
        pool = ConnectionPool(
            ssl_context=options.new_ssl_context(), credentials=options.credentials, namespace=options.namespace_v2
        )
        watch(options.clock, pool)
        self.cluster = Cluster(pool, parse_addresses(options.addresses), options.mq_client_api_timeout_ms)
        self.cluster.invoke = Reach(pool, leaves_silent=leaves_silent).invoke
        self.producer: AsyncProducer | None = None

    async def start(self) -> None:
        """Do nothing: connections open with the first request."""

    async def stop(self) -> None:
        await in_order(*([self.producer.shutdown] if self.producer is not None else []), self.cluster.aclose)


class AdminSession(AsyncClient[AdminParts]):
    """Opens connections when they are needed; ``shutdown`` closes them."""

    _leaves_silent = False  # see Reach

    def __init_subclass__(cls) -> None:
        """Wrap each request so that its arguments are checked."""
        for name, verb in list(vars(cls).items()):
            if inspect.isfunction(verb) and not name.startswith("_"):
                setattr(cls, name, checked(verb))

    def __init__(self, **options: Unpack[CommonOptions]) -> None:
        super().__init__()
        self._options, _ = split_options(options, ClientOptions, None, "an admin client")

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Do nothing: connections open with the first request. It exists for ``async with``."""

    async def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        await super().shutdown()

    @property
    def _name(self) -> str:
        return "the admin client"

    def _make(self) -> AdminParts:
        return AdminParts(self._options, leaves_silent=self._leaves_silent)

    @property
    def _open_parts(self) -> AdminParts:
        if self._life.state is not LifeState.RUNNING or self._loop is None:
            self._open_now()
        self._check_running_loop()
        assert self._parts is not None
        return self._parts

    @property
    def _cluster(self) -> Cluster:
        return self._open_parts.cluster

    # -- asking ----------------------------------------------------------------------------------------------------------------

    async def _ask_if_any(self, asked: Request[H, A, B], header: H | None = None, *, at: str) -> Command | None:
        """The answer; None if the broker has no data."""
        try:
            return await self._cluster.ask(asked, header, at=at)
        except RemoteError as error:
            if error.code in NO_DATA:
                return None
            raise

    async def _ask_masters(
        self,
        cluster: str | None,
        broker: str | None,
        asked: Request[H, A, B],
        header: H | None = None,
        body: bodies.Body | None = None,
    ) -> None:
        content = b"" if body is None else body.encode()
        masters = (await self._masters(cluster, broker)).values()
        await all_ended(self._cluster.ask(asked, header, at=address, body=content) for address in masters)

    async def _ask_name_servers(
        self, asked: Request[H, A, B], header: H | None = None, body: Buffer = b""
    ) -> dict[str, Command]:
        """The answers of all name servers by address, one after the other: they share no state."""
        addresses = await self._cluster.name_servers.known()
        return {address: await self._cluster.ask(asked, header, at=address, body=body) for address in addresses}

    async def _delete_topic_at(self, address: str, topic: str) -> None:
        header = headers.DeleteTopicRequestHeader(topic=topic)
        await self._cluster.ask(requests.topics.DELETE_TOPIC_IN_BROKER, header, at=address)

    async def _delete_topic_at_name_servers(self, topic: str) -> None:
        header = headers.DeleteTopicFromNamesrvRequestHeader(topic=topic)
        await self._ask_name_servers(requests.name_servers.DELETE_TOPIC_IN_NAMESRV, header)

    # -- who -------------------------------------------------------------------------------------------------------------------

    async def _masters(self, cluster: str | None, broker: str | None) -> dict[str, str]:
        """The addresses of the chosen masters by broker name; a broker that is given as an address is used directly."""
        if broker is not None and ":" in broker:
            return {broker: parse_addresses(broker)[0]}
        return self._masters_in(await self._cluster.name_servers.cluster_info(), cluster, broker)

    def _masters_in(self, info: bodies.ClusterInfo, cluster: str | None, broker: str | None) -> dict[str, str]:
        names = self._names(info, cluster)
        if broker is not None:
            if broker not in names:
                gone = [one.address for by_id in [(info.gone or {}).get(broker, {})] for one in by_id.values()]
                what = f"is gone (it was at {', '.join(gone)})" if gone else "is unknown"
                raise ConfigurationError(f"broker {broker!r} {what}, the name server knows {_listed(names)}")
            names = {broker}
        masters = {
            name: info.broker_addr_table[name].broker_addrs[MASTER_ID]
            for name in sorted(names)
            if MASTER_ID in info.broker_addr_table[name].broker_addrs
        }
        if not masters:
            raise ConfigurationError(
                f"no broker with a master is known to the name server {self._cluster.name_servers.chosen}; start one, or check namesrv_addr"
            )
        return masters

    async def _servers_of_members(self) -> list[str]:
        """The servers that know the members of groups: all masters, or the proxy, to which its clients are connected."""
        try:
            return list((await self._masters(None, None)).values())
        except RequestNotServed as error:
            return [error.address]

    async def _proxy(self) -> str | None:
        """The address of the name server if it is a proxy."""
        servers = self._cluster.name_servers
        is_proxy = servers.addresses and await self._cluster.kinds.kind(servers.chosen) is ServerKind.PROXY
        return servers.chosen if is_proxy else None

    async def _replicas(self, cluster: str | None, broker: str | None) -> list[str]:
        """The addresses of masters and slaves."""
        if broker is not None and ":" in broker:
            return parse_addresses(broker)
        info = await self._cluster.name_servers.cluster_info()
        masters = self._masters_in(info, cluster, broker)
        return [address for name in masters for address in info.broker_addr_table[name].broker_addrs.values()]

    async def _one(self, broker: str) -> str:
        return next(iter((await self._masters(None, broker)).values()))

    @staticmethod
    def _names(info: bodies.ClusterInfo, cluster: str | None) -> set[str]:
        names = set(info.broker_addr_table)
        if cluster is None:
            return names
        there = {one.cluster for by_id in (info.gone or {}).values() for one in by_id.values()}
        if cluster not in info.cluster_addr_table and cluster not in there:
            raise ConfigurationError(
                f"cluster {cluster!r} is unknown, the name server knows {_listed(info.cluster_addr_table)}"
            )
        return names & set(info.cluster_addr_table.get(cluster, ()))

    async def _masters_of(self, topic: str) -> dict[str, str]:
        """The addresses of the masters that have ``topic``, by broker name. Raises TopicNotExist."""
        route = await self._route(topic)
        return {
            data.broker_name: data.broker_addrs.get(MASTER_ID) or next(iter(data.broker_addrs.values()))
            for data in sorted(route.broker_datas, key=lambda data: data.broker_name)
            if data.broker_addrs
        }

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        return subscribe_queues(topic, await self._route(topic))

    async def _route(self, topic: str) -> bodies.TopicRouteData:
        route = await self._cluster.name_servers.route(check_topic(topic))
        if route is None:
            asked, known = requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, list[str]()
            with contextlib.suppress(RocketMQError):  # a proxy does not list them
                known = (await self._cluster.ask_body(asked)).topic_list
            raise TopicNotExist(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic!r} does not exist{_meant(topic, known)}",
                self._cluster.name_servers.chosen,
            )
        return route

    async def _groups_at(self, address: str) -> dict[str, bodies.SubscriptionGroupConfig]:
        async def page(first: int, version: str) -> tuple[dict[str, bodies.SubscriptionGroupConfig], str, int]:
            header = headers.GetAllSubscriptionGroupRequestHeader(
                group_seq=first, data_version=version, max_group_num=PAGE
            )
            answer = await self._cluster.ask(requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header, at=address)
            body = await answer_body(requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, answer)
            total = int(answer.ext_fields.get("totalGroupNum") or 0)
            return body.subscription_group_table, body.data_version.encode().decode(), total

        return await all_pages(page)

    async def _check_exists(self, group: str) -> None:
        """Raise GroupNotExist if no broker knows ``group``, after an empty answer about it: brokers answer the same for unknown
        groups. Not raised if the account may not list a broker's groups, or the name server is a proxy. mqadmin requests the route
        of the retry topic. GET_SUBSCRIPTIONGROUP_CONFIG cannot be used, because brokers create the group then."""
        # Nor is a proxy asked for the retry topic: it would remember that there is none, see group_members.make_retry_topic.
        if await self._proxy() is not None:
            return
        for topic in (retry_topic(group), dlq_topic(group)):
            if await self._cluster.name_servers.route(topic) is not None:
                return
        unanswered: NetworkError | RequestTimeout | None = None
        known: set[str] = set()
        for address in (await self._masters(None, None)).values():
            try:
                known.update(await self._groups_at(address))
                if group in known:
                    return
            except RemoteError:  # the account may not list all groups
                return
            except (NetworkError, RequestTimeout) as error:
                unanswered = error
        raise unanswered or unknown_group(group, known)

    async def _connection(self, group: str, broker: str | None = None) -> bodies.ConsumerConnection | None:
        servers = await self._servers_of_members() if broker is None else [await self._one(broker)]
        for address in servers:
            try:
                connection = await consumer_connection(self._cluster, address, group)
            except RemoteError as error:
                if error.code in NO_DATA:
                    continue
                raise
            if connection is not None:
                return connection
        return None

    async def _address_of(self, queue: MessageQueue) -> str:
        """The address of the broker of an existing queue; that of a replica while there is no master. Raises TopicNotExist, or
        ConfigurationError for a queue that the topic does not have: brokers answer as for an empty one."""
        route = await self._cluster.routes.recent(check_topic(queue.topic))
        if route is None or queue.queue_id >= queue_count(route, queue.broker_name):
            route = await self._route(queue.topic)
        broker, count = find_broker(route, queue.broker_name), queue_count(route, queue.broker_name)
        # A topic whose number of queues was reduced keeps the messages of the other queues.
        if broker is None or (
            queue.queue_id >= count
            and not (await self._cluster.ask_queue(GET_MAX_OFFSET, queue, at=broker.address)).offset
        ):
            there = f"queues 0 to {count - 1}" if count else "no queue"
            raise ConfigurationError(
                f"queue is {queue}, which does not exist: topic {queue.topic!r} has {there} on broker {queue.broker_name!r}"
            )
        return broker.address

    async def _store_time_ms(self, address: str, queue: MessageQueue, offset: int) -> int:
        """The store time of the message at ``offset``, by reading it; -1 when it is not there, or may not be read."""
        if offset < 0:
            return -1
        try:
            result = await read_queue(self._cluster, address, TOOLS_GROUP, queue, offset, 1)
        except RemoteError:
            return -1
        found = decode_records(result.body, decompress=False) if result.status is PullStatus.FOUND else []
        return found[0].store_timestamp_ms if found and found[0].queue_offset == offset else -1


class AdminRequests(AdminSession):
    """A family of requests. ``_admin``: the same object, for the requests of other families."""

    @property
    def _admin(self) -> AsyncAdmin:
        return self  # type: ignore[return-value]


def is_older_than_5(error: RemoteError) -> bool:
    """Whether a broker does not know a request that came with RocketMQ 5. A proxy answers the same code for other reasons."""
    return error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and not isinstance(error, RequestNotServed)


def unknown_group(group: str, known: Iterable[str]) -> GroupNotExist:
    """``known``: the groups that there are."""
    hint = _meant(group, known) or (
        "; check the spelling, or create it; of a group whose topics do not exist brokers know nothing either"
    )
    return GroupNotExist(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker knows the consumer group {group!r}{hint}"
    )


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def broker_of(route: bodies.TopicRouteData, broker_name: str) -> str:
    """The address of a broker of the topic; that of a replica while there is no master. Raises ConfigurationError."""
    broker = find_broker(route, broker_name)
    if broker is None:
        raise ConfigurationError(f"broker {broker_name!r} has no address at the name server")
    return broker.address


def queue_count(route: bodies.TopicRouteData, broker_name: str) -> int:
    return max(
        (max(one.read_queue_nums, one.write_queue_nums) for one in route.queue_datas if one.broker_name == broker_name),
        default=0,
    )


def _listed(names: Iterable[str] | Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


async def all_pages(page: Callable[[int, str], Awaitable[tuple[dict[str, V], str, int]]]) -> dict[str, V]:
    """All rows of a table that is requested in pages, by name, sorted. ``page``: ``(number of the first row, version of the
    table)`` -> rows, current version of the table, number of rows (0: only these)."""
    found: dict[str, V] = {}
    state = ""
    while True:
        rows, now, total = await page(len(found), state)
        if state and now != state:
            found.clear()  # the table changed, so the broker starts with the first page again
        state = now
        found.update(rows)
        if not rows or len(found) >= total:
            return dict(sorted(found.items()))

# SPDX-License-Identifier: Apache-2.0
"""The brokers behind a name server, as driver and tasks use them. The methods block; coroutines run on the process's engine loop.

Spark gives a Python source no second chance: an exception out of ``latestOffset`` ends the query. So each request is retried until
``retry_timeout_ms`` is over as long as its failure is transient (no connection, no answer, broker busy). Spark forks its Python workers and
uses them for many batches, so connections are made on first use, shared (``shared_clients``), and never used across a fork.
"""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import ClassVar, Final, TypeVar

from sprocketmq.client.remoting import cluster as remoting
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.group_members import consumer_ids, make_retry_topic
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.core.produce.route_table import MASTER_ID, subscribe_queues
from sprocketmq.core.resource_names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SELF_TEST_TOPIC,
    reply_topic,
)
from sprocketmq.errors import ConfigurationError, NoPermission, RequestNotServed, RocketMQError, TopicNotExist
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.shared_clients import SharedClients, close_when_dropped
from sprocketmq.spark.options.access import ANONYMOUS, Access
from sprocketmq.spark.options.named_topics import is_matched
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import RequestCode, ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records.message import MessageQueue

T = TypeVar("T")

# Requests that one call of ``gather`` keeps in flight.
_IN_FLIGHT: Final = 128
# Of ``Outages``: tasks try again, streams wait.
_IF_LOST: Final = {
    (is_broker, has_answered): f"%s: %s {what}, what needs it waits (retryTimeoutMs, brokerUnavailable): %s"
    for is_broker in (True, False)
    for has_answered, what in ((True, "is lost"), (False, "cannot be reached"))
}


class Cluster(remoting.Cluster):
    """Use :meth:`at`, and keep a reference: when nobody refers to the object, its connections may be closed. Blocking methods retry, and
    raise NetworkError, RequestTimeout or RemoteError when the request still fails after ``retry_timeout_ms``. Coroutines send one
    request; call them in ``run`` or ``retrying``."""

    shared: ClassVar[SharedClients[tuple[str, Access], Cluster]] = SharedClients()

    def __init__(self, namesrv_addr: str, access: Access) -> None:
        self.namesrv_addr, self.engine = namesrv_addr, Engine.shared()
        # Consumer group -> the running info of its member in this process.
        self.members: dict[str, Callable[[], bodies.ConsumerRunningInfo]] = {}
        # The pool must not refer to this object: it would never be collected.
        this = weakref.ref(self)
        outages = Outages(who=lambda: "Spark", name_of=lambda address: _broker_at(this(), address), if_lost=_IF_LOST)
        pool = ConnectionPool(
            _broker_request_handler(self.members),
            ssl_context=access.ssl_context,
            credentials=access.credentials,
            on_lost=outages.lost,
            on_heard=outages.heard,
            troubles=outages.troubles,
        )
        super().__init__(pool, parse_addresses(namesrv_addr), outages=outages)
        self.retry_option = "retryTimeoutMs"
        self._retry_topics: set[tuple[str, str]] = set()  # group and broker behind a proxy that has its retry topic
        self._by_retry_timeout: weakref.WeakValueDictionary[int, Cluster] = weakref.WeakValueDictionary()
        self._first: Cluster | None = None  # closes the connections when it is collected
        close_when_dropped(self, self.engine, pool.aclose)

    @classmethod
    def at(cls, namesrv_addr: str, retry_timeout_ms: int = 60_000, access: Access = ANONYMOUS) -> Cluster:
        """Objects that differ in the retry timeout alone share connections, routes and members."""
        first = cls.shared.get((namesrv_addr, access), lambda _: cls(namesrv_addr, access))
        if retry_timeout_ms == first.retry_timeout_ms:
            return first
        made = copy.copy(first)
        made.retry_timeout_ms, made._first = retry_timeout_ms, first
        return first._by_retry_timeout.setdefault(retry_timeout_ms, made)

    # -- routes ----------------------------------------------------------------------------------------------------------------

    def topics_matching(self, pattern: str) -> tuple[str, ...]:
        """Topics whose whole name matches, without system topics, sorted. Raises ConfigurationError (a proxy lists no topics)."""
        try:
            names = self.run(self._topic_list)
        except RequestNotServed as error:
            raise ConfigurationError(
                f"topicsPattern is {pattern!r}, and the proxy at {error.address} lists no topics; name them in the option topics, or use "
                "the address of a name server of its cluster"
            ) from None
        matching = {name for name in names if is_matched(pattern, name)}
        if matching:
            matching -= _cluster_topics(self.run(self.name_servers.cluster_info))
        return tuple(sorted(matching))

    async def _topic_list(self) -> Sequence[str]:
        return (await self.ask_body(requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).topic_list

    def queues(self, topics: Iterable[str], *, missing_ok: bool = False) -> list[MessageQueue]:
        """``missing_ok``: a topic without a route has no queues, as while its broker restarts. Raises TopicNotExist (no route). A retry or
        dead-letter topic counts as empty then, because a broker creates it with its first message."""
        names = list(topics)
        routes = self.run(lambda: self.gather(self.routes.recent(name) for name in names))
        found: list[MessageQueue] = []
        for name, route in zip(names, routes, strict=True):
            if route is None and not missing_ok and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                server = "proxy" if self.behind_proxy else "name server"
                raise TopicNotExist(
                    17,
                    f"topic {name!r} is unknown to the {server} {self.namesrv_addr}; check the spelling or create the topic first",
                )
            found += _readable_queues(name, route)
        return sorted(found)

    async def readable_queues(self, topic: str) -> list[MessageQueue]:
        return _readable_queues(topic, await self.routes.recent(topic))

    def master_names(self, topics: Iterable[str] = ()) -> set[str]:
        """The names of the brokers whose master is registered. A proxy does not list them; they are those of ``topics``, and of a topic
        that each broker has, if this account may see it."""

        async def ask() -> set[str]:
            try:
                return set(await self.masters())
            except RequestNotServed:
                brokers = await self.gather(map(brokers_of, (*topics, SELF_TEST_TOPIC)))
                return {broker.broker_name for broker in chain(*brokers) if MASTER_ID in broker.broker_addrs}

        async def brokers_of(topic: str) -> Sequence[bodies.BrokerData]:
            try:
                route = await self.routes.recent(topic)
            except NoPermission:
                return ()
            return () if route is None else route.broker_datas

        return self.run(ask)

    def make_retry_topic(self, group: str, topics: Iterable[str]) -> None:
        """Have the brokers of ``topics`` make the retry topic of ``group`` if they are behind a proxy."""

        async def ask() -> None:
            routes = await self.gather(map(self.routes.recent, topics))
            if not self.behind_proxy:
                return
            masters = {
                broker.broker_name: broker.broker_addrs[MASTER_ID]
                for route in routes
                for broker in (() if route is None else route.broker_datas)
                if MASTER_ID in broker.broker_addrs and (group, broker.broker_name) not in self._retry_topics
            }
            made = await self.gather(make_retry_topic(self, at, name, group) for name, at in masters.items())
            self._retry_topics.update((group, name) for name, is_made in zip(masters, made, strict=True) if is_made)

        self.run(ask)

    # -- asking ----------------------------------------------------------------------------------------------------------------

    def run(self, ask: Callable[[], Awaitable[T]], max_retry_ms: int | None = None) -> T:
        return self.engine.run(self.retrying(ask, max_retry_ms))

    async def gather(self, asked: Iterable[Awaitable[T]]) -> list[T]:
        gate = asyncio.Semaphore(_IN_FLIGHT)

        async def gated(one: Awaitable[T]) -> T:
            async with gate:
                return await one

        return list(await all_ended(map(gated, asked)))

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def heartbeat(self, heartbeat: bodies.HeartbeatData, topics: Iterable[str]) -> None:
        """To every broker of ``topics``. Brokers that are down get the next one."""
        body = heartbeat.encode()
        await self._each_broker_of(topics, lambda at: self.ask(requests.consumers.HEART_BEAT, at=at, body=body))

    async def members_of(self, group: str, topics: Iterable[str]) -> set[str]:
        """The client ids of ``group`` at the brokers of ``topics``. Brokers that are down are left out."""
        return set(chain(*await self._each_broker_of(topics, lambda at: consumer_ids(self, at, group))))

    async def _each_broker_of(self, topics: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
        """The answers of all brokers of ``topics``, replicas too, without those that fail."""
        routes = [await self.routes.recent(topic) for topic in topics]
        brokers = chain(*(route.broker_datas for route in routes if route is not None))
        addresses = sorted({address for broker in brokers for address in broker.broker_addrs.values()})
        answers = await asyncio.gather(*map(ask, addresses), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RocketMQError):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]


def _broker_at(cluster: Cluster | None, address: str) -> str:
    brokers = {} if cluster is None else cluster.routes.table.brokers()
    return next((name for name, addresses in brokers.items() if address in addresses.values()), "")


def _broker_request_handler(
    members: Mapping[str, Callable[[], bodies.ConsumerRunningInfo]],
) -> Callable[[Connection, Command], Command]:
    def answer(connection: Connection, command: Command) -> Command:
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            group = command.header(headers.GetConsumerRunningInfoRequestHeader).consumer_group
            if group in members:
                return response(command, body=members[group]().encode())
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {command.code} is not served")

    return answer


def is_apache_4(answer: Command) -> bool:
    """Whether an Apache 4.x broker sent ``answer``. Our broker announces 4.9, too, but another language."""
    return answer.version < Version.V5_0_0 and answer.language == "JAVA"


def _cluster_topics(info: bodies.ClusterInfo) -> set[str]:
    clusters = info.cluster_addr_table.keys()
    return {*clusters, *info.broker_addr_table, *map(reply_topic, clusters)}


def _readable_queues(topic: str, route: bodies.TopicRouteData | None) -> list[MessageQueue]:
    if route is None:
        return []
    reachable = {broker.broker_name for broker in route.broker_datas if broker.broker_addrs}
    return [queue for queue in subscribe_queues(topic, route) if queue.broker_name in reachable]

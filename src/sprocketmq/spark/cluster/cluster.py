# SPDX-License-Identifier: Apache-2.0
"""The brokers behind a name server, as driver and tasks use them: connections, routes, requests that are retried.

The methods block; the coroutines behind them run on the process's engine loop.

Spark gives a Python source no second chance: an exception out of ``latestOffset`` ends the query. So each request is retried until
``retry_timeout_ms`` is over as long as its failure is transient (no connection, no answer, broker busy).

A process has one set of connections for each name server address and account. Spark forks its Python workers and uses them for many
batches. So connections are made on first use, kept for the next batch (``shared_clients``), and never used across a fork.

Modules that send requests through it: ``queue_bounds`` (smallest and next offsets), ``offset_search`` (samples of messages),
``group_progress`` (committed offsets), ``send_back`` (failed rows), ``visible_rows`` and ``responder`` (transactional writes).
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Final, TypeVar

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.masters import MASTER, known_master
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.core.retry.retry_schedule import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    NoPermission,
    RequestNotServed,
    RequestTimeout,
    RocketMQError,
    SignatureRefused,
    SystemBusy,
    TopicNotExist,
)
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.shared_clients import SharedClients, close_when_dropped
from sprocketmq.spark.options.access import ANONYMOUS, Access
from sprocketmq.spark.options.named_topics import LEDGER_PREFIX
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode, ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.spark")

T = TypeVar("T")

_PERM_READ: Final = 4
_ROUTE_AGE_S: Final = 10.0
_NO_ROUTE_AGE_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
# How long a request is retried without a word, and how often it is said after that.
_QUIET_S: Final = 3.0
_SAID_EACH_S: Final = 30.0
# Requests that one call of ``gather`` keeps in flight.
_IN_FLIGHT: Final = 128
_TOPIC_OF_EACH_BROKER: Final = "SELF_TEST_TOPIC"
# TopicConfigManager creates these topics in every broker; transactional writes create their ledgers (``sink_options``). topicsPattern=".*"
# does not match them.
_SYSTEM_TOPIC: Final = re.compile(
    r"%.*|rmq_sys_.*|RMQ_SYS_.*|SCHEDULE_TOPIC_XXXX|TBW102|SELF_TEST_TOPIC|BenchmarkTest|OFFSET_MOVED_EVENT|"
    rf"TRANS_CHECK_MAX_TIME_TOPIC|CHECKPOINT_TOPIC|{LEDGER_PREFIX}.*"
)


@dataclass
class _Route:
    data: bodies.TopicRouteData | None
    good_until_s: float


class _Connections:
    """What all ``Cluster`` objects of one address and account share. It is closed when the last of them is garbage collected."""

    def __init__(self, namesrv_addr: str, access: Access) -> None:
        self.engine = Engine.shared()
        # Consumer group -> the running info of its member in this process.
        self.members: dict[str, Callable[[], bodies.ConsumerRunningInfo]] = {}
        # The pool must not refer to this object: it would never be collected.
        self.pool = ConnectionPool(
            _broker_request_handler(self.members), ssl_context=access.ssl_context, credentials=access.credentials
        )
        self.api = RemotingApi(self.pool, NameServers(self.pool, parse_addresses(namesrv_addr)))
        self.routes: dict[str, _Route] = {}
        self.retry_topics: set[tuple[str, str]] = set()  # group and broker behind a proxy that has its retry topic
        self.say_again_s = 0.0
        self.by_retry_timeout: weakref.WeakValueDictionary[int, Cluster] = weakref.WeakValueDictionary()
        close_when_dropped(self, self.engine, self.pool.aclose)


class Cluster:
    """All brokers behind a name server. Use :meth:`at`, not the constructor, and keep a reference while you use it: when nobody refers to
    the object, its connections may be closed.

    Blocking methods retry, and raise NetworkError, RequestTimeout or RemoteError when the request still fails after ``retry_timeout_ms``.
    Coroutines send one request; call them in ``run`` or ``retrying``.
    """

    shared: ClassVar[SharedClients[tuple[str, Access], _Connections]] = SharedClients()

    def __init__(self, namesrv_addr: str, retry_timeout_ms: int, connections: _Connections) -> None:
        self.namesrv_addr = namesrv_addr
        self.retry_timeout_ms = retry_timeout_ms
        self._connections = connections
        self.engine, self.pool, self.api = connections.engine, connections.pool, connections.api
        self.members, self._routes = connections.members, connections.routes
        self._retry_topics = connections.retry_topics

    @classmethod
    def at(cls, namesrv_addr: str, retry_timeout_ms: int = 60_000, access: Access = ANONYMOUS) -> Cluster:
        """This process's cluster object for the address, the account and the retry timeout. Objects that differ in the retry timeout alone
        share connections, routes and members."""
        connections = cls.shared.get((namesrv_addr, access), lambda _: _Connections(namesrv_addr, access))
        cluster = connections.by_retry_timeout.get(retry_timeout_ms)
        if cluster is None:
            made = cls(namesrv_addr, retry_timeout_ms, connections)
            cluster = connections.by_retry_timeout.setdefault(retry_timeout_ms, made)
        return cluster

    # -- routes ----------------------------------------------------------------------------------------------------------------

    def topics_matching(self, pattern: str) -> tuple[str, ...]:
        """Topics whose whole name matches ``pattern``, without system topics, sorted. Raises ConfigurationError (behind a proxy,
        which lists no topics)."""
        matcher = re.compile(pattern)
        try:
            names = self.run(self.api.topic_list)
        except RequestNotServed as error:
            raise ConfigurationError(
                f"topicsPattern is {pattern!r}, and the proxy at {error.address} lists no topics; name them in the option topics, or use "
                "the address of a name server of its cluster"
            ) from None
        matching = {name for name in names if matcher.fullmatch(name) and not is_system_topic(name)}
        if matching:
            matching -= _cluster_topics(self.run(self.api.cluster_info))
        return tuple(sorted(matching))

    def queues(self, topics: Iterable[str], *, missing_ok: bool = False) -> list[MessageQueue]:
        """The readable queues of ``topics``. ``missing_ok``: a topic without a route has no queues, as while its broker restarts.
        Raises TopicNotExist: the name server has no route for a topic. A retry or dead-letter topic counts as empty then,
        because a broker creates it with its first message."""
        names = list(topics)
        routes = self.run(lambda: self.gather(self.route(name) for name in names))
        found: list[MessageQueue] = []
        for name, route in zip(names, routes, strict=True):
            if route is None and not missing_ok and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                server = "proxy" if self.api.behind_proxy else "name server"
                raise TopicNotExist(
                    17,
                    f"topic {name!r} is unknown to the {server} {self.namesrv_addr}; check the spelling or create the topic first",
                )
            found += _readable_queues(name, route)
        return sorted(found)

    async def readable_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of one topic; none if it has no route."""
        return _readable_queues(topic, await self.route(topic))

    def masters(self, topics: Iterable[str] = ()) -> set[str]:
        """The names of the brokers whose master is registered. A proxy does not list them; they are those of ``topics``, and of a topic
        that each broker has, if this account may see it."""

        async def ask() -> set[str]:
            try:
                known = (await self.api.cluster_info()).broker_addr_table
                return {name for name, broker in known.items() if MASTER in broker.broker_addrs}
            except RequestNotServed:
                brokers = await self.gather(map(brokers_of, (*topics, _TOPIC_OF_EACH_BROKER)))
                return {broker.broker_name for broker in chain(*brokers) if MASTER in broker.broker_addrs}

        async def brokers_of(topic: str) -> Sequence[bodies.BrokerData]:
            try:
                route = await self.route(topic)
            except NoPermission:
                return ()
            return () if route is None else route.broker_datas

        return self.run(ask)

    async def route(self, topic: str) -> bodies.TopicRouteData | None:
        """The route of ``topic``, cached for some seconds; None if the name server does not know the topic."""
        known = self._routes.get(topic)
        now_s = time.monotonic()
        if known is None or now_s > known.good_until_s:
            data = await self.api.route(topic)
            age_s = _NO_ROUTE_AGE_S if data is None else _ROUTE_AGE_S
            # With jitter, so that many topics or streams do not send their requests at the same moment.
            known = self._routes[topic] = _Route(data, now_s + age_s * random.uniform(0.8, 1.2))
        return known.data

    def make_retry_topic(self, group: str, topics: Iterable[str]) -> None:
        """Have the brokers of ``topics`` make the retry topic of ``group`` if they are behind a proxy: ``RemotingApi.make_retry_topic``."""

        async def ask() -> None:
            routes = await self.gather(map(self.route, topics))
            if not self.api.behind_proxy:
                return
            masters = {
                broker.broker_name: broker.broker_addrs[MASTER]
                for route in routes
                for broker in (() if route is None else route.broker_datas)
                if MASTER in broker.broker_addrs and (group, broker.broker_name) not in self._retry_topics
            }
            made = await self.gather(self.api.make_retry_topic(at, name, group) for name, at in masters.items())
            self._retry_topics.update((group, name) for name, is_made in zip(masters, made, strict=True) if is_made)

        self.run(ask)

    def forget_routes(self) -> None:
        """Drop the cached routes."""
        self._routes.clear()

    async def address(self, queue: MessageQueue) -> str:
        """The address of the master of the queue's broker."""
        return await self.broker_address(queue.broker_name, queue.topic)

    async def broker_address(self, broker_name: str, topic: str | None = None) -> str:
        """The address of a broker's master. The route of ``topic`` saves a request if the broker is in it. Only masters are used. A
        slave may lag behind and would give wrong offsets. Raises NetworkError: the name server (or the proxy) does not know the
        broker, or it has no master."""
        known = None if topic is None else await self.route(topic)
        now_s = time.monotonic()
        # Routes of other topics name the broker, too; only those that have not expired count, as the broker may have moved.
        others = (route.data for route in self._routes.values() if now_s <= route.good_until_s)
        for data in (known, *others):
            if data is not None and (address := known_master(data, broker_name)) is not None:
                return address
        registered = await self.api.broker_addresses(broker_name)
        if not registered:
            raise NetworkError(f"broker {broker_name!r} is not registered with {self.namesrv_addr} now; is it running?")
        if MASTER not in registered:
            raise NetworkError(
                f"broker {broker_name!r} has no master now, only replicas, which may be behind it; start its master"
            )
        return registered[MASTER]

    # -- asking ----------------------------------------------------------------------------------------------------------------

    def run(self, ask: Callable[[], Awaitable[T]], max_retry_ms: int | None = None) -> T:
        """``retrying`` for callers outside of the engine's loop: blocks."""
        return self.engine.run(self.retrying(ask, max_retry_ms))

    async def retrying(self, ask: Callable[[], Awaitable[T]], max_retry_ms: int | None = None) -> T:
        """Call ``ask`` until it succeeds, as long as its failures are transient, and return its result. ``max_retry_ms``: the
        longest time to retry, if that is less than ``retry_timeout_ms``."""
        max_retry_ms = self.retry_timeout_ms if max_retry_ms is None else min(max_retry_ms, self.retry_timeout_ms)
        began_s = time.monotonic()
        deadline_s = began_s + max_retry_ms / 1000
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except RocketMQError as error:
                now_s = time.monotonic()
                if not is_transient(error) or now_s + pause_s > deadline_s:
                    raise
                if now_s - began_s >= _QUIET_S and now_s >= self._connections.say_again_s:
                    self._connections.say_again_s = now_s + _SAID_EACH_S
                    log.warning("trying for %d s more (retryTimeoutMs): %s", deadline_s - now_s, error)
            self.forget_routes()  # a broker may have moved
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def gather(self, questions: Iterable[Awaitable[T]]) -> list[T]:
        """The results in order, many requests in flight. The first failure is raised."""
        gate = asyncio.Semaphore(_IN_FLIGHT)

        async def gated(question: Awaitable[T]) -> T:
            async with gate:
                return await question

        return list(await all_ended(gated(question) for question in questions))

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def heartbeat(self, heartbeat: bodies.HeartbeatData, topics: Iterable[str]) -> None:
        """Send ``heartbeat`` to every broker of ``topics``. Brokers that are down get the next one."""
        addresses: set[str] = set()
        for topic in topics:
            route = await self.route(topic)
            for broker in route.broker_datas if route is not None else ():
                addresses.update(broker.broker_addrs.values())
        answers = await asyncio.gather(
            *(self.api.heartbeat(address, heartbeat) for address in addresses), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RocketMQError):
                raise answer

    async def members_of(self, group: str, topics: Iterable[str]) -> set[str]:
        """The client ids of ``group`` at the brokers of ``topics``. Brokers that are down are left out."""
        addresses: set[str] = set()
        for topic in topics:
            route = await self.route(topic)
            for broker in route.broker_datas if route is not None else ():
                addresses.update(broker.broker_addrs.values())
        answers = await asyncio.gather(
            *(self.api.consumer_ids(address, group) for address in sorted(addresses)), return_exceptions=True
        )
        members: set[str] = set()
        for answer in answers:
            if isinstance(answer, list):
                members.update(answer)
            elif not isinstance(answer, RocketMQError):
                raise answer
        return members


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


def is_system_topic(topic: str) -> bool:
    """Whether a broker or a transactional write created ``topic`` for its own use."""
    return _SYSTEM_TOPIC.fullmatch(topic) is not None


def is_transient(error: RocketMQError) -> bool:
    """Whether a retry may help. For sends there are more such errors: ``row_sender.is_transient_send_error``."""
    return isinstance(error, NetworkError | RequestTimeout | SystemBusy | SignatureRefused)


def is_apache_4(answer: Command) -> bool:
    """Whether an Apache 4.x broker sent ``answer``. Our broker announces 4.9, too, but another language."""
    return answer.version < Version.V5_0_0 and answer.language == "JAVA"


def _cluster_topics(info: bodies.ClusterInfo) -> set[str]:
    """Topics that are named after a cluster or a broker, and the reply topic of each cluster."""
    clusters = info.cluster_addr_table.keys()
    return {*clusters, *info.broker_addr_table, *(cluster + "_REPLY_TOPIC" for cluster in clusters)}


def _readable_queues(topic: str, route: bodies.TopicRouteData | None) -> list[MessageQueue]:
    if route is None:
        return []
    reachable = {broker.broker_name for broker in route.broker_datas if broker.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & _PERM_READ and data.broker_name in reachable
        for queue_id in range(data.read_queue_nums)
    ]

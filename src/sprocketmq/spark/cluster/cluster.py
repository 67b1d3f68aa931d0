"""The brokers behind a name server, as the Spark parts see them: connections, routes, one way of trying again, and who asks in what group.
Blocking face, async inside.

Spark gives a Python source no second chance: an exception out of ``latestOffset`` kills the query. So everything asked here is tried again
until ``retry_timeout_ms`` is over, as long as the failure is one that passes (no connection, no answer, broker busy); only then it raises.

A process has one set of connections for each name server address and account: Spark forks its Python workers and uses them for many
batches, so connections are made on first use, kept while they are among the last that were used (``shared_clients``), and never carried
over a fork.

What is asked through it has files of its own: ``queue_bounds`` (what brokers hold), ``offset_search`` (a look at messages),
``group_progress`` (what a group committed), ``sent_back`` (rows on their way back), ``shown_rows``, ``responder`` (transactional writes).
"""

from __future__ import annotations

import asyncio
import random
import re
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.client.remoting.masters import MASTER, known_master
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.core.retry.retry_schedule import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.errors import NetworkError, RequestTimeout, RocketMQError, SignatureRefused, SystemBusy, TopicNotExist
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.shared_clients import SharedClients, close_when_dropped
from sprocketmq.spark.options.access import PLAIN, Access
from sprocketmq.spark.options.named_topics import LEDGER_PREFIX
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode, ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["Cluster", "can_pass", "is_apache_4", "is_system_topic"]

T = TypeVar("T")

_PERM_READ: Final = 4
_ROUTE_AGE_S: Final = 10.0
_NO_ROUTE_AGE_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
# How many requests one batch of questions keeps in flight at once.
_IN_FLIGHT: Final = 128
# TopicConfigManager creates these in every broker, and transactional writes their ledgers (``sink_options``); topicsPattern=".*" does not
# mean them.
_SYSTEM_TOPIC: Final = re.compile(
    r"%.*|rmq_sys_.*|RMQ_SYS_.*|SCHEDULE_TOPIC_XXXX|TBW102|SELF_TEST_TOPIC|BenchmarkTest|OFFSET_MOVED_EVENT|"
    rf"TRANS_CHECK_MAX_TIME_TOPIC|CHECKPOINT_TOPIC|{LEDGER_PREFIX}.*"
)


@dataclass
class _Route:
    data: bodies.TopicRouteData | None
    good_until_s: float


class _Connections:
    """What all ``Cluster`` objects of one address and account share; closed when the last of them is gone."""

    def __init__(self, namesrv_addr: str, access: Access) -> None:
        self.engine = Engine.shared()
        # Group -> what its member here tells tools of itself.
        self.members: dict[str, Callable[[], bodies.ConsumerRunningInfo]] = {}
        # The pool must not hold this object, which would never be gone then.
        self.pool = ConnectionPool(
            _asked_by_a_broker(self.members), ssl_context=access.ssl_context, credentials=access.credentials
        )
        self.api = RemotingApi(self.pool, NameServers(self.pool, parse_addresses(namesrv_addr)))
        self.routes: dict[str, _Route] = {}
        self.by_patience: weakref.WeakValueDictionary[int, Cluster] = weakref.WeakValueDictionary()
        close_when_dropped(self, self.engine, self.pool.aclose)


class Cluster:
    """All brokers behind a name server, as the Spark parts see them. Use :meth:`at`, not the constructor, and keep the object for
    as long as it is used: its connections may be closed when nobody has it.

    What blocks tries again, and raises NetworkError, RequestTimeout or RemoteError when it still fails after ``retry_timeout_ms``; the
    coroutines ask once, for who calls them within ``run`` or ``retrying``.
    """

    shared: ClassVar[SharedClients[tuple[str, Access], _Connections]] = SharedClients()

    def __init__(self, namesrv_addr: str, retry_timeout_ms: int, connections: _Connections) -> None:
        self.namesrv_addr = namesrv_addr
        self.retry_timeout_ms = retry_timeout_ms
        self._connections = connections
        self.engine, self.pool, self.api = connections.engine, connections.pool, connections.api
        self.members, self._routes = connections.members, connections.routes

    @classmethod
    def at(cls, namesrv_addr: str, retry_timeout_ms: int = 60_000, access: Access = PLAIN) -> Cluster:
        """This process's cluster object for ``namesrv_addr``, who it is there, and this patience; those that differ in the last share
        connections, routes and members."""
        connections = cls.shared.get((namesrv_addr, access), lambda _: _Connections(namesrv_addr, access))
        cluster = connections.by_patience.get(retry_timeout_ms)
        if cluster is None:
            made = cls(namesrv_addr, retry_timeout_ms, connections)
            cluster = connections.by_patience.setdefault(retry_timeout_ms, made)
        return cluster

    # -- routes ----------------------------------------------------------------------------------------------------------------

    def topics_matching(self, pattern: str) -> tuple[str, ...]:
        """Topics whose whole name matches, system topics left out, sorted."""
        matcher = re.compile(pattern)
        names = self.run(self.api.topic_list)
        matching = {name for name in names if matcher.fullmatch(name) and not is_system_topic(name)}
        if matching:
            matching -= _own_topics(self.run(self.api.cluster_info))
        return tuple(sorted(matching))

    def queues(self, topics: Iterable[str], *, missing_ok: bool = False) -> list[MessageQueue]:
        """The readable queues of ``topics``; with ``missing_ok`` a topic without a route just has none now (its broker restarts).

        Raises:
            TopicNotExist: the name server has no route for one of them; a retry or dead-letter topic, which a broker makes when it is
                first needed, is just empty then.
        """
        names = list(topics)
        routes = self.run(lambda: self.gather(self.route(name) for name in names))
        found: list[MessageQueue] = []
        for name, route in zip(names, routes, strict=True):
            if route is None and not missing_ok and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                raise TopicNotExist(
                    17,
                    f"topic {name!r} is unknown to the name server {self.namesrv_addr}; check the spelling or create the topic first",
                )
            if route is not None:
                found += _readable(name, route)
        return sorted(found)

    def masters(self) -> set[str]:
        """The names of the brokers whose masters are registered."""
        known = self.run(self.api.cluster_info).broker_addr_table
        return {name for name, broker in known.items() if MASTER in broker.broker_addrs}

    async def route(self, topic: str) -> bodies.TopicRouteData | None:
        """Who has ``topic``, as the name server said some seconds ago; None when it knows no such topic."""
        known = self._routes.get(topic)
        now_s = time.monotonic()
        if known is None or now_s > known.good_until_s:
            data = await self.api.route(topic)
            age_s = _NO_ROUTE_AGE_S if data is None else _ROUTE_AGE_S
            # Jittered: many topics, or many streams started at once, do not ask the name server all in one moment.
            known = self._routes[topic] = _Route(data, now_s + age_s * random.uniform(0.8, 1.2))
        return known.data

    def forget_routes(self) -> None:
        """Ask the name server again when one is needed next."""
        self._routes.clear()

    async def address(self, queue: MessageQueue) -> str:
        """Where to ask about ``queue``: its broker's master."""
        return await self.broker_address(queue.broker_name, queue.topic)

    async def broker_address(self, broker_name: str, topic: str | None = None) -> str:
        """The same by name alone, and by the route of ``topic`` where that is known: one question less.

        Only a master is asked: a replica may be behind it, or hold less, and what it does not know would look like the truth.

        Raises:
            NetworkError: the name server knows no such broker now, or no master of it.
        """
        known = None if topic is None else await self.route(topic)
        now_s = time.monotonic()
        # What was said of other topics counts as long as it would for them: a broker may have moved since.
        others = (route.data for route in self._routes.values() if now_s <= route.good_until_s)
        for data in (known, *others):
            if data is not None and (address := known_master(data, broker_name)) is not None:
                return address
        info = await self.api.cluster_info()
        registered = info.broker_addr_table.get(broker_name)
        if registered is None or not registered.broker_addrs:
            raise NetworkError(f"broker {broker_name!r} is not registered with {self.namesrv_addr} now; is it running?")
        if MASTER not in registered.broker_addrs:
            raise NetworkError(
                f"broker {broker_name!r} has no master now, only replicas, which may be behind it; start its master"
            )
        return registered.broker_addrs[MASTER]

    # -- asking ----------------------------------------------------------------------------------------------------------------

    def run(self, ask: Callable[[], Awaitable[T]], patience_ms: int | None = None) -> T:
        """``retrying``, for who is not on the engine's loop: blocks."""
        return self.engine.run(self.retrying(ask, patience_ms))

    async def retrying(self, ask: Callable[[], Awaitable[T]], patience_ms: int | None = None) -> T:
        """The answer to ``ask``, which is called again while its failures can pass.

        Args:
            patience_ms: for how long, if that is less than ``retry_timeout_ms``.
        """
        patience_ms = self.retry_timeout_ms if patience_ms is None else min(patience_ms, self.retry_timeout_ms)
        deadline_s = time.monotonic() + patience_ms / 1000
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except RocketMQError as error:
                if not can_pass(error) or time.monotonic() + pause_s > deadline_s:
                    raise
            self.forget_routes()  # a broker may have moved
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def gather(self, questions: Iterable[Awaitable[T]]) -> list[T]:
        """The answers in order, many questions in flight; the first failure is raised."""
        gate = asyncio.Semaphore(_IN_FLIGHT)

        async def gated(question: Awaitable[T]) -> T:
            async with gate:
                return await question

        return list(await asyncio.gather(*(gated(question) for question in questions)))

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def heartbeat(self, heartbeat: bodies.HeartbeatData, topics: Iterable[str]) -> None:
        """Tell every broker of ``topics`` that the members of ``heartbeat`` live; brokers that are down are left to the next round."""
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
        """The client ids of ``group`` that the brokers of ``topics`` know; brokers that are down know none."""
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


def _asked_by_a_broker(
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
    """Whether no user's rows are in ``topic``: one that a broker or a transactional write made for itself."""
    return _SYSTEM_TOPIC.fullmatch(topic) is not None


def can_pass(error: RocketMQError) -> bool:
    """Whether asking again later can help; a send has more to wait for (``row_sender.may_pass``)."""
    return isinstance(error, NetworkError | RequestTimeout | SystemBusy | SignatureRefused)


def is_apache_4(answer: Command) -> bool:
    """Ours announces 4.9, too, and says in what it is written."""
    return answer.version < Version.V5_0_0 and answer.language == "JAVA"


def _own_topics(info: bodies.ClusterInfo) -> set[str]:
    """Every cluster and every broker has a topic of its own name, and a cluster one for replies."""
    clusters = info.cluster_addr_table.keys()
    return {*clusters, *info.broker_addr_table, *(cluster + "_REPLY_TOPIC" for cluster in clusters)}


def _readable(topic: str, route: bodies.TopicRouteData) -> list[MessageQueue]:
    reachable = {broker.broker_name for broker in route.broker_datas if broker.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & _PERM_READ and data.broker_name in reachable
        for queue_id in range(data.read_queue_nums)
    ]

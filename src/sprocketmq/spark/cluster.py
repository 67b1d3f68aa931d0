"""What the source asks the brokers, from the driver: routes, offsets, commits, heartbeats, send-backs. Blocking face, async inside.

Spark gives a Python source no second chance: an exception out of ``latestOffset`` kills the query. So everything here tries again until
``retry_timeout_ms`` is over, as long as the failure is one that passes (no connection, no answer, broker busy); only then it raises.

One ``Cluster`` per process and name server address: Spark forks its Python workers and uses them for many batches, so connections are made
on first use, kept, and never carried over a fork.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

from sprocketmq.client.api import RemotingApi
from sprocketmq.client.name_servers import NameServers, parse_addresses
from sprocketmq.core.retry_schedule import DLQ_PREFIX
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout, RocketMQError, SystemBusy, TopicNotExist
from sprocketmq.net.connection import Connection
from sprocketmq.net.engine import Engine
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.spark.access import PLAIN, Access
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.spark.plan import RETRY_PREFIX
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode, ResponseCode, Version
from sprocketmq.wire.command import Command, request, response
from sprocketmq.wire.message import MessageExt, MessageQueue
from sprocketmq.wire.record import decode_records

__all__ = ["Cluster", "Look", "SendBack"]

T = TypeVar("T")

_PERM_READ: Final = 4
_MASTER: Final = 0
_ROUTE_AGE_S: Final = 10.0
_NO_ROUTE_AGE_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
# Messages around a time, or sampled for their size: what a broker gives in one answer from memory.
_LOOK: Final = 32
_LOOK_TIMEOUT_MS: Final = 3_000
_COMMIT_PATIENCE_MS: Final = 2_000
# How many requests one batch of questions keeps in flight at once.
_IN_FLIGHT: Final = 128
# TopicConfigManager creates these in every broker; topicsPattern=".*" does not mean them.
_SYSTEM_TOPIC: Final = re.compile(
    r"%.*|rmq_sys_.*|RMQ_SYS_.*|SCHEDULE_TOPIC_XXXX|TBW102|SELF_TEST_TOPIC|BenchmarkTest|OFFSET_MOVED_EVENT|"
    r"TRANS_CHECK_MAX_TIME_TOPIC|CHECKPOINT_TOPIC"
)


@dataclass(frozen=True, slots=True)
class SendBack:
    """One message to be consumed again later: where its stored copy is, and how it goes back.

    ``delay_level`` 0 lets the broker choose (10 s, 30 s, 1 min, ...), 1..18 asks for that level, -1 means straight to the dead letters.
    """

    broker_name: str
    commit_log_offset: int
    topic: str = ""
    message_id: str = ""
    delay_level: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What some of the next messages of a queue were: when the first was stored, how many, and their stored bytes."""

    stored_ms: int
    messages: int
    total_bytes: int


@dataclass
class _Route:
    data: bodies.TopicRouteData | None
    good_until_s: float


class Cluster:
    """All brokers behind a name server, as the Spark parts see them. Use :meth:`at`, not the constructor.

    Raises (every method): NetworkError, RequestTimeout, RemoteError when it still fails after ``retry_timeout_ms``.
    """

    _by_process: ClassVar[dict[tuple[int, str, Access], Cluster]] = {}

    def __init__(self, namesrv_addr: str, access: Access = PLAIN) -> None:
        self.engine = Engine.shared()
        self.namesrv_addr = namesrv_addr
        self.retry_timeout_ms = 60_000
        self.pool = ConnectionPool(
            self._asked_by_a_broker, ssl_context=access.ssl_context, credentials=access.credentials
        )
        self.api = RemotingApi(self.pool, NameServers(self.pool, parse_addresses(namesrv_addr)))
        self._routes: dict[str, _Route] = {}
        # Group -> what its member here tells tools of itself.
        self.members: dict[str, Callable[[], bodies.ConsumerRunningInfo]] = {}

    @classmethod
    def at(cls, namesrv_addr: str, retry_timeout_ms: int = 60_000, access: Access = PLAIN) -> Cluster:
        """This process's cluster object for ``namesrv_addr`` and who it is there."""
        key = (os.getpid(), namesrv_addr, access)
        cluster = cls._by_process.get(key)
        if cluster is None:
            cluster = cls._by_process[key] = cls(namesrv_addr, access)
        cluster.retry_timeout_ms = retry_timeout_ms
        return cluster

    # -- routes ----------------------------------------------------------------------------------------------------------------

    def topics_matching(self, pattern: str) -> tuple[str, ...]:
        """Topics whose whole name matches, system topics left out, sorted."""
        matcher = re.compile(pattern)
        names = self._run(self.api.topic_list)
        matching = {name for name in names if matcher.fullmatch(name) and not _SYSTEM_TOPIC.fullmatch(name)}
        if matching:
            matching -= _own_topics(self._run(self.api.cluster_info))
        return tuple(sorted(matching))

    def queues(self, topics: Iterable[str], *, missing_ok: bool = False) -> list[MessageQueue]:
        """The readable queues of ``topics``; with ``missing_ok`` a topic without a route just has none now (its broker restarts).

        Raises:
            TopicNotExist: the name server has no route for one of them; a retry or dead-letter topic, which a broker makes when it is
                first needed, is just empty then.
        """
        names = list(topics)
        routes = self._run(lambda: self._gather(self._route(name) for name in names))
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

    # -- offsets ---------------------------------------------------------------------------------------------------------------

    def first_held(self, bounds: Mapping[MessageQueue, QueueBounds], group: str) -> dict[MessageQueue, QueueBounds]:
        """``bounds`` with the offsets of the first messages that are really there: one pull for each queue of a 4.x broker.

        Such a broker leaves the smallest offset where it was when all messages of a queue were deleted, also when new ones have come,
        until it deletes a file of its log again. What is gone is a beginning, so halving finds its end.
        """

        async def has(queue: MessageQueue, offset: int) -> bool:
            try:
                messages = await self._pulled(queue, offset, group, 1)
            except RocketMQError:
                return True  # nobody knows: the task will
            return bool(messages) and messages[0].queue_offset == offset

        async def one(queue: MessageQueue, held: QueueBounds) -> QueueBounds:
            if held.min_is_sure or held.min == held.max or await has(queue, held.min):
                return held
            gone, there = held.min, held.max
            while there - gone > 1:
                middle = (gone + there) // 2
                if await has(queue, middle):
                    there = middle
                else:
                    gone = middle
            return replace(held, min=there)

        found = self._run(lambda: self._gather(one(queue, held) for queue, held in bounds.items()))
        return dict(zip(bounds, found, strict=True))

    def bounds(self, queues: Sequence[MessageQueue], *, partial: bool = False) -> dict[MessageQueue, QueueBounds]:
        """What the brokers hold of each queue: one question per topic and broker.

        ``partial`` leaves the queues of a broker that cannot be reached, or does not know the topic, out, so that one broker's restart
        does not hold up the others; it still raises when there are queues and no broker answers at all.
        """
        pairs = sorted({(queue.topic, queue.broker_name) for queue in queues})
        wanted = set(queues)

        async def ask() -> dict[MessageQueue, QueueBounds]:
            answers = await self._gather(self._maybe_topic_stats(topic, broker) for topic, broker in pairs)
            failures = [answer for answer in answers if isinstance(answer, RocketMQError)]
            silent = [error for error in failures if not isinstance(error, TopicNotExist)]
            if failures and not (partial and len(silent) < max(1, len(answers)) and all(map(_passes, silent))):
                raise (silent or failures)[0]
            held = {}
            for answer in answers:
                if isinstance(answer, RocketMQError):
                    continue
                table, sure, min_is_sure = answer
                for queue, offsets in table.offset_table.items():
                    if queue in wanted:
                        low, high = max(0, offsets.min_offset), max(0, offsets.max_offset)
                        newest_ms = max(0, offsets.last_update_timestamp)
                        held[queue] = QueueBounds(low, high, sure, newest_ms, min_is_sure)
            return held

        return self._run(ask)

    def gone(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Reason]:
        """Which of ``queues`` their own master says it does not have; one that is not there to be asked has none of them lost."""
        asked = list(queues)
        pairs = sorted({(queue.topic, queue.broker_name) for queue in asked})

        async def one(info: bodies.ClusterInfo, topic: str, broker_name: str) -> set[MessageQueue] | None:
            """What the master has of the topic; None when it was not to be asked."""
            known = info.broker_addr_table.get(broker_name)
            master = known.broker_addrs.get(_MASTER) if known is not None else None
            if not master:
                return None
            try:
                return set((await self.api.topic_stats(master, topic)).offset_table)
            except TopicNotExist:
                return set()
            except RocketMQError:
                return None

        async def ask() -> dict[MessageQueue, Reason]:
            info = await self.api.cluster_info()
            there = dict(zip(pairs, await self._gather(one(info, *pair) for pair in pairs), strict=True))
            found: dict[MessageQueue, Reason] = {}
            for queue in asked:
                queues_now = there[queue.topic, queue.broker_name]
                if queues_now is not None and queue not in queues_now:
                    found[queue] = "queue gone" if queues_now else "topic gone"
            return found

        return self._run(ask)

    def offsets_by_time(
        self, bounds: Mapping[MessageQueue, QueueBounds], times_ms: Mapping[MessageQueue, int], group: str
    ) -> dict[MessageQueue, int]:
        """The first offset stored at or after the time of each queue; a queue without so young a message is left out.

        A 4.9 broker answers with the message nearest to the time, which may be older, or any of those of the same millisecond. So the
        answer is where the search begins: the store times of the messages around it decide.
        """

        async def one(queue: MessageQueue, timestamp_ms: int) -> int:
            held = bounds[queue]
            at = await self.api.search_offset(await self.address(queue), queue, timestamp_ms)
            at = min(max(at, held.min), held.max)
            while at > held.min:
                before = await self._stored(queue, max(held.min, at - _LOOK), group)
                older = [offset for offset, stored_ms in before if offset < at and stored_ms < timestamp_ms]
                if older or not before or before[0][0] >= at:
                    at = older[-1] + 1 if older else at
                    break
                at = before[0][0]
            while at < held.max:
                after = await self._stored(queue, at, group)
                if not after or after[0][1] >= timestamp_ms:
                    break
                at = next((offset for offset, stored_ms in after if stored_ms >= timestamp_ms), after[-1][0] + 1)
            return at

        queues = list(times_ms)
        found = self._run(lambda: self._gather(one(queue, times_ms[queue]) for queue in queues))
        return {queue: at for queue, at in zip(queues, found, strict=True) if 0 <= at < bounds[queue].max}

    def look(self, queues: Mapping[MessageQueue, int], group: str, count: int) -> dict[MessageQueue, Look]:
        """The next up to ``count`` messages of each queue at its offset; a queue that does not answer at once is left out."""

        async def one(queue: MessageQueue, offset: int) -> Look | None:
            try:
                messages = await self._pulled(queue, offset, group, count)
            except RocketMQError:
                return None
            sizes = sum(message.store_size_bytes for message in messages)
            return Look(messages[0].store_timestamp_ms, len(messages), sizes) if messages else None

        found = self.engine.run(self._gather(one(queue, offset) for queue, offset in queues.items()))
        return {queue: look for queue, look in zip(queues, found, strict=True) if look is not None}

    async def _stored(self, queue: MessageQueue, offset: int, group: str) -> list[tuple[int, int]]:
        messages = await self._pulled(queue, offset, group, _LOOK)
        return [(message.queue_offset, message.store_timestamp_ms) for message in messages]

    async def _pulled(self, queue: MessageQueue, offset: int, group: str, count: int) -> list[MessageExt]:
        address = await self.address(queue)
        pulled = await self.api.read_queue(address, group, queue, offset, count, timeout_ms=_LOOK_TIMEOUT_MS)
        return decode_records(pulled.body, queue.broker_name, decompress=False) if pulled.body else []

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """What ``group`` has committed; a queue without a commit is left out. A failed question raises: it must not look like "none".

        A 4.x broker does not say "none" for a topic whose first message is still in its memory, it says 0. So whoever hears 0 from one asks
        for its whole table, as a slave does.
        """

        async def one(queue: MessageQueue) -> int | None:
            return await self.api.query_consumer_offset(await self.address(queue), group, queue, zero_if_young=False)

        async def table(address: str) -> Mapping[str, Mapping[int, int]] | None:
            answer = await self.api.invoke(address, request(RequestCode.GET_ALL_CONSUMER_OFFSET), self.api.timeout_ms)
            if answer.code != ResponseCode.SUCCESS or not _is_apache_4(answer):
                return None  # to be believed
            return bodies.ConsumerOffsetSerializeWrapper.decode(answer.body).offset_table

        async def ask() -> dict[MessageQueue, int]:
            answers = dict(zip(queues, await self._gather(map(one, queues)), strict=True))
            found = {queue: at for queue, at in answers.items() if at is not None and at >= 0}
            zeros = {queue: await self.address(queue) for queue, at in found.items() if at == 0}
            addresses = sorted(set(zeros.values()))
            tables = dict(zip(addresses, await self._gather(map(table, addresses)), strict=True))
            for queue, address in zeros.items():
                known = tables[address]
                if known is not None and queue.queue_id not in known.get(f"{queue.topic}@{group}", {}):
                    del found[queue]
            return found

        return self._run(ask)

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Show ``offsets`` (next to read) as the progress of ``group`` on the brokers. Tried for a short while only: it is for people to
        see, and a stream has other queues to read.
        """

        async def one(queue: MessageQueue, offset: int) -> None:
            await self.api.update_consumer_offset(await self.address(queue), group, queue, offset)

        self._run(lambda: self._gather(one(queue, offset) for queue, offset in offsets.items()), _COMMIT_PATIENCE_MS)

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def heartbeat(self, heartbeat: bodies.HeartbeatData, topics: Iterable[str]) -> None:
        """Tell every broker of ``topics`` that the members of ``heartbeat`` live; brokers that are down are left to the next round."""
        addresses: set[str] = set()
        for topic in topics:
            route = await self._route(topic)
            for broker in route.broker_datas if route is not None else ():
                addresses.update(broker.broker_addrs.values())
        answers = await asyncio.gather(
            *(self.api.heartbeat(address, heartbeat) for address in addresses), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RocketMQError):
                raise answer

    def send_back(
        self, group: str, messages: Sequence[SendBack], max_reconsume_times: int
    ) -> list[tuple[SendBack, RemoteError]]:
        """CONSUMER_SEND_MSG_BACK for each; returns those that the brokers refused for good (the stored copy is gone)."""

        async def one(message: SendBack) -> RemoteError | None:
            header = headers.ConsumerSendMsgBackRequestHeader(
                offset=message.commit_log_offset,
                group=group,
                delay_level=message.delay_level,
                origin_msg_id=message.message_id or None,
                origin_topic=message.topic or None,
                max_reconsume_times=max_reconsume_times,
            )

            async def ask() -> None:
                address = await self._broker_address(message.broker_name)
                await self.api.consumer_send_message_back(address, header)

            try:
                await self._retrying(ask)
            except RemoteError as error:
                if _passes(error):
                    raise
                return error
            return None

        for name in {message.topic for message in messages if message.topic}:
            self._run(lambda name=name: self._route(name))  # type: ignore[misc] # broker addresses come with the route
        refused = self.engine.run(self._gather(one(message) for message in messages))
        return [(message, error) for message, error in zip(messages, refused, strict=True) if error is not None]

    def _asked_by_a_broker(self, connection: Connection, command: Command) -> Command:
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            group = command.header(headers.GetConsumerRunningInfoRequestHeader).consumer_group
            if group in self.members:
                return response(command, body=self.members[group]().encode())
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {command.code} is not served")

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _run(self, ask: Callable[[], Awaitable[T]], patience_ms: int | None = None) -> T:
        return self.engine.run(self._retrying(ask, patience_ms))

    async def _retrying(self, ask: Callable[[], Awaitable[T]], patience_ms: int | None = None) -> T:
        patience_ms = self.retry_timeout_ms if patience_ms is None else min(patience_ms, self.retry_timeout_ms)
        deadline_s = time.monotonic() + patience_ms / 1000
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except RocketMQError as error:
                if not _passes(error) or time.monotonic() + pause_s > deadline_s:
                    raise
            self._routes.clear()  # a broker may have moved
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _gather(self, questions: Iterable[Awaitable[T]]) -> list[T]:
        gate = asyncio.Semaphore(_IN_FLIGHT)

        async def gated(question: Awaitable[T]) -> T:
            async with gate:
                return await question

        return list(await asyncio.gather(*(gated(question) for question in questions)))

    async def _route(self, topic: str) -> bodies.TopicRouteData | None:
        known = self._routes.get(topic)
        now_s = time.monotonic()
        if known is None or now_s > known.good_until_s:
            data = await self.api.route(topic)
            age_s = _NO_ROUTE_AGE_S if data is None else _ROUTE_AGE_S
            # Jittered: many topics, or many streams started at once, do not ask the name server all in one moment.
            known = self._routes[topic] = _Route(data, now_s + age_s * random.uniform(0.8, 1.2))
        return known.data

    async def _maybe_topic_stats(
        self, topic: str, broker_name: str
    ) -> tuple[bodies.TopicStatsTable, bool, bool] | RocketMQError:
        """The answer, whether the master gave it, and whether its smallest offsets can be believed (see ``first_held``)."""
        try:
            address = await self._broker_address(broker_name, topic)
            route = await self._route(topic)
            masters = {one.broker_addrs.get(_MASTER) for one in route.broker_datas} if route is not None else set()
            table, min_is_sure = await self._topic_stats(address, topic)
            return table, address in masters, min_is_sure
        except RocketMQError as error:
            return error

    async def _topic_stats(self, address: str, topic: str) -> tuple[bodies.TopicStatsTable, bool]:
        """A queue of a 4.x broker whose last message is gone is empty, wherever it says that it begins."""
        answer = await self.api.topic_stats_answer(address, topic)
        table, is_old = bodies.TopicStatsTable.decode(answer.body), _is_apache_4(answer)
        for offsets in table.offset_table.values():
            if offsets.last_update_timestamp < 0 and is_old:
                offsets.min_offset = offsets.max_offset
        return table, not is_old

    async def address(self, queue: MessageQueue) -> str:
        """Where to ask about ``queue``: its broker's master, or a replica while there is none."""
        return await self._broker_address(queue.broker_name, queue.topic)

    async def _broker_address(self, broker_name: str, topic: str | None = None) -> str:
        if topic is not None:
            await self._route(topic)
        for route in self._routes.values():
            for broker in route.data.broker_datas if route.data is not None else ():
                if broker.broker_name == broker_name and broker.broker_addrs:
                    return broker.broker_addrs.get(_MASTER) or next(iter(broker.broker_addrs.values()))
        info = await self.api.cluster_info()
        known = info.broker_addr_table.get(broker_name)
        if known is None or not known.broker_addrs:
            raise NetworkError(f"broker {broker_name!r} is not registered with {self.namesrv_addr} now; is it running?")
        return known.broker_addrs.get(_MASTER) or next(iter(known.broker_addrs.values()))


def _passes(error: RocketMQError) -> bool:
    """Whether trying again later can help."""
    return isinstance(error, NetworkError | RequestTimeout | SystemBusy)


def _is_apache_4(answer: Command) -> bool:
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

# SPDX-License-Identifier: Apache-2.0
"""The routes that a client knows, kept in core.produce.route_table (Java: MQClientInstance's route part).

If a name server does not know a topic, its route is kept: a restarted name server is empty until the brokers have registered
again, and meanwhile the brokers are still there.

Rule: senders that wait for the first route of a topic, or for the address of a broker, continue in the order of their calls,
before any later sender. So messages of one sharding key that are sent concurrently keep their order.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.core.produce.route_table import RouteTable, route_for_new_topic
from sprocketmq.errors import ClosedError, NetworkError, RequestTimeout, RocketMQError, TopicNotExist
from sprocketmq.net.waiting_line import WaitingLine
from sprocketmq.wire.bodies import TopicRouteData
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

log = logging.getLogger("sprocketmq.client")

T = TypeVar("T")

_ASKED_AT_ONCE: Final = 16  # a round trip each: 1,000 topics one after the other take seconds
_AGE_S: Final = 10.0
_AGE_OF_NONE_S: Final = 1.0


class _Awaited(NamedTuple):
    """A route or address that senders wait for."""

    find: Callable[[], object]  # returns it, or None
    question: asyncio.Task[bool]
    line: WaitingLine


class Routes:
    """Belongs to one client and its loop. ``are_refreshed``: whether the owner calls ``refresh_all`` each 30 s. Otherwise ``recent``
    asks again for a route that is older than 10 s."""

    def __init__(self, name_servers: NameServers, outages: Outages, *, are_refreshed: bool = False) -> None:
        self._name_servers, self._outages, self._are_refreshed = name_servers, outages, are_refreshed
        self.table = RouteTable()
        # By topic: whether the name server knows it, and until when that counts.
        self._read: dict[str, tuple[bool, float]] = {}
        self._questions: dict[Hashable, asyncio.Task[bool]] = {}  # under way, by what they ask about
        # Until the last of them has continued: by topic, default topic and queue count, or by broker name.
        self.awaited: dict[Hashable, _Awaited] = {}
        self._default_routed: set[str] = set()  # topics that do not exist yet and are sent by the default topic's route

    # -- known routes ----------------------------------------------------------------------------------------------------------

    async def publish_queues(
        self, topic: str, default_topic: str, queue_nums: int, timeout_ms: int | None = None
    ) -> list[MessageQueue]:
        """Queues to send to. ``default_topic``: whose route stands in for a topic that does not exist yet, with at most
        ``queue_nums`` queues of a broker. Raises TopicNotExist (neither has a route), and as ``refresh``."""
        queues = self.table.publish_queues(topic)
        if queues and not self.awaited:
            return queues
        about = (topic, default_topic, queue_nums)
        queues = await self._in_turn(
            about,
            lambda: self.table.publish_queues(topic),
            lambda: self._shared(about, lambda: self._ask_or_default(topic, default_topic, queue_nums)),
            topic,
            timeout_ms,
        )
        if not queues:
            raise await self._no_route(topic, "no writable queue")
        return queues

    async def master_address(self, queue: MessageQueue, timeout_ms: int) -> str | None:
        """The address to which messages for ``queue`` are sent, asking the name server if it is unknown; None: there is none."""
        name, topic = queue.broker_name, queue.topic
        return await self._in_turn(
            (name, topic),  # each topic has its own answer, and its own order
            lambda: self.table.master_address(name),
            lambda: self._shared(topic, lambda: self._ask(topic)),
            topic,
            timeout_ms,
        )

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Queues to read, asking the name server when none are known; empty when it does not know the topic."""
        if topic in self._default_routed or not self.table.subscribe_queues(topic):
            await self.refresh(topic)
        return self.table.subscribe_queues(topic) if self.is_known(topic) else []

    def is_known(self, topic: str) -> bool:
        """Whether there is a route of the topic itself."""
        return topic not in self._default_routed and self.table.route(topic) is not None

    async def any_broker(self, topic: str) -> str | None:
        """A broker of the topic, for requests that any of them can answer."""
        if self.table.route(topic) is None:
            await self.refresh(topic)
        return self.table.any_address(topic, random.randrange(1 << 16))

    # -- asking ----------------------------------------------------------------------------------------------------------------

    async def recent(self, topic: str) -> TopicRouteData | None:
        """The route of ``topic``, read a few seconds ago or now; None: the name server does not know the topic. Raises as ``refresh``."""
        if self._are_refreshed and topic not in self._default_routed and (route := self.table.route(topic)) is not None:
            return route
        is_known, until_s = self._read.get(topic, (False, 0.0))
        if asyncio.get_running_loop().time() > until_s:
            is_known = await self.refresh(topic)
        return self.table.route(topic) if is_known else None

    def recent_routes(self) -> Iterator[TopicRouteData]:
        """The routes that ``recent`` returns at once."""
        now_s = asyncio.get_running_loop().time()
        for topic in self.table.topics():
            is_known, until_s = self._read.get(topic, (False, 0.0))
            if self._are_refreshed or (is_known and now_s <= until_s):
                yield self.table.route(topic)  # type: ignore[misc]

    def forget(self) -> None:
        """``recent`` asks for each route again: a broker may have moved."""
        self._read.clear()

    async def refresh(self, topic: str, timeout_ms: int | None = None) -> bool:
        """Read the route of ``topic`` from the name server; False: it does not know the topic. Concurrent callers share one
        request; ``timeout_ms`` is how long this caller waits."""
        return await self._result_within(self._shared(topic, lambda: self._ask(topic)), topic, timeout_ms)

    async def refresh_each(self, topics: Iterable[str]) -> None:
        """Several at a time. Raises as ``refresh``, and then asks for no others."""

        async def refresh(topic: str) -> bool:
            await self.refresh(topic)
            return True

        await _for_each(topics, refresh)

    async def refresh_all(self, topics: Iterable[str]) -> None:
        """Of the periodic refresh, and of a producer's start: failures are logged, what is known stays. Ends when no name server
        answers."""
        await _for_each(topics, self._try_refresh)

    async def _in_turn(
        self,
        about: Hashable,
        find: Callable[[], T],
        ask: Callable[[], asyncio.Task[bool]],
        topic: str,
        timeout_ms: int | None,
    ) -> T:
        """The result of ``find`` as soon as it finds something or the request is answered, in the order of the rule."""
        found, awaited = find(), self.awaited.get(about)
        if found and awaited is None:
            return found
        if awaited is None or (awaited.line.is_open and not found):  # a failed request does not count for later callers
            awaited = begun = self.awaited[about] = _Awaited(find, ask(), WaitingLine())
            begun.question.add_done_callback(lambda _: self._let_continue(about, begun))
        try:
            came = await awaited.line.wait(timeout_ms)
        finally:
            self._forget_if_over(about, awaited)
        if not came:
            raise self._too_late(topic, timeout_ms)
        found = find()
        if not found and awaited.question.done():
            _answer(awaited.question)
        return found

    def _let_continue(self, about: Hashable, awaited: _Awaited) -> None:
        awaited.line.open()
        self._forget_if_over(about, awaited)

    def _forget_if_over(self, about: Hashable, awaited: _Awaited) -> None:
        """Later callers need not queue up once the last one who waited has continued."""
        if awaited.line.is_open and not awaited.line.length and self.awaited.get(about) is awaited:
            del self.awaited[about]

    def _shared(self, about: Hashable, question: Callable[[], Coroutine[Any, Any, bool]]) -> asyncio.Task[bool]:
        task = self._questions.get(about)
        if task is None:
            task = self._questions[about] = asyncio.ensure_future(question())
            task.add_done_callback(lambda done: self._question_ended(about, done))
        return task

    async def _result_within(self, task: asyncio.Task[bool], topic: str, timeout_ms: int | None) -> bool:
        """The request continues for other callers after this caller's timeout."""
        await asyncio.wait([task], timeout=None if timeout_ms is None else max(0, timeout_ms) / 1000)
        if not task.done():
            raise self._too_late(topic, timeout_ms)
        return _answer(task)

    def _too_late(self, topic: str, timeout_ms: int | None) -> RequestTimeout:
        asked = self._name_servers.chosen
        sentence = f"the route of topic {topic!r} did not come from {asked} within {timeout_ms} ms"
        return RequestTimeout(sentence, asked, timeout_ms or 0)

    async def _try_refresh(self, topic: str) -> bool:
        try:
            await self.refresh(topic)
        except RocketMQError as error:  # a route that cannot be used concerns only its topic
            sentence = "the route of topic %s could not be refreshed: %s"
            self._outages.failed("routes", error, sentence, topic, error, of=topic)
            return not isinstance(error, NetworkError | RequestTimeout)
        return True

    async def aclose(self) -> None:
        tasks = list(self._questions.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, topic: str) -> bool:
        route = await self._name_servers.route(topic)
        # With jitter, so that many topics or clients do not send their requests at the same moment.
        age_s = (_AGE_OF_NONE_S if route is None else _AGE_S) * random.uniform(0.8, 1.2)
        self._read[topic] = route is not None, asyncio.get_running_loop().time() + age_s
        if route is None:
            return False
        self._default_routed.discard(topic)
        self._take(topic, route)
        return True

    def _take(self, topic: str, route: TopicRouteData) -> None:
        if self.table.update(topic, route):
            log.info("route of topic %s: %s", topic, self.table.brokers())
        for about, awaited in list(self.awaited.items()):
            if awaited.find():
                self._let_continue(about, awaited)

    def _question_ended(self, about: Hashable, task: asyncio.Task[bool]) -> None:
        self._questions.pop(about, None)
        if not task.cancelled():
            task.exception()  # callers have seen it; a task without a waiting caller must not log "exception was never retrieved"

    async def _ask_or_default(self, topic: str, default_topic: str, queue_nums: int) -> bool:
        """For a topic that does not exist yet: the queues of a broker in the default topic's route, which creates topics."""
        if await self._ask(topic):
            return True
        default = await self._name_servers.route(default_topic)
        if default is None and self._name_servers.behind_proxy:
            # TopicRouteService: the cache of routes is refreshed after topicRouteServiceCacheRefreshSeconds.
            why = (
                "the proxy knows none; create it, in the console of a managed service; a proxy may take 20 s to see it"
            )
            raise TopicNotExist(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic!r} has no route: {why}", self._name_servers.chosen
            )
        if default is None:
            raise await self._no_route(topic, f"no broker creates topics by itself (no route for {default_topic})")
        self._default_routed.add(topic)
        self._take(topic, route_for_new_topic(default, queue_nums))
        return True

    async def _no_route(self, topic: str, why: str) -> TopicNotExist:
        asked = self._name_servers.chosen
        sentence = (
            f"topic {topic!r} has no route: {why}; create the topic, or start a broker with autoCreateTopicEnable=true"
        )
        try:
            if not (await self._name_servers.cluster_info()).broker_addr_table:
                why = f"no broker is registered at name server {asked}; start one, or correct namesrv_addr"
                sentence = f"topic {topic!r} has no route: {why}"
        except RocketMQError as error:
            log.debug("name server %s does not tell its brokers: %s", asked, error)
        return TopicNotExist(ResponseCode.TOPIC_NOT_EXIST, sentence, asked)


async def _for_each(topics: Iterable[str], ask: Callable[[str], Awaitable[bool]]) -> None:
    """Call ``ask`` for each topic: for the first one alone, because no name server may answer, then for several at a time. When
    it returns False or raises, no others are begun; the first exception is raised when all that began have ended."""
    left = iter(sorted(set(topics)))

    async def ask_left(at_most: int | None) -> None:
        goes_on = False
        try:
            for topic in islice(left, at_most):
                goes_on = await ask(topic)
                if not goes_on:
                    break
        except BaseException:
            goes_on = False
            raise
        finally:
            if not goes_on:
                for _ in left:
                    pass

    await ask_left(1)
    await all_ended(ask_left(None) for _ in range(_ASKED_AT_ONCE))


def _answer(question: asyncio.Task[bool]) -> bool:
    if question.cancelled():
        raise ClosedError("the client was shut down")
    if (failure := question.exception()) is not None:
        raise failure.with_traceback(None)  # the frames of the question are those of another task
    return question.result()

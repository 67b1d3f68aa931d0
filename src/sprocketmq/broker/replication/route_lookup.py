# SPDX-License-Identifier: Apache-2.0
"""All queues of a topic, requested from the name servers for clients that let the broker assign (Java: TopicRouteInfoManager). A route is
cached for 30 s, as Java polls it; this broker's own queues are always up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.core.produce.route_table import PERM_READ
from sprocketmq.core.resource_names import MAX_QUEUES
from sprocketmq.errors import RocketMQError
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import TopicRouteData
from sprocketmq.wire.headers import GetRouteInfoRequestHeader
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


_REMEMBERED_MS: Final = 30_000  # loadBalancePollNameServerInterval
_TIMEOUT_MS: Final = 3_000
_MOST_ROUTES: Final = 10_000
MAX_QUEUES_OF_A_TOPIC: Final = MAX_QUEUES
"""Queues of a topic on other brokers together."""
MAX_QUEUES_REMEMBERED: Final = 200_000
"""Cached queues of all topics."""


class RouteLookup:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._broker_name = broker, broker.config.broker_name
        self._elsewhere: dict[str, tuple[int, list[MessageQueue]]] = {}
        self._remembered = 0  # queues

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """All readable queues; None if no broker is known to have the topic."""
        own = self._broker.topics.get(topic)
        found = [] if own is None else _readable(topic, self._broker_name, own.read_queue_nums, own.perm)
        found += await self._of_others(topic)
        return found or (None if own is None else [])

    async def _of_others(self, topic: str) -> list[MessageQueue]:
        now_ms = self._broker.clock.steady_ms()
        known = self._elsewhere.get(topic)
        if known is not None and now_ms - known[0] < _REMEMBERED_MS:
            return known[1]
        route = await self._ask(topic)
        if route is None:
            return [] if known is None else known[1]  # no name server answered: use the last known route
        queues: list[MessageQueue] = []
        for data in route.queue_datas:
            if data.broker_name != self._broker_name:
                room = MAX_QUEUES_OF_A_TOPIC - len(queues)
                if data.read_queue_nums > room:  # an Apache name server accepts any number
                    sentence = "topic %s has more than %s queues, others are left out"
                    self._broker.troubles.failed("queues", sentence, topic, MAX_QUEUES_OF_A_TOPIC, of=topic)
                queues += _readable(topic, data.broker_name, min(data.read_queue_nums, room), data.perm)
        replaced = self._elsewhere.pop(topic, None)
        self._remembered += len(queues) - (0 if replaced is None else len(replaced[1]))
        # Names come from the network.
        if len(self._elsewhere) >= _MOST_ROUTES or self._remembered > MAX_QUEUES_REMEMBERED:
            self._elsewhere.clear()
            self._remembered = len(queues)
        self._elsewhere[topic] = (now_ms, queues)
        return queues

    async def _ask(self, topic: str) -> TopicRouteData | None:
        pool = self._broker.pool
        for address in self._broker.name_servers if pool is not None else ():
            assert pool is not None
            try:
                header = GetRouteInfoRequestHeader(topic=topic)
                answer = await pool.invoke(
                    address, requests.name_servers.GET_ROUTEINFO_BY_TOPIC.command(header), _TIMEOUT_MS
                )
                return TopicRouteData() if answer.code else TopicRouteData.decode(answer.body)
            except RocketMQError:
                continue
        return None


def _readable(topic: str, broker_name: str, queues: int, perm: int) -> list[MessageQueue]:
    return [MessageQueue(topic, broker_name, queue_id) for queue_id in range(queues)] if perm & PERM_READ else []

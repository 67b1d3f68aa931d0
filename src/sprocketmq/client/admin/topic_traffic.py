# SPDX-License-Identifier: Apache-2.0
"""Summaries of topics, the groups that consume a topic, and its traffic (mqadmin: statsAll)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from sprocketmq.client.admin.session import NO_DATA, AdminRequests
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.queue_offsets import topic_stats
from sprocketmq.core.produce.route_table import find_broker
from sprocketmq.core.resource_names import is_system_topic
from sprocketmq.errors import RemoteError
from sprocketmq.wire import bodies, headers, requests

_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A summary of one topic, over all brokers.

    Attributes:
        perm: 6 read and write, 4 read only, 2 write only, 0 neither; the permission that all brokers grant.
        last_message_ms: the store time of the newest message in milliseconds since 1970; None if there is none.
    """

    topic: str
    brokers: tuple[str, ...]
    read_queues: int
    write_queues: int
    perm: int
    messages: int
    last_message_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """The traffic of a topic, for one group that consumes it.

    Attributes:
        group: None if no group consumes the topic.
        accumulation: the number of messages that the group has not consumed; None if a broker does not tell.
        in_tps, out_tps: messages per second sent to the topic, and pulled by the group, in the last minute.
        in_24_hours, out_24_hours: the numbers of messages in the longest window that the brokers have, at most a day.
    """

    topic: str
    group: str | None
    accumulation: int | None
    in_tps: float
    out_tps: float
    in_24_hours: int
    out_24_hours: int


class TopicTrafficRequests(AdminRequests):
    """The part of AsyncAdmin about the traffic of topics."""

    async def topic_summaries(
        self, *, cluster: str | None = None, with_system_topics: bool = False
    ) -> list[TopicSummary]:
        """A summary of each topic that has queues, sorted by name (mqadmin: topicList, topicStatus). ``cluster``: default: all
        topics that the name server knows. ``with_system_topics``: also system topics, retry topics and dead letter topics."""
        names: Collection[str] = await self._admin.topics(cluster=cluster)
        if not with_system_topics:
            known = set(await self._admin.system_topics())
            names = {name for name in names if not is_system_topic(name, known)}
        turn = asyncio.Semaphore(_AT_ONCE)

        async def summary_of(topic: str) -> TopicSummary | None:
            async with turn:
                return await self._summary(topic)

        found = await all_ended(map(summary_of, sorted(names)))
        return [summary for summary in found if summary is not None]

    async def _summary(self, topic: str) -> TopicSummary | None:
        """None if it has no queues, such as a topic named after a cluster, or was deleted."""
        route = await self._cluster.name_servers.route(topic)
        if route is None or not route.queue_datas:
            return None
        offsets: list[bodies.TopicOffset] = []
        for data in route.queue_datas:
            broker = find_broker(route, data.broker_name)
            if broker is None or broker.is_slave:
                continue
            try:
                offsets += (await topic_stats(self._cluster, broker.address, topic)).offset_table.values()
            except RemoteError as error:
                if error.code not in NO_DATA:
                    raise
        perm = 7
        for data in route.queue_datas:
            perm &= data.perm
        return TopicSummary(
            topic,
            tuple(sorted(data.broker_name for data in route.queue_datas)),
            sum(data.read_queue_nums for data in route.queue_datas),
            sum(data.write_queue_nums for data in route.queue_datas),
            perm,
            sum(one.max_offset - one.min_offset for one in offsets),
            max((one.last_update_timestamp for one in offsets), default=0) or None,
        )

    async def consumers_of(self, topic: str) -> list[str]:
        """The groups that have progress in ``topic`` or subscribe to it, sorted."""
        header = headers.QueryTopicConsumeByWhoRequestHeader(topic=topic)
        groups: set[str] = set()
        for address in (await self._masters_of(topic)).values():
            answer = await self._cluster.ask_body(requests.topics.QUERY_TOPIC_CONSUME_BY_WHO, header, at=address)
            groups.update(answer.group_list)
        return sorted(groups)

    async def topic_traffic(self, topic: str) -> list[TopicTraffic]:
        """The traffic of ``topic``: a row for each group that consumes it, or one row without a group (mqadmin: statsAll)."""
        masters = (await self._masters_of(topic)).values()
        incoming = await self._sum(masters, "TOPIC_PUT_NUMS", topic)
        rows: list[TopicTraffic] = []
        behind: int | None
        for group in await self.consumers_of(topic):
            outgoing = await self._sum(masters, "GROUP_GET_NUMS", f"{topic}@{group}")
            try:
                behind = await self._admin.lag(group, topic)
            except RemoteError:
                behind = None
            rows.append(TopicTraffic(topic, group, behind, incoming[0], outgoing[0], incoming[1], outgoing[1]))
        return rows or [TopicTraffic(topic, None, 0, incoming[0], 0.0, incoming[1], 0)]

    async def _sum(self, addresses: Iterable[str], name: str, key: str) -> tuple[float, int]:
        """Messages per second and in total; a broker without a count counts as 0."""
        tps, count = 0.0, 0
        header = headers.ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        for address in addresses:
            answer = await self._ask_if_any(requests.brokers.VIEW_BROKER_STATS_DATA, header, at=address)
            if answer is not None:
                data = await answer_body(requests.brokers.VIEW_BROKER_STATS_DATA, answer)
                tps += data.stats_minute.tps
                count += data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum
        return tps, count

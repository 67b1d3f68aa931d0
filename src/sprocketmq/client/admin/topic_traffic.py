"""Which groups read a topic, and how much goes through it, by an administrator (mqadmin: statsAll)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sprocketmq.client.admin.session import AdminSession
from sprocketmq.wire import headers, requests

__all__ = ["TopicTraffic", "TopicTrafficRequests"]


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """What goes through a topic, for one group that reads it.

    Attributes:
        group: None for a topic that no group reads.
        accumulation: messages that the group has not consumed.
        in_tps, out_tps: messages sent to the topic, and pulled by the group, per second in the last minute.
        in_24_hours, out_24_hours: the same in sum over the longest window that the brokers have, a day at most.
    """

    topic: str
    group: str | None
    accumulation: int
    in_tps: float
    out_tps: float
    in_24_hours: int
    out_24_hours: int


class TopicTrafficRequests(AdminSession):
    """The part of AsyncAdmin about the traffic of topics."""

    async def consumers_of(self, topic: str) -> list[str]:
        """The groups that have progress in ``topic`` or subscribe to it, sorted.

        Args:
            topic: its name.

        Returns:
            Their names.

        Raises:
            TopicNotExist: there is no such topic.
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        header = headers.QueryTopicConsumeByWhoRequestHeader(topic=topic)
        groups: set[str] = set()
        for address in (await self._masters_of(topic)).values():
            answer = await self._ask_body(address, requests.topics.QUERY_TOPIC_CONSUME_BY_WHO, header)
            groups.update(answer.group_list)
        return sorted(groups)

    async def topic_traffic(self, topic: str) -> list[TopicTraffic]:
        """What goes in and out, one row per group that reads ``topic``, or one without a group (mqadmin: statsAll).

        Args:
            topic: its name.

        Returns:
            A row for each group.

        Raises:
            ConfigurationError: an argument is wrong; nothing was asked.
            RemoteError: a server refused; code 3: it is too old for this request.
            NetworkError, RequestTimeout: a server did not answer.
        """
        masters = (await self._masters_of(topic)).values()
        incoming = await self._sum(masters, "TOPIC_PUT_NUMS", topic)
        rows: list[TopicTraffic] = []
        for group in await self.consumers_of(topic):
            outgoing = await self._sum(masters, "GROUP_GET_NUMS", f"{topic}@{group}")
            behind = 0
            for address in masters:
                header = headers.GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
                answer = await self._ask_if_any(address, requests.offsets.GET_CONSUME_STATS, header)
                if answer is not None:
                    offsets = requests.offsets.GET_CONSUME_STATS.answer_body_in(answer).offset_table.values()
                    behind += sum(max(0, one.broker_offset - max(0, one.consumer_offset)) for one in offsets)
            rows.append(TopicTraffic(topic, group, behind, incoming[0], outgoing[0], incoming[1], outgoing[1]))
        return rows or [TopicTraffic(topic, None, 0, incoming[0], 0.0, incoming[1], 0)]

    async def _sum(self, addresses: Iterable[str], name: str, key: str) -> tuple[float, int]:
        """Messages per second, and in all, over these brokers; one that has not counted any yet counts as 0."""
        tps, count = 0.0, 0
        header = headers.ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        for address in addresses:
            answer = await self._ask_if_any(address, requests.brokers.VIEW_BROKER_STATS_DATA, header)
            if answer is not None:
                data = requests.brokers.VIEW_BROKER_STATS_DATA.answer_body_in(answer)
                tps += data.stats_minute.tps
                count += data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum
        return tps, count

"""What admin tools ask about topics and groups: codes 202, 208, 315, 317 (Java: TopicStatsTable, ConsumeStats, ...)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.message import MessageQueue

__all__ = [
    "BrokerStatsData",
    "BrokerStatsItem",
    "ConsumeStats",
    "ConsumeStatsList",
    "OffsetWrapper",
    "TopicOffset",
    "TopicStatsTable",
]


class TopicOffset(Body):
    """The range of one queue. ``last_update_timestamp``: store time of its newest message, ms, 0 when empty."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(Body):
    """Answer to code 202."""

    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float = 0.0


class OffsetWrapper(Body):
    """Progress of a group in one queue. ``last_timestamp``: store time of the message last consumed, ms."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body):
    """Answer to code 208."""

    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """Answer to code 317: for each group, the stats of each of its topics."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int = 0


class BrokerStatsItem(Body):
    """One window of a counter: its sum, its sum per second, and its average per call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """Answer to code 315."""

    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)

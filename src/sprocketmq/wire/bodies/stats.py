"""What admin tools ask about topics and groups: codes 202, 208 (Java: TopicStatsTable, ConsumeStats)."""

from __future__ import annotations

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.message import MessageQueue

__all__ = ["ConsumeStats", "OffsetWrapper", "TopicOffset", "TopicStatsTable"]


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

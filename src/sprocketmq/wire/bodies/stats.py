"""What admin tools ask about topics and groups: codes 202, 208, 303, 315, 317, 321 (Java: TopicStatsTable, ConsumeStats, ...), and how many
timer messages wait (``config/timermetrics``, GET_TIMER_METRICS; Java: TimerMetrics)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.heartbeat import SubscriptionData
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.records.message import MessageQueue

__all__ = [
    "BrokerStatsData",
    "BrokerStatsItem",
    "ConsumeQueueData",
    "ConsumeStats",
    "ConsumeStatsList",
    "OffsetWrapper",
    "QueryConsumeQueueResponseBody",
    "QueryConsumeTimeSpanBody",
    "QueueTimeSpan",
    "TimerMetric",
    "TimerMetricsSerializeWrapper",
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


class QueueTimeSpan(Body):
    """Store times of one queue in ms, -1 where there is no message: oldest, newest, and the one that the group consumed last.

    ``delay_time``: for how long the next message has been waiting for the group, ms, 0 when it has consumed all. The ``_str`` twins
    are the same times as text in the broker's zone.
    """

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str = ""
    max_time_stamp_str: str = ""
    consume_time_stamp_str: str = ""


class QueryConsumeTimeSpanBody(Body):
    """Answer to code 303."""

    consume_time_span_set: list[QueueTimeSpan] = []


class ConsumeQueueData(Body):
    """One entry of a consume queue. ``eval``: whether a SQL92 filter passes its bit map (there is none here)."""

    physic_offset: int
    physic_size: int
    tags_code: int
    eval: bool = False
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body):
    """Answer to code 321."""

    max_queue_index: int
    min_queue_index: int
    queue_data: list[ConsumeQueueData] = []
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class TimerMetric(Body):
    """Timer messages that wait for one topic; ``time_stamp`` (ms) of the last change."""

    count: int = 0
    time_stamp: int = 0


class TimerMetricsSerializeWrapper(Body):
    """All topics of a broker."""

    timing_count: dict[str, TimerMetric] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)

# SPDX-License-Identifier: Apache-2.0
"""Statistics of topics and groups for administrators: codes 202, 208, 303, 315, 317, 321 (Java: TopicStatsTable, ConsumeStats, ...), and
the number of waiting timer messages (``config/timermetrics``, GET_TIMER_METRICS; Java: TimerMetrics)."""

from __future__ import annotations

import msgspec

from sprocketmq.wire.bodies.body import Body
from sprocketmq.wire.bodies.heartbeat import SubscriptionData
from sprocketmq.wire.bodies.topic_config import DataVersion
from sprocketmq.wire.records.message import MessageQueue


class TopicOffset(Body):
    """The range of one queue. ``last_update_timestamp``: store time of its newest message in ms, 0 if it is empty."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(Body):
    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float = 0.0


class OffsetWrapper(Body):
    """Progress of a group in one queue. ``last_timestamp``: store time of the last consumed message, in ms."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body):
    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
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
    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class QueueTimeSpan(Body):
    """Store times of one queue in ms, -1 without a message: of the oldest message, the newest, and the last one that the group consumed.
    ``delay_time``: how long the next message has been waiting for the group; 0 if it has consumed all. ``_str``: the same as text in the
    broker's time zone."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str = ""
    max_time_stamp_str: str = ""
    consume_time_stamp_str: str = ""


class QueryConsumeTimeSpanBody(Body):
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
    """Body of the answer to QUERY_CONSUME_QUEUE (321): entries of a consume queue."""

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
    timing_count: dict[str, TimerMetric] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)

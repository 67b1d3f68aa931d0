"""How far things are: GET_TOPIC_STATS_INFO 202, GET_CONSUME_STATS 208, QUERY_CONSUME_TIME_SPAN 303, VIEW_BROKER_STATS_DATA 315,
GET_BROKER_CONSUME_STATS 317. Java: AdminBrokerProcessor.

A group has stats for the topics that it has offsets for; while it is online, not for those that it no longer subscribes to. 317 counts what
is in flight from the pull offset, where Java leaves that at 0 and so counts below zero.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from sprocketmq.net.connection import Connection
from sprocketmq.wire.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from sprocketmq.wire.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]


def topic_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    topic = command.header(GetTopicStatsInfoRequestHeader).topic
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    store, table = broker.store, {}
    for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
        first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        newest = store.store_time(topic, queue_id, end - 1) if end > first else 0
        queue = MessageQueue(topic, broker.config.broker_name, queue_id)
        table[queue] = TopicOffset(min_offset=first, max_offset=end, last_update_timestamp=max(0, newest))
    body = TopicStatsTable(offset_table=table, topic_put_tps=broker.statistics.put_per_second(topic))
    return response(command, body=body.encode())


def consume_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    """Broker and consumer offset of each queue: what ``lag`` is computed from."""
    header = command.header(GetConsumeStatsRequestHeader)
    group = header.consumer_group
    named = [topic for topic in (header.topic_list or "").split(";") if topic]
    if named:
        topics = named
    elif (header.topic or "").strip():
        topics = [topic for topic in (header.topic or "",) if _is_of_interest(broker, group, topic)]
    else:
        topics = [topic for topic in broker.offsets.topics_of(group) if _is_of_interest(broker, group, topic)]
    stats = ConsumeStats()
    for topic in dict.fromkeys(topics):
        _add_stats(broker, stats, group, topic)
    return response(command, body=stats.encode())


def _is_of_interest(broker: Broker, group: str, topic: str) -> bool:
    """Nobody of the group is online, or they subscribe to the topic."""
    consumer = broker.consumers.get(group)
    return consumer is None or not consumer.subscriptions or topic in consumer.subscriptions


def _add_stats(broker: Broker, stats: ConsumeStats, group: str, topic: str) -> None:
    config = broker.topics.get(topic)
    if config is None:
        return
    for queue_id in range(config.read_queue_nums):
        queue = MessageQueue(topic, broker.config.broker_name, queue_id)
        stats.offset_table[queue] = _offsets(broker, group, topic, queue_id)
    stats.consume_tps += broker.statistics.get_per_second(topic, group)


def _offsets(broker: Broker, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    end = broker.store.max_offset(topic, queue_id)
    consumed = max(0, broker.offsets.query(group, topic, queue_id))
    last = broker.store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else 0
    return OffsetWrapper(
        broker_offset=end,
        consumer_offset=consumed,
        pull_offset=max(consumed, broker.offsets.pull_offset(group, topic, queue_id)),
        last_timestamp=max(0, last),
    )


def consume_time_span(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    """Store times of the oldest, the newest and the last consumed message of each queue, and how long the next one has been waiting."""
    header = command.header(QueryConsumeTimeSpanRequestHeader)
    topic, store = header.topic, broker.store
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    spans = []
    for queue_id in range(config.write_queue_nums):
        end = store.max_offset(topic, queue_id)
        oldest, newest = store.earliest_store_time(topic, queue_id), store.store_time(topic, queue_id, end - 1)
        consumed = broker.offsets.query(header.group, topic, queue_id)
        last = store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else oldest
        next_ms = store.store_time(topic, queue_id, max(consumed, store.min_offset(topic, queue_id)))
        spans.append(
            QueueTimeSpan(
                message_queue=MessageQueue(topic, broker.config.broker_name, queue_id),
                min_time_stamp=oldest,
                max_time_stamp=newest,
                consume_time_stamp=last,
                delay_time=now_ms - next_ms if next_ms >= 0 else 0,
                min_time_stamp_str=_text(oldest),
                max_time_stamp_str=_text(newest),
                consume_time_stamp_str=_text(last),
            )
        )
    return response(command, body=QueryConsumeTimeSpanBody(consume_time_span_set=spans).encode())


def _text(time_ms: int) -> str:
    """As UtilAll.formatDate(yyyy-MM-dd#HH:mm:ss:SSS), in the broker's zone."""
    seconds, milliseconds = divmod(time_ms, 1000)
    local = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).astimezone()
    return f"{local:%Y-%m-%d#%H:%M:%S}:{milliseconds:03d}"


def broker_stats_data(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(ViewBrokerStatsDataRequestHeader)
    data = broker.statistics.view(header.stats_name, header.stats_key)
    if data is None:
        remark = f"there is no statistic {header.stats_name} of {header.stats_key}, or nothing was counted for it yet"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    return response(command, body=data.encode())


def broker_consume_stats(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    """All groups, those that never consumed with an empty list."""
    ordered_only = command.header(GetConsumeStatsInBrokerHeader).is_order
    body = ConsumeStatsList(broker_addr=broker.address)
    for group in list(broker.groups.table):
        of_group = []
        for topic in broker.offsets.topics_of(group):
            config = broker.topics.get(topic)
            if config is None or (ordered_only and not config.order) or not _is_of_interest(broker, group, topic):
                continue
            stats = ConsumeStats()
            _add_stats(broker, stats, group, topic)
            of_group.append(stats)
            for offsets in stats.offset_table.values():
                body.total_diff += offsets.broker_offset - offsets.consumer_offset
                body.total_inflight_diff += offsets.pull_offset - offsets.consumer_offset
        body.consume_stats_list.append({group: of_group})
    return response(command, body=body.encode())


HANDLERS = {
    RequestCode.GET_TOPIC_STATS_INFO: topic_stats,
    RequestCode.GET_CONSUME_STATS: consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: consume_time_span,
    RequestCode.VIEW_BROKER_STATS_DATA: broker_stats_data,
    RequestCode.GET_BROKER_CONSUME_STATS: broker_consume_stats,
}

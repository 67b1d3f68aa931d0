"""Offsets: QUERY_CONSUMER_OFFSET 14, UPDATE_CONSUMER_OFFSET 15, SEARCH_OFFSET_BY_TIMESTAMP 29, GET_MAX_OFFSET 30, GET_MIN_OFFSET 31,
GET_EARLIEST_MSG_STORETIME 32. Java: ConsumerManageProcessor, AdminBrokerProcessor.

A group without an offset is answered 22, and starts where its client decides (ConsumeFromWhere), with one exception that Java makes: while
the very first message of the queue is there and not far back in the log, it is answered 0. So a new group misses nothing of a young topic.

Gaps: ``committed`` of code 30 (there is no second, uncommitted end without replication).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import Command, response
from sprocketmq.wire.headers import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

__all__ = ["HANDLERS"]


def query_consumer_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(QueryConsumerOffsetRequestHeader)
    topic, queue_id = header.topic, header.queue_id
    offset = broker.offsets.query(header.consumer_group, topic, queue_id)
    if offset < 0 and header.set_zero_if_not_found is not False and _has_first_message(broker, topic, queue_id):
        offset = 0
    if offset < 0:
        remark = f"consumer group {header.consumer_group} has no offset for {topic} queue {queue_id} yet"
        return response(command, ResponseCode.QUERY_NOT_FOUND, remark)
    return response(command, header=QueryConsumerOffsetResponseHeader(offset=offset))


def _has_first_message(broker: Broker, topic: str, queue_id: int) -> bool:
    """Java's checkInMemByConsumeOffset: the message at offset 0 lies in the newest part of the log, 40 % of RAM, so the topic is young."""
    store = broker.store
    if store.min_offset(topic, queue_id) > 0:
        return False
    first = store.units(topic, queue_id, 0, 1)
    return bool(first) and store.max_physical_offset - first[0].physical_offset <= broker.memory_span_bytes


def update_consumer_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(UpdateConsumerOffsetRequestHeader)
    group, topic = header.consumer_group, header.topic
    if broker.groups.find(group, now_ms) is None:
        return response(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"consumer group {group} does not exist")
    if broker.topics.get(topic) is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    if header.commit_offset < 0 or header.queue_id < 0:
        remark = f"queueId is {header.queue_id} and commitOffset {header.commit_offset}, 0 or more are allowed"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    broker.offsets.commit(group, topic, header.queue_id, header.commit_offset)
    return response(command)


def search_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(SearchOffsetRequestHeader)
    upper = (header.boundary_type or "").upper() == "UPPER"
    offset = broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp, upper=upper)
    return response(command, header=SearchOffsetResponseHeader(offset=offset))


def max_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(GetMaxOffsetRequestHeader)
    offset = broker.store.max_offset(header.topic, header.queue_id)
    return response(command, header=GetMaxOffsetResponseHeader(offset=offset))


def min_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(GetMinOffsetRequestHeader)
    offset = broker.store.min_offset(header.topic, header.queue_id)
    return response(command, header=GetMinOffsetResponseHeader(offset=offset))


def earliest_store_time(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(GetEarliestMsgStoretimeRequestHeader)
    timestamp = broker.store.earliest_store_time(header.topic, header.queue_id)
    return response(command, header=GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))


HANDLERS = {
    RequestCode.QUERY_CONSUMER_OFFSET: query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_MAX_OFFSET: max_offset,
    RequestCode.GET_MIN_OFFSET: min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: earliest_store_time,
}

# SPDX-License-Identifier: Apache-2.0
"""Offsets (Java: ConsumerManageProcessor, AdminBrokerProcessor).

A group without an offset gets 22, and its client decides where to start; as in Java 0 while the queue's first message exists and is not far
back in the log, so that a new group misses nothing of a young topic. Code 15 requires a known group, topic and queue (5.x accepts any
queue), and is ignored while a reset moves the group. 314 without a topic clones each topic; 308 leaves out the groups in its filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import encode_in_chunks
from sprocketmq.broker.handlers.limits import answer_in_a_frame, too_many_named
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.observe.group_positions import has_first_message
from sprocketmq.errors import ProtocolError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import headers, requests
from sprocketmq.wire.bodies import QueryCorrectionOffsetBody
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_NO_CORRECTION: Final = 2**63 - 1  # Long.MAX_VALUE


@serves(requests.offsets.QUERY_CONSUMER_OFFSET)
def query_consumer_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.QueryConsumerOffsetRequestHeader)
    topic, queue_id = header.topic, header.queue_id
    offset = broker.offsets.query(header.consumer_group, topic, queue_id)
    if offset < 0 and header.set_zero_if_not_found is not False:  # of a member; tools ask with False
        broker.offsets.note_no_progress(header.consumer_group, topic, queue_id)
        if has_first_message(broker, topic, queue_id):
            offset = 0
    if offset < 0:
        remark = f"consumer group {header.consumer_group} has no offset for {topic} queue {queue_id} yet"
        return response(command, ResponseCode.QUERY_NOT_FOUND, remark)
    return response(command, header=headers.QueryConsumerOffsetResponseHeader(offset=offset))


@serves(requests.offsets.UPDATE_CONSUMER_OFFSET)
def update_consumer_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    try:
        header = command.header(headers.UpdateConsumerOffsetRequestHeader)
    except ProtocolError as error:
        return response(command, ResponseCode.INVALID_PARAMETER, str(error))
    group, topic = header.consumer_group, header.topic
    if group not in broker.groups:
        return unknown_group(command, group)
    config = broker.topics.get(topic)
    if config is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
    if header.commit_offset < 0 or header.queue_id < 0:
        remark = f"queueId is {header.queue_id} and commitOffset {header.commit_offset}, 0 or more are allowed"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    if broker.offsets.resets and broker.offsets.has_reset(group, topic, header.queue_id):
        return response(
            command, remark="the group is being moved in this queue, what it commits before its next pull is ignored"
        )
    if header.queue_id >= max(config.read_queue_nums, config.write_queue_nums) and not _is_there(
        broker, group, topic, header.queue_id
    ):
        remark = f"topic {topic} has no queue {header.queue_id}; commit what was pulled"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    if not broker.offsets.commit(group, topic, header.queue_id, header.commit_offset):
        limit = broker.offsets.max_offsets
        remark = f"this broker has {limit} offsets, no more are allowed; delete groups, or raise maxConsumerOffsets"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    return response(command)


def _is_there(broker: Broker, group: str, topic: str, queue_id: int) -> bool:
    """Whether the queue existed before the topic got fewer queues: its messages may still be consumed."""
    return broker.store.max_offset(topic, queue_id) > 0 or broker.offsets.query(group, topic, queue_id) >= 0


@serves(requests.offsets.SEARCH_OFFSET_BY_TIMESTAMP)
def search_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.SearchOffsetRequestHeader)
    upper = (header.boundary_type or "").upper() == "UPPER"
    offset = broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp, upper=upper)
    return response(command, header=headers.SearchOffsetResponseHeader(offset=offset))


@serves(requests.offsets.GET_MAX_OFFSET)
def max_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetMaxOffsetRequestHeader)
    offset = broker.store.max_offset(header.topic, header.queue_id)
    return response(command, header=headers.GetMaxOffsetResponseHeader(offset=offset))


@serves(requests.offsets.GET_MIN_OFFSET)
def min_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetMinOffsetRequestHeader)
    offset = broker.store.min_offset(header.topic, header.queue_id)
    return response(command, header=headers.GetMinOffsetResponseHeader(offset=offset))


@serves(requests.offsets.GET_EARLIEST_MSG_STORETIME)
def earliest_store_time(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetEarliestMsgStoretimeRequestHeader)
    timestamp = broker.store.earliest_store_time(header.topic, header.queue_id)
    return response(command, header=headers.GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))


@serves(requests.offsets.GET_ALL_CONSUMER_OFFSET)
def all_consumer_offsets(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    async def answer() -> Command:
        body = await encode_in_chunks(broker.offsets.long_snapshot())
        return answer_in_a_frame(command, None, body, "ask for one group at a time")

    return broker.answer_in_chunks(connection, command, answer())


@serves(requests.offsets.GET_ALL_DELAY_OFFSET)
def delay_offsets(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=broker.schedule.snapshot().encode())


@serves(requests.offsets.QUERY_CORRECTION_OFFSET)
def correction_offsets(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command:
    """The lowest offset of a group in each queue, or "no correction" if the compared group is before that."""
    header = command.header(headers.QueryCorrectionOffsetHeader)
    topic, store = header.topic, broker.store
    without = list(filter(None, (header.filter_groups or "").split(",")))
    problem = too_many_named(broker, "groups", len(without))
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    lowest = broker.offsets.lowest(topic, without, lambda queue_id: store.min_offset(topic, queue_id))
    for queue_id, offset in broker.offsets.offsets_of(header.compare_group, topic).items():
        if lowest.get(queue_id, offset) > offset:
            lowest[queue_id] = _NO_CORRECTION
    return response(command, body=QueryCorrectionOffsetBody(correction_offsets=lowest).encode())


@serves(requests.offsets.CLONE_GROUP_OFFSET)
def clone_group_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(headers.CloneGroupOffsetRequestHeader)
    source, topic = header.src_group, header.topic or ""
    online = broker.consumers.get(source)
    for name in [topic] if topic.strip() else broker.offsets.topics_of(source):
        if broker.topics.get(name) is None:
            continue
        if not header.offline and online is not None and name not in online.subscriptions:
            continue  # an offset from before the group's members changed their subscription
        broker.offsets.clone(source, header.dest_group, name)
    broker.answer_when_saved(connection, command, response(command), offsets=True)
    return None

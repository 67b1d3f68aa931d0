# SPDX-License-Identifier: Apache-2.0
"""Resets of a group by an administrator, and the answer to its next pull (Java: resetOffset of AdminBrokerProcessor and Broker2Client).

useServerSideResetOffset (default, as 5.x)     the broker moves the group itself, with or without members; isForce is ignored:
                                               pull, also one that waits --> 21 PULL_OFFSET_MOVED with the offset; commits before
                                               that pull are ignored
useServerSideResetOffset=false (as 4.9)        each write queue must have an offset already; they are pushed to each member (220,
                                               one-way), which move by themselves; none connected: 206, nothing is moved.
                                               isForce=false moves no queue forward. The body is a list when a C++ client asked
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import MessageQueueForC, ResetOffsetBody, TopicConfig
from sprocketmq.wire.codes import ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import PullMessageResponseHeader, ResetOffsetRequestHeader
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.text import fastjson

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_QUEUES_PER_STEP: Final = 100  # some 30 us each


@serves(requests.offsets.INVOKE_BROKER_TO_RESET_OFFSET)
def reset_offset(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(ResetOffsetRequestHeader)
    topic = broker.topics.get(header.topic)
    if topic is None:
        return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {header.topic} does not exist")
    if broker.config.use_server_side_reset_offset:
        refusal = _refusal(broker, command, header, topic)
        if refusal is not None:
            return refusal
        broker.answer_later(connection, command, _move_here(broker, connection, command, header, topic))
    else:
        broker.answer_later(connection, command, _notify_members(broker, command, header, topic))
    return None


def answer_of_reset(broker: Broker, command: Command, group: str, topic: str, queue_id: int) -> Command | None:
    """The answer to a pull of a queue in which the group was moved; None if it was not. The pull's own commit does not count."""
    offset = broker.offsets.take_reset(group, topic, queue_id)
    if offset is None:
        return None
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0,
        next_begin_offset=offset,
        min_offset=broker.store.min_offset(topic, queue_id),
        max_offset=broker.store.max_offset(topic, queue_id),
        topic_sys_flag=broker.topics.table[topic].topic_sys_flag,
        group_sys_flag=broker.groups.table[group].group_sys_flag,
    )
    broker.offsets.note_pull(group, topic, queue_id, offset, offset)
    return response(command, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", header)


def _refusal(broker: Broker, command: Command, header: ResetOffsetRequestHeader, topic: TopicConfig) -> Command | None:
    name, group, store = header.topic, header.group, broker.store
    if group not in broker.groups:
        return unknown_group(command, group)
    if header.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums):
        limit = max(topic.read_queue_nums, topic.write_queue_nums) - 1
        remark = f"queueId is {header.queue_id}, 0 to {limit} are allowed for topic {name}, or -1 for all"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    exact = _exact_offset(header)
    if exact is not None:
        low, high = store.min_offset(name, header.queue_id), store.max_offset(name, header.queue_id)
        if not low <= exact <= high + 1:
            remark = f"offset is {exact}, {low} to {high + 1} are allowed for {name} queue {header.queue_id}"
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
    elif header.queue_id < 0 and not topic.read_queue_nums:
        return response(command, ResponseCode.SYSTEM_ERROR, f"topic {name} has no queue to read, nothing was moved")
    return None


def _exact_offset(header: ResetOffsetRequestHeader) -> int | None:
    return header.offset if header.queue_id >= 0 and header.offset != -1 else None


async def _move_here(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: ResetOffsetRequestHeader,
    topic: TopicConfig,
) -> None:
    """Move the queues of a topic, in steps, because there may be 65,536."""
    name, exact, rows = header.topic, _exact_offset(header), []
    queue_ids = range(topic.read_queue_nums) if header.queue_id < 0 else (header.queue_id,)
    async with broker.making_long_answer:
        async for share in in_chunks(queue_ids, _QUEUES_PER_STEP):
            table = {}
            for queue_id in share:
                offset = _offset_at(broker, name, queue_id, header.timestamp) if exact is None else exact
                broker.offsets.reset(header.group, name, queue_id, offset)
                broker.parked.offset_reset(header.group, name, queue_id)
                table[_queue(broker, name, queue_id)] = offset
            rows.append(fastjson.dumps(table)[1:-1])
    answer = response(command, body=_with_rows(rows))
    broker.answer_when_saved(connection, command, answer, offsets=True)


def _with_rows(rows: list[bytes]) -> bytes:
    return ResetOffsetBody().encode().replace(b"{}", b"{%b}" % b",".join(rows), 1)


async def _notify_members(
    broker: Broker, command: Command, header: ResetOffsetRequestHeader, topic: TopicConfig
) -> Command:
    name, group = header.topic, header.group
    rows, listed = [], []
    async with broker.making_long_answer:
        async for share in in_chunks(range(topic.write_queue_nums), _QUEUES_PER_STEP):
            table: dict[MessageQueue, int] = {}
            for queue_id in share:
                consumed = broker.offsets.query(group, name, queue_id)
                if consumed < 0:
                    remark = f"consumer group {group} has no offset for {name} queue {queue_id}, so it cannot be moved"
                    return response(command, ResponseCode.SYSTEM_ERROR, remark)
                # Only -1 means the end: a time before 1970 is before all messages and must not skip them.
                offset = _offset_at(broker, name, queue_id, -1 if header.timestamp == -1 else max(0, header.timestamp))
                table[_queue(broker, name, queue_id)] = offset if header.is_force else min(offset, consumed)
            rows.append(fastjson.dumps(table)[1:-1])
            if command.language == "CPP":
                of_cpp = [MessageQueueForC(q.topic, q.broker_name, q.queue_id, offset) for q, offset in table.items()]
                listed.append(fastjson.dumps(of_cpp)[1:-1])
    members = broker.consumers.get(group)
    if members is None:
        remark = f"consumer group {group} is not online, so it cannot be told its new offsets; start a member first"
        return response(command, ResponseCode.CONSUMER_NOT_ONLINE, remark)
    for member in members.members.values():
        if member.version < Version.V3_0_7_SNAPSHOT:
            remark = f"{member.client_id} is of version {member.version}, which cannot be told; upgrade it"
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
    body = _with_rows(rows)
    pushed = b'{"offsetTable":[%b]}' % b",".join(listed) if command.language == "CPP" else body
    notice = ResetOffsetRequestHeader(topic=name, group=group, timestamp=header.timestamp, is_force=header.is_force)
    not_reading = [
        member.client_id
        for connection, member in members.members.items()
        if not connection.push(requests.offsets.RESET_CONSUMER_CLIENT_OFFSET.command(notice, pushed, oneway=True))
    ]
    if not_reading:
        remark = f"{', '.join(not_reading)} does not read what it is sent and was not told, the other members were; try again later"
        return response(command, ResponseCode.SYSTEM_BUSY, remark)
    return response(command, body=body)


def _offset_at(broker: Broker, topic: str, queue_id: int, timestamp_ms: int) -> int:
    if timestamp_ms < 0:
        return broker.store.max_offset(topic, queue_id)
    return broker.store.offset_by_time(topic, queue_id, timestamp_ms)


def _queue(broker: Broker, topic: str, queue_id: int) -> MessageQueue:
    return MessageQueue(topic, broker.config.broker_name, queue_id)

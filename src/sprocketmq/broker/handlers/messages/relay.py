# SPDX-License-Identifier: Apache-2.0
"""Requests of tools that are passed to members of a group (Java: AdminBrokerProcessor.callConsumer, Broker2Client).

307 and 309 go to the member in clientId, 309 with the record of msgId as its body; within 10 s, else 207. 223 asks all members for their
offsets, 5 s each, and returns those that answered. Their answers in fastjson's dialect take microseconds per byte to read, so they are read
queue by queue into the text of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.handlers.limits import answer_in_a_frame
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.tables.consumers import Member
from sprocketmq.core.resource_names import MAX_QUEUES
from sprocketmq.errors import ConfigurationError, NetworkError, ProtocolError, RequestTimeout
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode, Version
from sprocketmq.wire.frames.command import FLAG_RESPONSE, Command, request, response
from sprocketmq.wire.frames.frame import MAX_FRAME_BYTES
from sprocketmq.wire.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.text import fastjson

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_HEAD: Final = b'{"consumerTable":{'
_TAIL: Final = b'},"messageQueueTable":{}}'

_CALL_TIMEOUT_MS: Final = 10_000
_STATUS_TIMEOUT_MS: Final = 5_000
_QUEUES_A_STEP: Final = 50  # 25 us each in Java's form, some 300 us in the most expensive form
_MOST_CHARS_A_QUEUE: Final = 2_048
_MOST_STATUS_BYTES: Final = MAX_FRAME_BYTES


@serves(requests.consumers.GET_CONSUMER_RUNNING_INFO)
def running_info(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(GetConsumerRunningInfoRequestHeader)
    return _call(broker, connection, command, header.consumer_group, header.client_id, command.ext_fields, b"")


@serves(requests.consumers.CONSUME_MESSAGE_DIRECTLY)
def consume_directly(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(ConsumeMessageDirectlyResultRequestHeader)
    group, message_id = header.consumer_group, header.msg_id or ""
    try:
        record = broker.store.record_at(decode_offset_message_id(message_id)[1])
    except ConfigurationError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    if record is None:
        return response(command, ResponseCode.SYSTEM_ERROR, f"no message has the id {message_id}, or it expired")
    ext = {**command.ext_fields, "brokerName": broker.config.broker_name}
    # Look the group up without creating it: a member's group exists, and other requests must not create groups (as Apache's do).
    topic, config = broker.topics.get(header.topic or ""), broker.groups.table.get(group)
    if topic is not None:
        ext["topicSysFlag"] = str(topic.topic_sys_flag)
    if config is not None:
        ext["groupSysFlag"] = str(config.group_sys_flag)
    return _call(broker, connection, command, group, header.client_id or "", ext, bytes(record))


def _call(
    broker: Broker,
    connection: Connection,
    command: Command,
    group: str,
    client_id: str,
    ext: dict[str, str],
    body: bytes,
) -> Command | None:
    members = broker.consumers.get(group)
    found = [] if members is None else [m for m in members.members.values() if m.client_id == client_id]
    if not found:
        return response(
            command, ResponseCode.SYSTEM_ERROR, f"no member {client_id} of consumer group {group} is online"
        )
    member = found[-1]
    if member.version < Version.V3_1_8_SNAPSHOT:
        remark = f"{client_id} is of version {member.version}, which cannot answer this; upgrade it"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    if member.connection.is_congested:
        remark = f"{client_id} does not read what it is sent, so it is not asked; try again later"
        return response(command, ResponseCode.SYSTEM_BUSY, remark)
    asked = request(command.code, body=body)
    asked.ext_fields = dict(ext)
    try:
        # Written at once, so that only the future waits for the answer: the body may have megabytes.
        answer = member.connection.start_invoke(asked, _CALL_TIMEOUT_MS)
    except NetworkError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, f"{client_id} could not be asked: {error}")
    broker.answer_later(connection, command, _relayed(command, member, answer))
    return None


async def _relayed(command: Command, member: Member, answer: asyncio.Future[Command]) -> Command:
    try:
        made = await answer
    except RequestTimeout as error:
        remark = f"{member.client_id} did not answer: {error}"
        return response(command, ResponseCode.CONSUME_MSG_TIMEOUT, remark)
    except NetworkError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, f"{member.client_id} could not be asked: {error}")
    return Command(
        made.code,
        command.opaque,
        FLAG_RESPONSE,
        remark=made.remark,
        ext_fields=made.ext_fields,
        body=bytes(made.body),
        serialize_type=command.serialize_type,
    )


@serves(requests.offsets.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
def consumer_status(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(GetConsumerStatusRequestHeader)
    group = broker.consumers.get(header.group)
    if group is None:
        remark = f"consumer group {header.group} has no member to be asked"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    wanted = (header.client_addr or "").strip()
    members = [member for member in group.members.values() if not wanted or member.client_id == wanted]
    for member in group.members.values():
        if member.version < Version.V3_0_7_SNAPSHOT:
            remark = f"{member.client_id} is of version {member.version}, which cannot answer this; upgrade it"
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
    broker.answer_later(connection, command, _statuses(broker, command, header, members))
    return None


async def _statuses(
    broker: Broker, command: Command, header: GetConsumerStatusRequestHeader, members: list[Member]
) -> Command:
    room = _ByteBudget()
    answers = await asyncio.gather(*(_status(header, member, room) for member in members))
    rows: dict[str, bytes] = {}
    async with broker.making_long_answer:
        for member, body in zip(members, answers, strict=True):
            table = None if body is None else await _reported_queues(body)
            if table is not None:
                rows[member.client_id] = b"%b:{%b}" % (fastjson.dumps(member.client_id), table)
    if room.is_full:
        instead = "ask for one member (clientAddr) instead"
        remark = f"the members' answers have more than {_MOST_STATUS_BYTES} bytes together; {instead}"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    text = _HEAD + b",".join(rows[client_id] for client_id in sorted(rows)) + _TAIL
    return answer_in_a_frame(command, None, text, "ask for one member (clientAddr) instead")


class _ByteBudget:
    """Limits the bytes of the members' answers until they are read."""

    def __init__(self) -> None:
        self._left_bytes, self.is_full = _MOST_STATUS_BYTES, False

    def take(self, size_bytes: int) -> bool:
        self._left_bytes -= size_bytes
        self.is_full = self.is_full or self._left_bytes < 0
        return not self.is_full


async def _status(header: GetConsumerStatusRequestHeader, member: Member, room: _ByteBudget) -> bytes | None:
    asked = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group)
    if member.connection.is_congested:
        return None
    try:
        reply = await member.connection.invoke(
            requests.offsets.GET_CONSUMER_STATUS_FROM_CLIENT.command(asked), _STATUS_TIMEOUT_MS
        )
    except (RequestTimeout, NetworkError):
        return None
    return bytes(reply.body) if not reply.code and reply.body and room.take(len(reply.body)) else None


async def _reported_queues(body: bytes) -> bytes | None:
    """The inner text of the ``messageQueueTable`` in the body; None if there is none, or if it has more queues than a topic."""
    shares = []
    try:
        async for share in in_chunks(_offsets(body), _QUEUES_A_STEP):
            shares.append(b",".join(share))
            if len(shares) > MAX_QUEUES // _QUEUES_A_STEP:
                return None
    except ProtocolError:
        return None
    return b",".join(shares)


def _offsets(body: bytes) -> Iterator[bytes]:
    for queue, offset in fastjson.pairs(body, "messageQueueTable", _MOST_CHARS_A_QUEUE):
        if type(queue) is not MessageQueue or type(offset) is not int:
            raise ProtocolError("a table of queues and their offsets has something else in it")
        yield b"%b:%d" % (fastjson.dumps(queue), offset)

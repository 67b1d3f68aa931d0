# SPDX-License-Identifier: Apache-2.0
"""Replies of request-reply (Java: ReplyMessageProcessor).

The requester gets the reply as 326 on its producer connection, within 10 s. The answer says whether it accepted the reply (0)
or not (1); the reply is stored in <cluster>_REPLY_TOPIC in both cases (storeReplyMessageEnable).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.messages.send import check_topic
from sprocketmq.broker.handlers.table import serves
from sprocketmq.errors import RocketMQError
from sprocketmq.net.connection import Connection
from sprocketmq.store import StoredMessage
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, request, response
from sprocketmq.wire.headers import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.sys_flag import TRANSACTION_NOT_TYPE, with_transaction_type

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


_PUSH_TIMEOUT_MS: Final = 10_000  # Broker2Client.callClient


@serves(requests.messages.SEND_REPLY_MESSAGE, requests.messages.SEND_REPLY_MESSAGE_V2)
def handle_reply(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    is_v1 = command.code == RequestCode.SEND_REPLY_MESSAGE
    header = command.header(SendMessageRequestHeader if is_v1 else SendMessageRequestHeaderV2)
    refusal = check_topic(broker, command, header, now_ms)
    if refusal is not None:
        return refusal
    topic = broker.topics.table[header.topic]
    limit = max(topic.write_queue_nums, topic.read_queue_nums)
    if header.queue_id >= limit or (header.queue_id < 0 and topic.write_queue_nums <= 0):
        remark = f"queueId is {header.queue_id}, 0 to {limit - 1} are allowed for topic {header.topic}"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    queue_id = header.queue_id if header.queue_id >= 0 else random.randrange(topic.write_queue_nums)
    if not command.body or len(command.body) > broker.config.max_message_size:
        remark = f"the body has {len(command.body)} bytes, 1 to {broker.config.max_message_size} are allowed (maxMessageSize)"
        return response(command, ResponseCode.MESSAGE_ILLEGAL, remark)
    raw = (header.properties or "").encode()
    problem = broker.timers.direct_send_problem(header.topic, raw)
    if problem is not None:
        return response(command, ResponseCode.MESSAGE_ILLEGAL, problem)
    client_id = props.get_property(raw, props.REPLY_TO_CLIENT)
    if client_id is None:
        remark = f"the reply has no property {props.REPLY_TO_CLIENT}, so nobody can get it"
        return _answer(broker, connection, command, header, queue_id, remark)
    requester = broker.producers.find(client_id)
    if requester is None:
        remark = f"the requester {client_id} has no connection to this broker; the reply was not pushed"
        return _answer(broker, connection, command, header, queue_id, remark)

    async def push_and_answer() -> Command:
        remark = await _push(broker, connection, command, header, requester, client_id)
        return _answer(broker, connection, command, header, queue_id, remark)

    broker.answer_later(connection, command, push_and_answer())
    return None


async def _push(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: SendMessageRequestHeader,
    requester: Connection,
    client_id: str,
) -> str | None:
    if requester.is_congested:  # a reply that cannot be pushed now is not kept for later
        return f"the requester {client_id} does not read what it is sent; the reply was not pushed"
    now_ms = broker.clock.now_ms()
    raw = (header.properties or "").encode()
    marks = ((props.MSG_REGION, broker.identity.region_id), (props.TRACE_ON, broker.identity.trace_on))
    for name, value in (*marks, (props.PUSH_REPLY_TIME, str(now_ms))):
        raw = props.set_property(raw, name, value)
    push = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        born_host=connection.remote_address,
        store_host=broker.address,
        store_timestamp=now_ms,
        properties=raw.decode("utf-8", "replace"),
        reconsume_times=header.reconsume_times,
        unit_mode=bool(header.unit_mode),
    )
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    try:
        taken = await requester.start_invoke(request(code, push, command.body), _PUSH_TIMEOUT_MS)
    except RocketMQError as error:
        broker.troubles.failed("replies", "the reply for %s could not be pushed: %s", client_id, error, of=client_id)
        return f"the requester {client_id} did not take the reply: {error}"
    if taken.code:
        broker.troubles.failed("replies", "%s refused a reply: %s", client_id, taken.remark, of=client_id)
        return f"the requester {client_id} refused the reply: code {taken.code}, {taken.remark}"
    return None


def _answer(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: SendMessageRequestHeader,
    queue_id: int,
    remark: str | None,
) -> Command:
    """Store the reply and answer with the result of the push. A failure to store it is only logged, as in Java."""
    stored = SendMessageResponseHeader(msg_id="0", queue_id=queue_id, queue_offset=0)
    if broker.topics.get(header.topic) is None:  # deleted: a record would create its queue again
        sentence = "a reply is not stored: topic %s was deleted while the reply was pushed"
        broker.troubles.failed("unstored replies", sentence, header.topic, of=header.topic)
    elif broker.config.store_reply_message_enable:
        message = StoredMessage(
            header.topic,
            queue_id,
            bytes(command.body),
            (header.properties or "").encode(),
            header.flag,
            with_transaction_type(header.sys_flag, TRANSACTION_NOT_TYPE),
            header.born_timestamp,
            connection.state["born_host"],
            broker.identity.host,
            header.reconsume_times or 0,
        )
        try:
            result = broker.put(message, broker.clock.now_ms())
        except RocketMQError as error:
            sentence = "a reply could not be stored in %s: %s"
            broker.troubles.failed("unstored replies", sentence, header.topic, error, of=header.topic)
        else:
            stored.msg_id = broker.identity.offset_message_id(result.physical_offset)
            stored.queue_offset = result.queue_offset
    answer = response(command, ResponseCode.SUCCESS if remark is None else ResponseCode.SYSTEM_ERROR, remark, stored)
    answer.ext_fields[props.MSG_REGION] = broker.identity.region_id
    answer.ext_fields[props.TRACE_ON] = broker.identity.trace_on
    return answer

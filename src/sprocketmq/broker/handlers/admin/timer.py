# SPDX-License-Identifier: Apache-2.0
"""Timer messages (Java: RecallMessageProcessor, AdminBrokerProcessor).

A recall (370) stores another timer message, due in the same second, that names the key; only then it is known whether the message was
found. Refusals: 16 switched off, 14 broker not writable, 17 topic, 604 a handle that is invalid, of another topic or broker, or too late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.table import serves
from sprocketmq.core.produce.route_table import PERM_WRITE
from sprocketmq.core.timer_schedule import java_long
from sprocketmq.errors import ProtocolError, RocketMQError
from sprocketmq.net.connection import Connection
from sprocketmq.store import StoredMessage
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from sprocketmq.wire.recall_handle import RecallHandle
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_RECALL_TAG: Final = "_RECALL_TAG_"


@serves(requests.messages.RECALL_MESSAGE)
def handle_recall(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(RecallMessageRequestHeader)
    answer = response(command)
    answer.ext_fields = {props.MSG_REGION: broker.identity.region_id}
    handle, answer.code, answer.remark = _checked(broker, header, now_ms)
    if handle is None:
        return answer
    message = _recall_message(broker, connection, header, handle, now_ms)
    refusal = broker.timers.let_wait(message, now_ms)
    if refusal is not None:
        answer.code, answer.remark = ResponseCode.SYSTEM_ERROR, refusal.remark
        return answer
    try:
        result = broker.put(message, now_ms)
    except RocketMQError as error:
        answer.code, answer.remark = ResponseCode.SYSTEM_ERROR, str(error)
        return answer
    answer.ext_fields.update(RecallMessageResponseHeader(msg_id=handle.unique_key).to_ext())
    return broker.answer_when_durable(connection, command, answer, result.physical_offset + result.size, True)


def _checked(
    broker: Broker, header: RecallMessageRequestHeader, now_ms: int
) -> tuple[RecallHandle | None, int, str | None]:
    """The handle; or None, the code and the reason. The checks are in Apache's order."""
    config = broker.config
    if not config.recall_message_enable:
        return None, ResponseCode.NO_PERMISSION, "recall is switched off (recallMessageEnable is false)"
    if not config.broker_permission & PERM_WRITE and not config.allow_recall_when_broker_not_writeable:
        return None, ResponseCode.SERVICE_NOT_AVAILABLE, f"broker {config.broker_name} is read only"
    if broker.topics.get(header.topic) is None:
        return None, ResponseCode.TOPIC_NOT_EXIST, f"topic {header.topic} does not exist"
    try:
        handle = RecallHandle.decode(header.recall_handle)
    except ProtocolError as error:
        return None, ResponseCode.ILLEGAL_OPERATION, str(error)
    left_ms = (java_long(handle.deliver_ms) or -1) - now_ms
    problem = None
    if handle.topic != header.topic:
        problem = f"the recall handle is of topic {handle.topic}, not of {header.topic}; recall from its own topic"
    elif handle.broker_name != config.broker_name:
        problem = f"the recall handle is of broker {handle.broker_name}; ask that one, not {config.broker_name}"
    elif not 0 < left_ms < broker.timers.rules.max_delay_ms:
        problem = f"the recall handle's time is {left_ms} ms from now; a message is taken back before its time only"
    return (
        (None, ResponseCode.ILLEGAL_OPERATION, problem) if problem is not None else (handle, ResponseCode.SUCCESS, None)
    )


def _recall_message(
    broker: Broker,
    connection: Connection,
    header: RecallMessageRequestHeader,
    handle: RecallHandle,
    now_ms: int,
) -> StoredMessage:
    key = handle.unique_key
    if broker.config.append_topic_for_timer_delete_key:
        key = f"{handle.topic}+{key}"
    properties = {
        props.TAGS: _RECALL_TAG,
        props.TIMER_DEL_UNIQKEY: key,
        props.UNIQ_KEY: handle.unique_key,
        props.TIMER_DELIVER_MS: handle.deliver_ms,
        props.BORN_TIMESTAMP: str(now_ms),
        props.PGROUP: header.producer_group or "",
    }
    return StoredMessage(
        topic=handle.topic,
        queue_id=0,
        body=b"0",
        properties=props.encode_properties(properties),
        born_timestamp_ms=now_ms,
        born_host=connection.state["born_host"],
        store_host=broker.identity.host,
        tags_code=tags_code(_RECALL_TAG),
    )


@serves(requests.brokers.GET_TIMER_CHECK_POINT)
def handle_timer_check_point(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    return _timer_body(broker, command, broker.timers.checkpoint)


@serves(requests.brokers.GET_TIMER_METRICS)
def handle_timer_metrics(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    return _timer_body(broker, command, lambda: broker.timers.content().encode())


def _timer_body(broker: Broker, command: Command, body: Callable[[], bytes]) -> Command:
    if not broker.timers.enabled:
        return response(command, ResponseCode.SYSTEM_ERROR, "there is no timer (timerWheelEnable is false)")
    answer = response(command)
    answer.body = body()
    return answer

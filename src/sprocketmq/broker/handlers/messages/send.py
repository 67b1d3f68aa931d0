"""Sending: SEND_MESSAGE 10, SEND_MESSAGE_V2 310, SEND_BATCH_MESSAGE 320, each also one-way. Java: SendMessageProcessor, HookUtils.

Fields: producerGroup, topic, defaultTopic, defaultTopicQueueNums, queueId (-1: any), sysFlag, bornTimestamp, flag, properties,
reconsumeTimes, maxReconsumeTimes, batch. Answer: msgId (offset message id), queueId, queueOffset, transactionId (the unique key), and
MSG_REGION, TRACE_ON beside it.

Checks in Java's order: order topic on a broker that may not be written; topic name; topic that nobody may send to; topic, or its
creation; queue id; then the message itself (size, properties). Messages that are more than stored are ``special_messages``' business.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.messages.special_messages import (
    attach_recall_handle,
    is_delayed,
    is_special,
    retry_topic_rules,
    special_message,
    timer_topic_problem,
)
from sprocketmq.broker.tables.topics import PERM_READ, PERM_WRITE, SEND_FORBIDDEN
from sprocketmq.core.resource_names import topic_name_problem
from sprocketmq.core.retry.retry_schedule import RETRY_PREFIX
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.store.message_store import StoredMessage
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import TopicConfig
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import FLAG_RESPONSE, Command, response
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.headers import SendMessageRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import has_more_elements, split_batch
from sprocketmq.wire.records.uniform_batch import UniformBatch

if TYPE_CHECKING:
    from sprocketmq.broker.controller import BrokerController as Broker

__all__ = ["HANDLERS", "check_topic", "handle_send", "waits_for_disk"]

_UNIFORM_FROM_BYTES: Final = 1024  # below, the long way is as fast


def handle_send(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """The hot path: one pass from header to answer, nothing awaited."""
    answer = _send(broker, connection, command, now_ms)
    if answer is not None and answer.code:  # Apache tells region and trace whatever becomes of the send
        answer.ext_fields.setdefault(props.MSG_REGION, broker.stamps.region_id)
        answer.ext_fields.setdefault(props.TRACE_ON, broker.stamps.trace_on)
    return answer


def _send(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    if command.code == RequestCode.SEND_MESSAGE:
        header = SendMessageRequestHeader.from_v1(command)
    else:
        header = SendMessageRequestHeader.from_v2(command)
    is_batch = header.batch or command.code == RequestCode.SEND_BATCH_MESSAGE
    most = broker.config.max_messages_per_batch
    if is_batch and has_more_elements(command.body, most):
        remark = f"the batch holds more than {most} messages; send several batches, or raise maxMessagesPerBatch"
        return _illegal(command, remark)
    config = broker.topics.get(header.topic)
    if config is None or header.topic in SEND_FORBIDDEN or broker.config.broker_permission != PERM_READ | PERM_WRITE:
        refusal = check_topic(broker, command, header, now_ms)
        if refusal is not None:
            return refusal
        config = broker.topics.table[header.topic]
    queue_id = header.queue_id
    if queue_id >= config.write_queue_nums and queue_id >= config.read_queue_nums:
        limit = max(config.write_queue_nums, config.read_queue_nums)
        remark = f"queueId is {queue_id}, 0 to {limit - 1} are allowed for topic {header.topic}"
        return response(command, ResponseCode.INVALID_PARAMETER, remark)
    if queue_id < 0:
        if config.write_queue_nums <= 0:
            return response(command, ResponseCode.INVALID_PARAMETER, f"topic {header.topic} has no queue to write to")
        queue_id = random.randrange(config.write_queue_nums)
    if not command.body or len(command.body) > broker.config.max_message_size:
        return _illegal(
            command,
            f"the body has {len(command.body)} bytes, 1 to {broker.config.max_message_size} are allowed (maxMessageSize)",
        )
    if is_batch:
        return _send_batch(broker, connection, command, header, queue_id, now_ms)
    return _send_one(broker, connection, command, header, config, queue_id, now_ms)


def check_topic(broker: Broker, command: Command, header: SendMessageRequestHeader, now_ms: int) -> Command | None:
    """The checks that a send to a known, ordinary topic of a writable broker passes anyway; None when they pass."""
    topic = header.topic
    config = broker.topics.get(topic)
    if not broker.config.broker_permission & PERM_WRITE and config is not None and config.order:
        return response(command, ResponseCode.NO_PERMISSION, f"broker {broker.config.broker_name} is read only")
    problem = topic_name_problem(topic)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    if topic in SEND_FORBIDDEN:
        return response(
            command, ResponseCode.NO_PERMISSION, f"topic {topic} is the broker's own, nobody may send to it"
        )
    if config is None:
        made = broker.topics.create_in_send(topic, header.default_topic, header.default_topic_queue_nums, now_ms)
        if made is None:
            why = broker.topics.room_problem([topic]) or "it may not be created by a send; create it first"
            return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist, and {why}")
    return None


def _send_one(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: SendMessageRequestHeader,
    config: TopicConfig,
    queue_id: int,
    now_ms: int,
) -> Command | None:
    raw = header.properties.encode() if header.properties else b""
    if raw and not raw.endswith(b"\x02"):
        raw += b"\x02"
    waits = waits_for_disk(raw)
    unique_key = props.get_property(raw, props.UNIQ_KEY)
    if unique_key is None:
        unique_key = broker.stamps.new_unique_key(now_ms)
        raw += f"{props.UNIQ_KEY}\x01{unique_key}\x02".encode()
    raw = broker.stamps.mark(raw)
    tags = props.get_property(raw, props.TAGS) if b"TAGS\x01" in raw else None
    message = StoredMessage(
        header.topic,
        queue_id,
        command.body,  # type: ignore[arg-type]  # a view of immutable bytes; the store copies it once, into the log
        raw,
        header.flag,
        header.sys_flag,
        header.born_timestamp,
        connection.state["born_host"],
        broker.stamps.host,
        header.reconsume_times or 0,
        0,
        tags_code(tags),
    )
    if header.topic.startswith(RETRY_PREFIX):
        refusal = retry_topic_rules(broker, command, header, message, now_ms)
        if refusal is not None:
            return refusal
    if is_special(raw):
        refusal = special_message(broker, connection, command, message, now_ms)
        if refusal is not None:
            return refusal
    if len(message.properties) > props.MAX_PROPERTIES_BYTES:
        return _illegal(
            command,
            f"the properties take {len(message.properties)} bytes, at most {props.MAX_PROPERTIES_BYTES} are allowed",
        )
    try:
        result = broker.put(message, now_ms)
    except ConfigurationError as error:
        return _illegal(command, str(error))
    message_id = broker.stamps.offset_message_id(result.physical_offset)
    answer = _stored(broker, command, message_id, queue_id, result.queue_offset, unique_key)
    if message.topic is not header.topic:
        attach_recall_handle(broker, message, answer)
    return broker.answer_when_durable(connection, command, answer, result.physical_offset + result.size, waits)


def waits_for_disk(raw: bytes) -> bool:
    """Whether the sender wants to know that the disk has it. Looked at twice: another property may end in the same letters."""
    return b"WAIT\x01false" not in raw or props.get_property(raw, props.WAIT) != "false"


def _send_batch(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: SendMessageRequestHeader,
    queue_id: int,
    now_ms: int,
) -> Command | None:
    """Many messages of one topic and queue in one request, stored as ordinary messages with consecutive offsets, all or none.

    Each with the properties that it came with, byte for byte. Those of the request are about the batch alone: a Java client of 5.4.0
    gives it a UNIQ_KEY of its own, and behind a message's properties that would be the id of all of them. As 5.4.0 (its
    MessageExtEncoder; 4.9 and 5.x before append them).
    """
    if header.topic.startswith(RETRY_PREFIX):
        return _illegal(command, f"a batch cannot be sent to retry topic {header.topic}; send its messages one by one")
    body = bytes(command.body)
    of_batch = header.properties.encode() if header.properties else b""
    if is_delayed(of_batch):
        return _illegal(command, "the batch has a delay; send delayed messages one by one")
    waits, key = waits_for_disk(of_batch), props.get_property(of_batch, props.UNIQ_KEY)
    uniform = UniformBatch.of(body) if len(body) >= _UNIFORM_FROM_BYTES else None
    try:
        if uniform is not None:
            element = (uniform.flag, uniform.body, uniform.properties)
            messages = _messages_of_batch(broker, connection, command, header, queue_id, [element])
            if isinstance(messages, Command):
                return messages
            result = broker.put_uniform(messages[0], uniform, now_ms)
            if result is not None:
                ids = broker.stamps.offset_message_ids(result.physical_offset, result.size, uniform.count)
                answer = _stored(broker, command, ids, queue_id, result.queue_offset, key)
                end = result.physical_offset + uniform.count * result.size
                return broker.answer_when_durable(connection, command, answer, end, waits)
        messages = _messages_of_batch(broker, connection, command, header, queue_id, split_batch(body))
        if isinstance(messages, Command):
            return messages
        if not messages:
            return _illegal(command, "the batch holds no message; send at least one")
        results = broker.put_batch(messages, now_ms)
    except ConfigurationError as error:
        return _illegal(command, str(error))
    ids = ",".join([broker.stamps.offset_message_id(result.physical_offset) for result in results])
    answer = _stored(broker, command, ids, queue_id, results[0].queue_offset, key)
    end = results[-1].physical_offset + results[-1].size
    return broker.answer_when_durable(connection, command, answer, end, waits)


def _messages_of_batch(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: SendMessageRequestHeader,
    queue_id: int,
    elements: list[tuple[int, bytes, bytes]],
) -> list[StoredMessage] | Command:
    """What the elements are stored as; the refusal of all of them for the sake of one."""
    body = bytes(command.body)
    may_delay = b"DELAY" in body or b"TIMER_" in body  # one look at the whole instead of three at each
    topic, sys_flag, born_at_ms, times = (
        header.topic,
        header.sys_flag,
        header.born_timestamp,
        header.reconsume_times or 0,
    )
    born_host, store_host, messages = connection.state["born_host"], broker.stamps.host, []
    for flag, part, raw in elements:
        if may_delay and is_delayed(raw):
            return _illegal(command, "a message of the batch has a delay; send delayed messages one by one")
        if not part:
            return _illegal(command, "a message of the batch has no body; 1 byte or more is allowed")
        if len(raw) > props.MAX_PROPERTIES_BYTES:
            return _illegal(
                command, f"the properties take {len(raw)} bytes, at most {props.MAX_PROPERTIES_BYTES} are allowed"
            )
        problem = timer_topic_problem(broker, topic, raw) if topic == TIMER_TOPIC else None
        if problem is not None:
            return _illegal(command, problem)
        code = tags_code(props.get_property(raw, props.TAGS)) if b"TAGS\x01" in raw else 0
        messages.append(
            StoredMessage(topic, queue_id, part, raw, flag, sys_flag, born_at_ms, born_host, store_host, times, 0, code)
        )
    return messages


def _stored(
    broker: Broker, command: Command, message_id: str, queue_id: int, queue_offset: int, unique_key: str | None
) -> Command:
    # SendMessageResponseHeader written out: two dict merges less on the hottest answer.
    ext = {"msgId": message_id, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
    if unique_key is not None:  # a batch of a 4.9 client has none of its own
        ext["transactionId"] = unique_key
    ext["MSG_REGION"], ext["TRACE_ON"] = broker.stamps.region_id, broker.stamps.trace_on
    return Command(0, command.opaque, FLAG_RESPONSE, ext_fields=ext, serialize_type=command.serialize_type)


def _illegal(command: Command, remark: str) -> Command:
    return response(command, ResponseCode.MESSAGE_ILLEGAL, remark)


HANDLERS = {
    requests.messages.SEND_MESSAGE: handle_send,
    requests.messages.SEND_MESSAGE_V2: handle_send,
    requests.messages.SEND_BATCH_MESSAGE: handle_send,
}

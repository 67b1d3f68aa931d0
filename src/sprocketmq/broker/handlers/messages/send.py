# SPDX-License-Identifier: Apache-2.0
"""Sending (Java: SendMessageProcessor, HookUtils). The answer has MSG_REGION and TRACE_ON in addition.

Checks in Java's order: order topic on a broker that may not be written; topic name; topic to which clients may not send; topic, or its
creation; queue id; then the message itself (size, properties). ``special_messages`` handles messages that are not only stored.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.messages.special_messages import (
    attach_recall_handle,
    is_delayed,
    retry_topic_rules,
    special_message,
)
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.tables.property_meanings import PropertyMeaning, meaning_of, waits_for_disk
from sprocketmq.broker.tables.topics import SEND_FORBIDDEN
from sprocketmq.core.produce.route_table import PERM_READ_WRITE, PERM_WRITE
from sprocketmq.core.resource_names import RETRY_PREFIX, topic_name_problem
from sprocketmq.core.timer_schedule import TIMER_TOPIC
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.store import StoredBatch, StoredMessage
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import FLAG_ONEWAY, Command, response
from sprocketmq.wire.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import has_more_elements

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker
    from sprocketmq.broker.tables.broker_identity import BrokerIdentity
    from sprocketmq.wire.records.batch_elements import BatchElements

_SEND_V1: Final = int(RequestCode.SEND_MESSAGE)
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)


@serves(requests.messages.SEND_MESSAGE, requests.messages.SEND_MESSAGE_V2, requests.messages.SEND_BATCH_MESSAGE)
def handle_send(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    """The hot path, one function up to the answer to a single message: a call with so many arguments costs a percent of a send."""
    code, header = command.code, command.typed_header
    if type(header) is not SendMessageRequestHeaderV2:
        header = command.header(SendMessageRequestHeader if code == _SEND_V1 else SendMessageRequestHeaderV2)
    is_batch = header.batch or code == _SEND_BATCH
    settings = broker.config
    if is_batch and has_more_elements(command.body, settings.max_messages_per_batch):
        most = settings.max_messages_per_batch
        remark = f"the batch holds more than {most} messages; send several batches, or raise maxMessagesPerBatch"
        return _illegal(broker, command, remark)
    topic = header.topic
    config = broker.topics.table.get(topic)
    if config is None or topic in SEND_FORBIDDEN or settings.broker_permission != PERM_READ_WRITE:
        refusal = check_topic(broker, command, header, now_ms)
        if refusal is not None:
            return _with_region(broker, refusal)
        config = broker.topics.table[topic]
    queue_id = header.queue_id
    if queue_id >= config.write_queue_nums and queue_id >= config.read_queue_nums:
        limit = max(config.write_queue_nums, config.read_queue_nums)
        remark = f"queueId is {queue_id}, 0 to {limit - 1} are allowed for topic {topic}"
        return _with_region(broker, response(command, ResponseCode.INVALID_PARAMETER, remark))
    if queue_id < 0:
        if config.write_queue_nums <= 0:
            remark = f"topic {topic} has no queue to write to"
            return _with_region(broker, response(command, ResponseCode.INVALID_PARAMETER, remark))
        queue_id = random.randrange(config.write_queue_nums)
    body = command.body
    if not 0 < len(body) <= settings.max_message_size:
        return _illegal(
            broker,
            command,
            f"the body has {len(body)} bytes, 1 to {settings.max_message_size} are allowed (maxMessageSize)",
        )
    if is_batch:
        return _send_batch(broker, connection, command, header, queue_id, now_ms)
    text, identity = header.properties or "", broker.identity
    known = identity.meanings.find(text)
    if known is None:
        unique_key, raw, meaning = _marked(identity, text, now_ms)
    else:
        unique_key, meaning = known
        raw = (text + meaning.added).encode()
    message = StoredMessage(
        topic,
        queue_id,
        body,  # type: ignore[arg-type]  # a view of immutable bytes; the store copies it once, into the log
        raw,
        header.flag,
        header.sys_flag,
        header.born_timestamp,
        connection.state["born_host"],
        identity.host,
        header.reconsume_times or 0,
        0,
        meaning.tags_code,
    )
    if meaning.is_special or topic[0] == "%" or len(raw) > props.MAX_PROPERTIES_BYTES:
        refusal = _special_refusal(broker, command, header, message, meaning, now_ms)
        if refusal is not None:
            return _with_region(broker, refusal)
    try:
        result = broker.put(message, now_ms)
    except ConfigurationError as error:
        return _illegal(broker, command, str(error))
    physical_offset, must_wait = result.physical_offset, broker.sends_wait
    if command.flag & FLAG_ONEWAY and not must_wait:
        return None
    answer = identity.answers.of_one(command, physical_offset, queue_id, result.queue_offset, unique_key)
    if message.topic is not topic:  # it waits in another topic; a timer message can be recalled
        attach_recall_handle(broker, message, answer)
    if not must_wait:
        return answer
    return broker.answer_when_durable(connection, command, answer, physical_offset + result.size, meaning.waits)


def check_topic(broker: Broker, command: Command, header: SendMessageRequestHeader, now_ms: int) -> Command | None:
    """The checks that a send to a known, ordinary topic of a writable broker always passes; None if all pass."""
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
            if header.default_topic_queue_nums < 1:
                why = f"defaultTopicQueueNums is {header.default_topic_queue_nums}, at least 1 creates one"
            return response(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist, and {why}")
    return None


def _special_refusal(
    broker: Broker,
    command: Command,
    header: SendMessageRequestHeader,
    message: StoredMessage,
    meaning: PropertyMeaning,
    now_ms: int,
) -> Command | None:
    """Change ``message`` into the one to store (a dead letter, a half message, one that waits). Returns the refusal, or None."""
    refusal = None
    if message.topic.startswith(RETRY_PREFIX):
        refusal = retry_topic_rules(broker, command, header, message, now_ms)
    if refusal is None and meaning.is_special:
        refusal = special_message(broker, command, message, meaning, now_ms)
    if refusal is None and len(message.properties) > props.MAX_PROPERTIES_BYTES:
        remark = (
            f"the properties take {len(message.properties)} bytes, at most {props.MAX_PROPERTIES_BYTES} are allowed"
        )
        refusal = response(command, ResponseCode.MESSAGE_ILLEGAL, remark)
    return refusal


def _marked(identity: BrokerIdentity, text: str, now_ms: int) -> tuple[str, bytes, PropertyMeaning]:
    """The unique key, the properties with the broker's marks, and their meaning, where ``PropertyMeanings.find`` returns None."""
    raw = text.encode()
    if raw and not raw.endswith(b"\x02"):
        raw += b"\x02"
    unique_key = props.get_property(raw, props.UNIQ_KEY)
    if unique_key is None:
        unique_key = identity.new_unique_key(now_ms)
        raw += f"{props.UNIQ_KEY}\x01{unique_key}\x02".encode()
    marked = identity.mark(raw)
    return unique_key, marked, meaning_of(text, props.get_property(marked, props.TAGS))


def _send_batch(
    broker: Broker,
    connection: Connection,
    command: Command,
    header: SendMessageRequestHeader,
    queue_id: int,
    now_ms: int,
) -> Command | None:
    """Many messages of one topic and queue in one request, stored as ordinary messages with consecutive offsets, all or none.

    The properties of the request are only for the batch: a Java client of 5.4.0 gives it a UNIQ_KEY of its own, which behind a message's
    properties would become the id of all messages (5.4.0 keeps them apart, too; 4.9 and earlier 5.x append them).
    """
    # Needs NumPy. The first batch does not wait for it beside the loop: later sends of its connection would be stored before it.
    from sprocketmq.wire.records.batch_elements import BatchElements

    topic, identity = header.topic, broker.identity
    if topic.startswith(RETRY_PREFIX):
        return _illegal(broker, command, f"a batch cannot be sent to retry topic {topic}; send its messages one by one")
    of_batch = header.properties.encode() if header.properties else b""
    if is_delayed(of_batch):
        return _illegal(broker, command, "the batch has a delay; send delayed messages one by one")
    elements = BatchElements.of(bytes(command.body))
    problem = _problem_in_batch(broker, topic, elements)
    if problem is not None:
        return _illegal(broker, command, problem)
    batch = StoredBatch(
        topic,
        queue_id,
        elements,
        elements.tags_codes(),
        header.sys_flag,
        header.born_timestamp,
        connection.state["born_host"],
        identity.host,
        header.reconsume_times or 0,
    )
    try:
        result = broker.put_batch(batch, now_ms)
    except ConfigurationError as error:
        return _illegal(broker, command, str(error))
    ids, key = identity.offset_message_ids(result.physical_offsets), props.get_property(of_batch, props.UNIQ_KEY)
    answer = identity.answers.of_batch(command, ids, queue_id, result.queue_offset, key)
    end = result.physical_offset + result.size
    return broker.answer_when_durable(connection, command, answer, end, waits_for_disk(of_batch))


def _problem_in_batch(broker: Broker, topic: str, elements: BatchElements) -> str | None:
    # First all of them at once, because most batches have none of these. What delays a message has DEL in its name. One letter is found ten
    # times as fast as three, and no property that clients add to each message has an L in its name.
    longest, may_delay = props.MAX_PROPERTIES_BYTES, b"L" in elements.texts and b"DEL" in elements.texts
    may_be_long = len(elements.texts) > longest and elements.longest_properties_bytes > longest
    if not (may_delay or may_be_long or b"" in elements.bodies or elements.ends_in_zero or topic == TIMER_TOPIC):
        return None
    for body, raw in elements.bodies_and_properties():
        if b"DEL" in raw and is_delayed(raw):
            return "a message of the batch has a delay; send delayed messages one by one"
        if not body:
            return "a message of the batch has no body; 1 byte or more is allowed"
        if len(raw) > longest:
            return f"the properties take {len(raw)} bytes, at most {longest} are allowed"
        if raw.endswith(b"\0"):  # a start would treat this as a lost page, and so as the end of the log
            return "the properties of a message of the batch end with a zero byte; end them with \\x02"
        problem = broker.timers.direct_send_problem(topic, raw)
        if problem is not None:
            return problem
    return None


def _illegal(broker: Broker, command: Command, remark: str) -> Command:
    return _with_region(broker, response(command, ResponseCode.MESSAGE_ILLEGAL, remark))


def _with_region(broker: Broker, refusal: Command) -> Command:
    """``refusal`` with region and trace, which Apache adds to every answer to a send."""
    refusal.ext_fields.setdefault(props.MSG_REGION, broker.identity.region_id)
    refusal.ext_fields.setdefault(props.TRACE_ON, broker.identity.trace_on)
    return refusal

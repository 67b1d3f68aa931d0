# SPDX-License-Identifier: Apache-2.0
"""Sending back to the retry topic, with Java's checks in their order (Java: AbstractSendMessageProcessor.consumerSendMsgBack).

delayLevel 0: the broker chooses, < 0: dead letter. The copy keeps all but its retry count and records its original topic. It goes to
``%RETRY%group`` after its delay level, or to ``%DLQ%group``. As in 5.x, groupRetryPolicy has no effect with remoting clients.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.handlers.messages.special_messages import wait_if_asked
from sprocketmq.broker.handlers.table import serves
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.redirection import copy_of_record
from sprocketmq.core.produce.route_table import PERM_WRITE
from sprocketmq.core.resource_names import dlq_topic, retry_topic, topic_name_problem
from sprocketmq.core.retry.retry_schedule import ToDeadLetterQueue, decide_send_back
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import ConsumerSendMsgBackRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import offset_message_id
from sprocketmq.wire.records.record import RecordView

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

_SET_HERE: Final = tuple(
    f"{name}\x01".encode() for name in (props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID, props.WAIT, props.DELAY)
)
_PAIRS: Final = b"%b%%b\x02%b%%b\x02%bfalse\x02%b%%b\x02" % _SET_HERE
_UNIT_SUB: Final = 2  # TopicSysFlag: a unit's retry topic


@serves(requests.messages.CONSUMER_SEND_MSG_BACK)
def handle_send_back(broker: Broker, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(ConsumerSendMsgBackRequestHeader)
    group = broker.groups.find(header.group, now_ms)
    if group is None:
        return unknown_group(command, header.group)
    if not broker.config.broker_permission & PERM_WRITE:
        return response(command, ResponseCode.NO_PERMISSION, f"broker {broker.config.broker_name} is read only")
    if group.retry_queue_nums <= 0:
        return response(command)  # a group without retry queues asked for its failures to be dropped
    problem = topic_name_problem(retry_topic(header.group))
    if problem is not None:  # a group of an older store with a name that is too long now
        return response(command, ResponseCode.INVALID_PARAMETER, f"group {header.group} has no retry topic: {problem}")
    topic = broker.topics.create_if_absent(
        retry_topic(header.group), group.retry_queue_nums, now_ms, sys_flag=_UNIT_SUB if header.unit_mode else 0
    )
    if not topic.perm & PERM_WRITE:
        return response(command, ResponseCode.NO_PERMISSION, f"topic {topic.topic_name} is not writable")
    record = broker.store.view_at(header.offset)
    if record is None:
        remark = f"no message begins at commit log offset {header.offset}, or it expired; take it as consumed"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    limit = group.retry_max_times
    if command.version >= Version.V3_4_9 and header.max_reconsume_times is not None:
        limit = header.max_reconsume_times
    decision = decide_send_back(record.reconsume_times, limit, header.delay_level)
    delay_level = 0 if isinstance(decision, ToDeadLetterQueue) else decision.delay_level
    raw = _properties(record, header.offset, str(delay_level))
    message = copy_of_record(record, topic.topic_name, raw, broker.identity.host)
    message.reconsume_times = decision.reconsume_times
    if isinstance(decision, ToDeadLetterQueue):
        message.topic = broker.topics.create_if_absent(dlq_topic(header.group), 1, now_ms).topic_name
    else:
        message.queue_id = random.randrange(group.retry_queue_nums)
        wait_if_asked(broker, message, now_ms)
    try:
        result = broker.put(message, now_ms, is_new=False)
    except ConfigurationError as error:  # the copy's properties exceed the limit
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    broker.counters.sent_back(props.get_property(message.properties, props.RETRY_TOPIC) or "", header.group)
    # Java does not wait for the disk (WAIT=false on the copy), and a power cut takes the message: the group commits the original after
    # this answer.
    end = result.physical_offset + result.size
    return broker.answer_when_durable(connection, command, response(command), end, True, sent_back=True)


def _properties(record: RecordView, physical_offset: int, delay_level: str) -> bytes:
    raw = record.raw_properties
    if not any(mark in raw for mark in _SET_HERE) and raw.endswith(
        b"\x02"
    ):  # a first failure: nothing to keep or replace
        message_id = offset_message_id(record.store_host, physical_offset)
        return raw + _PAIRS % (record.topic_bytes, message_id.encode(), delay_level.encode())
    if props.get_property(raw, props.RETRY_TOPIC) is None:
        raw = props.set_property(raw, props.RETRY_TOPIC, record.topic)
    if props.get_property(raw, props.ORIGIN_MESSAGE_ID) is None:
        raw = props.set_property(raw, props.ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, physical_offset))
    raw = props.set_property(raw, props.WAIT, "false")
    return props.set_property(raw, props.DELAY, delay_level)

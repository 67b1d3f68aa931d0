# SPDX-License-Identifier: Apache-2.0
"""Messages that are not only stored: delayed, timed, transactional, dead letters (Java: HookUtils). ``send`` calls this only for a retry
topic, and for properties that ``property_meanings`` calls special: a new special property has to be added there, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.broker.delivery.timer_messages import TimerRefusal
from sprocketmq.broker.delivery.transactions import MAX_HALF_PROPERTIES_BYTES
from sprocketmq.broker.handlers.unknown_group import unknown_group
from sprocketmq.broker.tables.property_meanings import TIMER_MARKS, PropertyMeaning, delay_level
from sprocketmq.core.resource_names import dlq_topic, group_of_retry_topic, is_retry_topic
from sprocketmq.core.timer_schedule import TIMER_TOPIC, is_timer, without_timer
from sprocketmq.store import StoredMessage
from sprocketmq.wire.codes import ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import SendMessageRequestHeader
from sprocketmq.wire.recall_handle import RecallHandle
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED_TYPE

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker


def retry_topic_rules(
    broker: Broker, command: Command, header: SendMessageRequestHeader, message: StoredMessage, now_ms: int
) -> Command | None:
    """For a send to ``%RETRY%group``, after a failed send-back or by an orderly consumer that gives up: behind the last try ``message``
    becomes a dead letter. An orderly group, which holds queue locks, has had its tries. Returns the refusal, or None. Java:
    handleRetryAndDLQ."""
    group_name = group_of_retry_topic(header.topic)
    group = broker.groups.find(group_name, now_ms)
    if group is None:
        return unknown_group(command, group_name)
    limit = group.retry_max_times
    if command.version >= Version.V3_4_9 and header.max_reconsume_times is not None:
        limit = header.max_reconsume_times
    if message.reconsume_times <= limit and not broker.locks.holds_any(group_name, broker.clock.steady_ms()):
        return None
    dead_letter = broker.topics.create_if_absent(dlq_topic(group_name), 1, now_ms)
    message.topic, message.queue_id = dead_letter.topic_name, 0
    message.properties = props.set_property(message.properties, props.DELAY, "-1")
    return None


def special_message(
    broker: Broker, command: Command, message: StoredMessage, meaning: PropertyMeaning, now_ms: int
) -> Command | None:
    """Change ``message`` (topic, queue, properties) into the one to store. Returns the refusal, or None. ``meaning`` is that of the
    properties as sent; those of a message to a retry topic may have changed since."""
    topic = message.topic  # "%": of a retry topic, or a dead letter by now
    if meaning.delay_level > 0 and not (message.sys_flag & TRANSACTION_MASK or topic[0] == "%" or topic == TIMER_TOPIC):
        broker.schedule.let_wait(message, meaning.delay_level, now_ms)
        return None
    message.properties = raw = props.remove_property(message.properties, props.POP_CK)
    prepared = message.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED_TYPE
    level = delay_level(raw)
    transactional = props.get_property(raw, props.TRAN_MSG)
    # Clients before 4.6.1 resend a failed transactional message with TRAN_MSG still set: a retry is not a half message.
    if (transactional or "").lower() == "true" and not (message.reconsume_times > 0 and level > 0):
        return _half_message(broker, command, message)
    if prepared:  # Java stores it where no consumer ever reads it
        return response(
            command,
            ResponseCode.MESSAGE_ILLEGAL,
            "sysFlag marks a half message without the property TRAN_MSG; send it as a transaction",
        )
    problem = broker.timers.direct_send_problem(message.topic, raw)
    if problem is not None:
        return response(command, ResponseCode.MESSAGE_ILLEGAL, problem)
    refusal = wait_if_asked(broker, message, now_ms)
    return None if refusal is None else response(command, refusal.code, refusal.remark)


def _half_message(broker: Broker, command: Command, message: StoredMessage) -> Command | None:
    if broker.config.reject_transaction_message:
        remark = f"broker {broker.config.broker_name} takes no transactional messages (rejectTransactionMessage)"
        return response(command, ResponseCode.NO_PERMISSION, remark)
    if _has_timer(message.properties):
        remark = "a transactional message cannot have a delivery time; leave one of the two out"
        return response(command, ResponseCode.MESSAGE_ILLEGAL, remark)
    broker.transactions.prepare(message)
    if len(message.properties) > MAX_HALF_PROPERTIES_BYTES:
        remark = (
            f"the properties take {len(message.properties)} bytes, at most {MAX_HALF_PROPERTIES_BYTES} are allowed for a half message:"
            " the broker adds its own when it asks for the transaction"
        )
        return response(command, ResponseCode.MESSAGE_ILLEGAL, remark)
    return None


def wait_if_asked(broker: Broker, message: StoredMessage, now_ms: int) -> TimerRefusal | None:
    """Redirect a message with a delay or a delivery time; for all but half messages. Java: HookUtils.handleScheduleMessage."""
    if message.topic != TIMER_TOPIC:  # messages in that topic wait already
        level = delay_level(message.properties)
        if level > 0:
            message.properties = without_timer(message.properties)
            broker.schedule.let_wait(message, level, now_ms)
        elif is_timer(message.properties):
            return broker.timers.let_wait(message, now_ms)
    return None


def attach_recall_handle(broker: Broker, message: StoredMessage, answer: Command) -> None:
    """Add the recall handle to the answer to the send of a timer message. Java: attachRecallHandle."""
    if message.topic != TIMER_TOPIC:
        return
    topic = props.get_property(message.properties, props.REAL_TOPIC) or ""
    out_ms = props.get_property(message.properties, props.TIMER_OUT_MS)
    if out_ms is not None and not is_retry_topic(topic):
        key = props.get_property(message.properties, props.UNIQ_KEY) or ""
        # One more than the slot's time, so that the recall gets the same slot.
        handle = RecallHandle(topic, broker.config.broker_name, str(int(out_ms) + 1), key)
        answer.ext_fields["recallHandle"] = handle.encode()


def is_delayed(raw: bytes) -> bool:
    """Whether these properties request a later delivery, which is not allowed in a batch."""
    return delay_level(raw) > 0 or _has_timer(raw)


def _has_timer(raw: bytes) -> bool:
    return any(mark in raw for mark in TIMER_MARKS)

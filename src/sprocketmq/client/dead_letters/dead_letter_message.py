# SPDX-License-Identifier: Apache-2.0
"""One dead letter, the message that a replay makes of it, and the report about a replay of many."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Final

from sprocketmq.client.results import SendResult
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.errors import RocketMQError
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageExt, MessageQueue

_ROOM_BYTES: Final = 1_024  # for REPLAY_ID and what a broker adds: MSG_REGION, TRACE_ON
# Everything that was not there when the message was first sent.
_NOT_REPLAYED: Final = frozenset(
    {
        *(props.RETRY_REASON, props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID, props.RECONSUME_TIME, props.MAX_RECONSUME_TIMES),
        *(props.DLQ_ORIGIN_TOPIC, props.DLQ_ORIGIN_MESSAGE_ID, props.WAIT, props.DELAY, props.REAL_TOPIC, props.REAL_QID),
        *(props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS, props.TIMER_OUT_MS, props.TIMER_ENQUEUE_MS),
        *(props.TIMER_DEQUEUE_MS, props.TIMER_ROLL_TIMES, props.TIMER_DEL_UNIQKEY, props.TIMER_DELAY_LEVEL),
        *(props.TRAN_MSG, props.PGROUP, props.TRANSACTION_ID, props.TRANSACTION_CHECK_TIMES, props.TRAN_PREPARED_QUEUE_OFFSET),
        *(props.CHECK_IMMUNITY_TIME_IN_SECONDS, props.MIN_OFFSET, props.MAX_OFFSET, props.CONSUME_START_TIME),
        *(props.POP_CK, props.POP_CK_OFFSET, props.FIRST_POP_TIME, props.INNER_NUM, props.INNER_BASE, props.CRC32),
        *(props.INNER_MULTI_DISPATCH, props.INNER_MULTI_QUEUE_OFFSET, props.BORN_HOST, props.BORN_TIMESTAMP),
        *(props.CLUSTER, props.MSG_REGION, props.TRACE_ON, props.DUP_INFO, props.FORWARD_QUEUE_ID, props.REDIRECT),
        *(props.TRANSIENT_TOPIC_SYS_FLAG, props.TRANSIENT_GROUP_SYS_FLAG, props.TRACE_CONTEXT),
        *props.SPARK_MARKS,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeadLetterMessage:
    """One dead letter. ``message``: as it is stored: its topic is ``%DLQ%group``, its body, tags, keys and properties those of the
    message that failed. ``namespace``: of the client that read it, if it has one."""

    message: MessageExt
    namespace: str | None = None

    @property
    def message_id(self) -> str:
        """The id its first sender gave it."""
        return self.message.message_id

    @property
    def origin_topic(self) -> str | None:
        """The topic it was first sent to; None when nothing in it says so."""
        properties = self.message.properties
        stored = properties.get(props.RETRY_TOPIC) or properties.get(props.DLQ_ORIGIN_TOPIC)
        return None if stored is None else unwrap(self.namespace, stored)

    @property
    def origin_offset_message_id(self) -> str | None:
        """``offset_message_id`` of the copy that was first stored, for ``Admin.view_message`` as long as the broker keeps it."""
        properties = self.message.properties
        return properties.get(props.ORIGIN_MESSAGE_ID) or properties.get(props.DLQ_ORIGIN_MESSAGE_ID)

    @property
    def reason(self) -> str | None:
        """Why it was given up: the reason of ``DeadLetter("...")``, the type and text of what the listener raised the last time, or Spark's
        column ``reason``. None: the listener raised nothing, or another client consumed it."""
        return self.message.properties.get(props.RETRY_REASON)

    @property
    def dead_since_ms(self) -> int:
        """When it became a dead letter, in milliseconds since 1970."""
        return self.message.store_timestamp_ms

    @property
    def deliveries(self) -> int:
        """How often listeners had it."""
        return self.message.reconsume_times


@dataclass(slots=True)
class ReplayReport:
    """What ``replay_all`` did.

    Attributes:
        replayed: the acknowledgements, in order.
        error: why it stopped; None when it came to the end.
        failed: the letter that could not be sent.
        next_offsets: where to go on, per queue: pass it as ``start_offsets`` to continue, or later to replay only what came after.
    """

    replayed: list[SendResult] = field(default_factory=list)
    error: RocketMQError | None = None
    failed: DeadLetterMessage | None = None
    next_offsets: dict[MessageQueue, int] = field(default_factory=dict)


def replay_copy(letter: MessageExt, topic: str, replay_id: str | None = None) -> Message:
    """The message to send to ``topic`` so that a listener gets what was first sent. ``replay_id``: the same in each try of one
    replay; REPLAY_ID, by which who drops repeats knows a new life from a repeat: the message id and the number of tries are those
    of the first one. Left out where the properties of the first one have no room for it."""
    copy = Message(topic, letter.body, flag=letter.flag)
    copy.properties.update(
        {name: value for name, value in letter.properties.items() if name not in _NOT_REPLAYED and value}
    )
    replay_id = replay_id or uuid.uuid4().hex
    taken = sum(len(f"{name}{value}".encode("utf-8", "replace")) + 2 for name, value in copy.properties.items())
    if taken + _ROOM_BYTES <= props.MAX_PROPERTIES_BYTES:
        copy.properties[props.REPLAY_ID] = replay_id
    return copy

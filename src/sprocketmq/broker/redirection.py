# SPDX-License-Identifier: Apache-2.0
"""Redirected messages: REAL_TOPIC and REAL_QID in their properties hold the destination, for delay levels, timer and half messages (Java:
ScheduleMessageService, TimerMessageStore, TransactionalMessageBridge, each by itself)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sprocketmq.store import StoredMessage
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.record import Host, RecordView

_ALREADY: Final = b"REAL_"  # in the names of both properties
_END: Final = b"\x02"


def redirect(message: StoredMessage, raw: bytes, topic: str, queue_id: int) -> None:
    if _ALREADY in raw or not raw.endswith(_END):
        raw = props.set_property(raw, props.REAL_TOPIC, message.topic)
        message.properties = props.set_property(raw, props.REAL_QID, str(message.queue_id))
    else:  # nothing to replace: one search instead of four
        message.properties = raw + _destination(message.topic, message.queue_id)
    message.topic, message.queue_id = topic, queue_id


@lru_cache(maxsize=1024)
def _destination(topic: str, queue_id: int) -> bytes:
    return props.set_property(props.set_property(b"", props.REAL_TOPIC, topic), props.REAL_QID, str(queue_id))


def copy_of_record(record: RecordView, topic: str, raw: bytes, store_host: Host) -> StoredMessage:
    return StoredMessage(
        topic=topic,
        queue_id=0,
        body=bytes(record.body),
        properties=raw,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times,
        tags_code=tags_code(props.get_property(raw, props.TAGS)),
    )

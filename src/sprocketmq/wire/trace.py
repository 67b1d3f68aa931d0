# SPDX-License-Identifier: Apache-2.0
"""Message trace: records of sends and consumptions, as messages of the trace topic (Java: TraceDataEncoder, TraceContext, TraceBean).

    body = record*        record = field (0x01 field)* 0x02        a missing value is the text "null"

    Pub             type timestamp region group topic msgId tags keys storeHost bodyLength cost msgType offsetMsgId success
    SubBefore       type timestamp region group requestId msgId retryTimes keys
    SubAfter        type requestId msgId cost success keys contextCode [timestamp group]          the last two not in the cloud
    EndTransaction  type timestamp region group topic msgId tags keys storeHost msgType transactionId state fromCheck
    Recall          type timestamp region group topic msgId success                               (5.x)

SubBefore and SubAfter of one listener call have the same request id; SubAfter has neither region nor topic. The keys of the trace
message are the ids and keys of all its records. A record that cannot be read is left out: other clients write to the same topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import Final

import msgspec

CLOUD_TRACE_TOPIC_PREFIX: Final = "rmq_sys_TRACE_DATA_"
# MixAll.DEFAULT_TRACE_REGION_ID
DEFAULT_REGION: Final = "DefaultRegion"
_FIELD: Final = "\x01"
_RECORD: Final = "\x02"
_NULL: Final = "null"


class TraceType(str, Enum):
    """What a record is about."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


class MessageType(IntEnum):
    """Java's MessageType, by ordinal."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class ConsumeReturnType(IntEnum):
    """How a listener call ended (Java: ConsumeReturnType, by ordinal)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class TraceRecord(msgspec.Struct):
    """One record; what a type does not carry has its default.

    Attributes:
        timestamp_ms: when the send or the listener call began; for SUB_AFTER when it ended.
        region_id: the broker's region, "DefaultRegion" unless set there.
        keys: of the traced message, separated by blanks; None where it has none.
        store_host: the broker that was sent to.
        cost_ms: of the send, or the listener call per message.
        offset_message_id: of the stored copy.
        success: stored with SEND_OK, or consumed.
        request_id: joins SUB_BEFORE and SUB_AFTER.
        retry_times: deliveries before this one.
        transaction_id, transaction_state, from_transaction_check: of END_TRANSACTION.
    """

    trace_type: TraceType
    timestamp_ms: int = 0
    region_id: str = DEFAULT_REGION
    group: str = ""
    topic: str = ""
    message_id: str = ""
    tags: str | None = None
    keys: str | None = None
    store_host: str = ""
    body_length: int = 0
    cost_ms: int = 0
    message_type: MessageType = MessageType.NORMAL
    offset_message_id: str | None = None
    success: bool = True
    request_id: str = ""
    retry_times: int = 0
    context_code: int = 0
    transaction_id: str | None = None
    transaction_state: str = ""
    from_transaction_check: bool = False

    @property
    def index_keys(self) -> list[str]:
        """What the trace message must be found by: the message's id and its keys."""
        return [self.message_id, *(self.keys or "").split()]


def encode_trace(record: TraceRecord, *, cloud: bool = False) -> str:
    """The record as it stands in a trace message, separator included. ``cloud``: access channel CLOUD, which leaves the end of
    SubAfter out."""
    kind = record.trace_type
    head: tuple[object, ...] = (kind.value, record.timestamp_ms, record.region_id, record.group)
    message = (record.topic, record.message_id, record.tags, record.keys, record.store_host)
    fields: tuple[object, ...]
    if kind is TraceType.PUB:
        type_and_id = (record.message_type.value, record.offset_message_id)
        fields = (*head, *message, record.body_length, record.cost_ms, *type_and_id, record.success)
    elif kind is TraceType.SUB_BEFORE:
        fields = (*head, record.request_id, record.message_id, record.retry_times, record.keys)
    elif kind is TraceType.SUB_AFTER:
        end = () if cloud else (record.timestamp_ms, record.group)
        outcome = (record.cost_ms, record.success, record.keys, record.context_code)
        fields = (kind.value, record.request_id, record.message_id, *outcome, *end)
    elif kind is TraceType.END_TRANSACTION:
        transaction = (record.transaction_id, record.transaction_state, record.from_transaction_check)
        fields = (*head, *message, record.message_type.value, *transaction)
    else:
        fields = (*head, record.topic, record.message_id, record.success)
    text = _FIELD.join(map(_text, fields))
    # In the cloud Java ends SubAfter with a field separator that nothing follows.
    return text + (_FIELD if cloud and kind is TraceType.SUB_AFTER else "") + _RECORD


def decode_trace(body: bytes) -> list[TraceRecord]:
    """The records of one trace message, in order, without those that cannot be read."""
    records: list[TraceRecord] = []
    for line in body.decode("utf-8", "replace").split(_RECORD):
        if line:
            try:
                record = _read(line.split(_FIELD))
            except (ValueError, IndexError):
                continue
            if record is not None:
                records.append(record)
    return records


def _read(field: list[str]) -> TraceRecord | None:
    try:
        kind = TraceType(field[0])
    except ValueError:
        return None
    if kind is TraceType.SUB_AFTER:
        record = TraceRecord(kind, request_id=field[1], message_id=field[2], cost_ms=int(field[3]))
        record.success, record.keys = _flag(field[4]), _maybe(field[5])
        if len(field) >= 7:
            record.context_code = int(field[6])
        if len(field) >= 9:
            record.timestamp_ms, record.group = int(field[7]), field[8]
        return record
    record = TraceRecord(kind, int(field[1]), field[2], field[3])
    if kind is TraceType.SUB_BEFORE:
        record.request_id, record.message_id = field[4], field[5]
        record.retry_times, record.keys = int(field[6]), _maybe(field[7])
        return record
    record.topic, record.message_id = field[4], field[5]
    if kind is TraceType.RECALL:
        record.success = _flag(field[6])
        return record
    record.tags, record.keys, record.store_host = _maybe(field[6]), _maybe(field[7]), field[8]
    if kind is TraceType.PUB:
        record.body_length, record.cost_ms = int(field[9]), int(field[10])
        record.message_type = MessageType(int(field[11]))
        if len(field) == 13:  # clients before offsetMsgId
            record.success = _flag(field[12])
        elif len(field) >= 14:
            record.offset_message_id, record.success = _maybe(field[12]), _flag(field[13])
        return record
    record.message_type = MessageType(int(field[9]))
    record.transaction_id, record.transaction_state = _maybe(field[10]), field[11]
    record.from_transaction_check = _flag(field[12])
    return record


def trace_keys(records: Iterable[TraceRecord]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record.index_keys if key))


def _text(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _maybe(text: str) -> str | None:
    return None if text == _NULL else text


def _flag(text: str) -> bool:
    return text.lower() == "true"

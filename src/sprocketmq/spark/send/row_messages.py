# SPDX-License-Identifier: Apache-2.0
"""Converts rows into messages: which columns the sink accepts (docs/spark/write.md), and the Message of a row."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.dead_letters.dead_letter_message import replay_copy
from sprocketmq.client.settings.validators import MAX_BODY_BYTES, check_sendable_topic, check_time_ms
from sprocketmq.core.resource_names import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.core.retry.retry_schedule import MOST_DELAY_LEVELS
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.columns.cells import cells
from sprocketmq.spark.options.given_options import our_name_for
from sprocketmq.spark.options.source_columns import COLUMNS, COPY_COLUMNS
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageExt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SEND_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "queueId": ("int",),
    "brokerName": ("string",),
    "delayLevel": ("int",),
    "deliverTimeMs": ("bigint",),
}
ACK_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "brokerName": ("string",),
    "commitLogOffset": ("bigint",),
    "action": ("string",),
    "reason": ("string",),
    "delayLevel": ("int",),
    "topic": ("string",),
    "messageId": ("string",),
    "reconsumeTimes": ("int",),
    "body": ("binary",),
    "properties": ("map<string,string>",),
    "storeHost": ("string",),
    "sysFlag": ("int",),
}
# Dead letters are sent as they are; their other columns are ignored.
REPLAY_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "properties": ("map<string,string>",),
}
_KNOWN: Final = {"send": SEND_COLUMNS, "ack": ACK_COLUMNS, "replay": REPLAY_COLUMNS}
_REQUIRED: Final = {
    "send": ("body",),
    "ack": ("brokerName", "commitLogOffset", "action"),
    "replay": ("body", "properties"),
}
# A row that was read and is written becomes a new message, without the id, tries, marks and place of the old one. What should be kept has
# a column (tags, keys, shardingKey).
LEFT_OUT: Final = props.OF_ONE_MESSAGE
# With room for those that the sink, the client and the broker add: ids, marks, the region.
MOST_PROPERTIES_BYTES: Final = props.MAX_PROPERTIES_BYTES - 1_024

# Called with a row that cannot be a message.
Refuse = Callable[[Mapping[str, Any], ConfigurationError], None]


def _raised(row: Mapping[str, Any], error: ConfigurationError) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class OutgoingRow:
    """One row to be sent. ``queue_id`` -1 means any queue."""

    message: Message
    sharding_key: str | None = None
    broker_name: str | None = None
    queue_id: int = -1
    deliver_time_ms: int | None = None

    @property
    def alone(self) -> bool:
        return self.message.delay_level > 0 or self.deliver_time_ms is not None

    @property
    def is_bound(self) -> bool:
        """Whether the row is bound to a queue, by its number or by a key, so that order counts."""
        return self.queue_id >= 0 or self.sharding_key is not None


def check_columns(schema: StructType, mode: str, topic: str | None) -> None:
    """Raises ConfigurationError (a column is missing, unknown or of another type)."""
    known = _KNOWN[mode]
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name in _REQUIRED[mode]:
        if name not in types:
            meant = next((column for column in types if _meant_column(column, known) == name), None)
            hint = f"; rename {meant!r}" if meant else ""
            there = ", ".join(types) or "no columns"
            raise ConfigurationError(
                f"the rows have no column {name!r}, which a write with mode {mode} needs; they have {there}{hint}"
            )
    if mode == "ack" and "reason" in types and (lacking := [name for name in COPY_COLUMNS if name not in types]):
        raise ConfigurationError(
            f"the rows have a column 'reason' and lack {', '.join(lacking)}: a reason is sent with a copy of the message; keep these "
            "columns"
        )
    if mode != "ack" and topic is None and "topic" not in types:
        raise ConfigurationError('no topic is given; add .option("topic", "...") or a column topic')
    for name, kind in types.items():
        allowed = known.get(name)
        if allowed is None and name not in COLUMNS:
            ours = _meant_column(name, known)
            hint = f"; did you mean {ours}?" if ours else ""
            raise ConfigurationError(
                f"column {name!r} is unknown to the sink; known are {', '.join(known)}; drop or rename it{hint}"
            )
        if allowed is not None and kind not in allowed:
            raise ConfigurationError(f"column {name!r} is {kind}; {' or '.join(allowed)} is allowed; cast it")


def _meant_column(column: str, known: Mapping[str, object]) -> str | None:
    """The known column that is probably meant: another case, the name in Kafka's sink, or a misspelling."""
    cases = {name.lower(): name for name in known}
    near = difflib.get_close_matches(column.lower(), cases, 1)
    return our_name_for(column, known) or (cases[near[0]] if near else None)


def columns_of(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    """The columns that the sink knows. Bodies are bytes, whatever they are; a text that is not UTF-8 is one that no message may hold."""
    import pyarrow as pa

    found = {name: batch.column(name) for name in batch.schema.names if name in SEND_COLUMNS}
    if "body" in found:
        found["body"] = found["body"].cast(pa.binary())
    return {name: cells(column, "surrogateescape") for name, column in found.items()}


def replayed_rows(
    columns: Mapping[str, Sequence[Any]],
    topic: str | None,
    replay_id: str | None = None,
    refuse: Refuse = _raised,
    max_bytes: int = MAX_BODY_BYTES,
) -> Iterator[OutgoingRow]:
    """Dead letters (rows of ``deadLettersOf``) as they were first sent, with the row's body, which may be corrected. Without ``topic``
    each goes to the topic it came from, by its sharding key if it had one. ``replay_id`` is the same for all rows of one replay.
    ``refuse``: as of ``outgoing_rows`` (a row does not say where it came from, or has no body)."""
    topics = columns.get("topic") or [None] * len(columns["body"])
    for body, row_topic, pairs in zip(columns["body"], topics, columns["properties"], strict=True):
        properties = dict(pairs or ())
        try:
            row = _replayed(body, topic or row_topic, properties, replay_id, max_bytes)
        except ConfigurationError as error:
            own = {"tags": properties.get(props.TAGS), "keys": properties.get(props.KEYS)}
            refuse({"body": body, "topic": row_topic, **own, "properties": pairs}, error)
        else:
            yield row


def _replayed(
    body: bytes | None, to: str | None, properties: Mapping[str, str], replay_id: str | None, max_bytes: int
) -> OutgoingRow:
    if not to or to.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        raise ConfigurationError(
            f"a row to be replayed names the topic {to!r}, which is not its original topic; read it with deadLettersOf, "
            'or add .option("topic", "...") for all rows'
        )
    check_sendable_topic(to)
    letter = MessageExt(to, _checked_body(to, body, max_bytes))
    letter.properties.update(properties)
    copy = replay_copy(letter, to, replay_id)
    _check_properties(copy)
    return OutgoingRow(copy, copy.properties.get(props.SHARDING_KEY))


def outgoing_rows(
    columns: Mapping[str, Sequence[Any]],
    topic: str | None,
    refuse: Refuse = _raised,
    max_bytes: int = MAX_BODY_BYTES,
    max_delay_level: int | None = MOST_DELAY_LEVELS,
) -> Iterator[OutgoingRow]:
    """``columns``: of ``columns_of``. ``refuse``: called with each row that cannot be a message, and the error (no topic or body, an
    invalid topic, too long a body, no such delay, or a value that no message may hold); by default the first error is raised.
    ``max_delay_level``: None for half messages, which cannot be delayed."""
    count = len(columns["body"])
    nothing: Sequence[Any] = [None] * count

    def column(name: str) -> Sequence[Any]:
        return columns.get(name, nothing)

    for values in zip(*(column(name) for name in SEND_COLUMNS), strict=True):
        try:
            row = _outgoing(values, topic, max_bytes, max_delay_level)
        except ConfigurationError as error:
            refuse(dict(zip(SEND_COLUMNS, values, strict=True)), error)
        else:
            yield row


def _outgoing(values: Sequence[Any], topic: str | None, max_bytes: int, max_delay_level: int | None) -> OutgoingRow:
    body, row_topic, tags, keys, properties, sharding_key, queue_id, broker_name, delay_level, deliver_time_ms = values
    to = topic or row_topic
    if not to:
        raise ConfigurationError(
            'a row has no topic; fill the column topic, or add .option("topic", "...") for all rows'
        )
    if not topic:
        check_sendable_topic(to)
        if to.startswith(RETRY_PREFIX):
            raise ConfigurationError(
                f"a row names the topic {to!r}, to which a group's failed messages go; send it to a topic of your own"
            )
    _checked_body(to, body, max_bytes)
    if queue_id is not None and queue_id < 0:
        raise ConfigurationError(
            f"a row for topic {to!r} has queueId {queue_id}, a whole number from 0 is allowed, or null for any queue"
        )
    if delay_level or deliver_time_ms is not None:
        _check_delay(to, delay_level or 0, deliver_time_ms, max_delay_level)
    message = Message(
        to,
        body,
        tags=tags or None,
        keys=keys or None,
        properties={name: text for name, text in properties or () if name not in LEFT_OUT and text},
        delay_level=delay_level or 0,
    )
    if sharding_key:
        message.properties[props.SHARDING_KEY] = props.checked_value("shardingKey", sharding_key)
    _check_properties(message)
    return OutgoingRow(
        message, sharding_key or None, broker_name, -1 if queue_id is None else queue_id, deliver_time_ms
    )


def _checked_body(topic: str, body: bytes | None, max_bytes: int) -> bytes:
    if not body:
        raise ConfigurationError(
            f"a row for topic {topic!r} has {'no' if body is None else 'an empty'} body, which RocketMQ does not store; filter it out"
        )
    if len(body) > max_bytes:
        raise ConfigurationError(
            f"a row for topic {topic!r} has a body of {len(body)} bytes, maxMessageBytes allows {max_bytes}; filter it out, set "
            "onError, or allow more where the brokers do (maxMessageSize)"
        )
    return body


def _check_properties(message: Message) -> None:
    size_bytes = len(message.properties_text.encode())
    if size_bytes > MOST_PROPERTIES_BYTES:
        raise ConfigurationError(
            f"a row for topic {message.topic!r} has tags, keys and properties of {size_bytes} bytes, {MOST_PROPERTIES_BYTES} are allowed; "
            "put large values into the body"
        )


def _check_delay(topic: str, level: int, deliver_time_ms: int | None, max_delay_level: int | None) -> None:
    if max_delay_level is None:
        raise ConfigurationError(
            f"a row for topic {topic!r} has a delay, which delivery=transactional cannot keep; leave delayLevel and deliverTimeMs out, or "
            "write these rows with another delivery"
        )
    if level and deliver_time_ms is not None:
        raise ConfigurationError(
            f"a row for topic {topic!r} has delayLevel {level} and deliverTimeMs {deliver_time_ms}, of which a broker would take the "
            "level; at most one is allowed"
        )
    if not 0 <= level <= max_delay_level:
        raise ConfigurationError(
            f"a row for topic {topic!r} has delayLevel {level}, a whole number from 0 to {max_delay_level} is allowed; if the brokers have "
            "more levels (messageDelayLevel), set maxDelayLevel"
        )
    if deliver_time_ms is not None:
        check_time_ms("deliverTimeMs", deliver_time_ms)

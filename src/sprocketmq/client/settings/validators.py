# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments and options before any I/O (Java: Validators, DefaultMQPushConsumerImpl.checkConfig). Each check returns the
plain value (``plain_values``), with which its caller goes on, or raises ConfigurationError.

Names: ``% | a-z A-Z 0-9 _ -``; topics to 127 characters (255 for %RETRY% and %DLQ%, which carry a group name), groups to 120, the
stricter limit of 5.x, so that a group made here can move to any cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from sprocketmq.core.resource_names import (
    DLQ_PREFIX,
    MAX_RETRY_TOPIC_LENGTH,
    MAX_TOPIC_LENGTH,
    NAME_PATTERN,
    NOT_ALLOWED_SEND_TOPICS,
    RETRY_PREFIX,
    control_character_problem,
    is_retry_topic,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.plain_values import plain_int, plain_text
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageQueue, check_flag, encoding_advice

# DefaultMQProducer.maxMessageSize
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_OFFSET: Final = 1 << 62
"""The limit of offsets and of times in milliseconds: sums of them still fit a Java long."""
_EARLIEST_TIME_MS: Final = 1_000_000_000_000
"""September 2001. A smaller number is probably in seconds instead of milliseconds."""
DAY_MS: Final = 86_400_000
MAX_INT: Final = 0x7FFFFFFF
_MAX_GROUP: Final = 120
_RESERVED_GROUPS: Final = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


def check_topic(topic: str, what: str = "topic") -> str:
    """``what`` is what the sentence calls it."""
    if not isinstance(topic, str) or not topic:
        raise ConfigurationError(f"{what} is {topic!r}, a name of 1 to {MAX_TOPIC_LENGTH} characters is needed")
    limit = MAX_RETRY_TOPIC_LENGTH if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_LENGTH
    if len(topic) > limit:
        raise ConfigurationError(f"{what} {topic[:40]!r}... has {len(topic)} characters, at most {limit} are allowed")
    if not NAME_PATTERN.fullmatch(topic):
        raise ConfigurationError(
            f"{what} {topic!r} has characters that are not allowed; use letters, digits, '_', '-', '%' and '|'"
        )
    return plain_text(topic)


def check_sendable_topic(topic: str) -> str:
    """Not one that only brokers write to."""
    topic = check_topic(topic)
    if topic in NOT_ALLOWED_SEND_TOPICS:
        raise ConfigurationError(f"topic {topic!r} belongs to the broker, send to a topic of your own")
    return topic


def check_group(group: str, what: str = "group") -> str:
    """Not one of Java's reserved default names."""
    if not isinstance(group, str) or not group.strip():
        raise ConfigurationError(f"{what} is {group!r}, a name of 1 to {_MAX_GROUP} characters is needed")
    if len(group) > _MAX_GROUP:
        raise ConfigurationError(
            f"{what} {group[:40]!r}... has {len(group)} characters, at most {_MAX_GROUP} are allowed"
        )
    if not NAME_PATTERN.fullmatch(group):
        raise ConfigurationError(
            f"{what} {group!r} has characters that are not allowed; use letters, digits, '_', '-', '%' and '|'"
        )
    if group in _RESERVED_GROUPS:
        raise ConfigurationError(f"{what} {group!r} is reserved by RocketMQ, choose a name of your own")
    return plain_text(group)


def check_message(message: Message, max_body_bytes: int = MAX_BODY_BYTES) -> Message:
    """Its topic, and its body before compression, which is not empty and within the limit."""
    if not isinstance(message, Message):
        raise ConfigurationError(f"message is {type(message).__name__}, a sprocketmq.Message is needed")
    message.topic = check_sendable_topic(message.topic)
    if not isinstance(message.body, bytes):
        raise ConfigurationError(
            f"the body of the message to {message.topic!r} is {type(message.body).__name__}, bytes are allowed; "
            f"{encoding_advice(message.body)}"
        )
    message.flag = check_flag(message.flag)
    if not message.body:
        raise ConfigurationError(f"the body of the message to {message.topic!r} is empty, at least 1 byte is needed")
    if len(message.body) > max_body_bytes:
        raise ConfigurationError(
            f"the body of the message to {message.topic!r} has {len(message.body)} bytes, at most {max_body_bytes} are allowed "
            "(max_message_bytes); split it or store it elsewhere and send a reference"
        )
    return message


def check_batch(messages: Sequence[Message], max_body_bytes: int = MAX_BODY_BYTES) -> Sequence[Message]:
    """The rules of MessageBatch.generateFromList: one topic, one wait flag, no delay, no retry topic."""
    given: object = messages
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise ConfigurationError(f"messages is {type(messages).__name__}, a list of sprocketmq.Message is needed")
    if not messages:
        raise ConfigurationError("the batch is empty, at least one message is needed")
    first = messages[0]
    for message in messages:
        check_message(message, max_body_bytes)
        if message.topic != first.topic:
            raise ConfigurationError(
                f"the batch mixes topics {first.topic!r} and {message.topic!r}, one topic per batch is allowed"
            )
        if message.wait_store_msg_ok != first.wait_store_msg_ok:
            raise ConfigurationError("the batch mixes wait_store_msg_ok True and False, one value per batch is allowed")
        if message.delay_level or props.TIMER_DELIVER_MS in message.properties:
            raise ConfigurationError("a message of the batch is delayed, delayed messages must be sent one by one")
    if is_retry_topic(first.topic):
        raise ConfigurationError(f"topic {first.topic!r} is a retry topic, batches may not be sent there")
    return messages


def check_range(name: str, value: int, low: int, high: int) -> int:
    number = plain_int(value)
    if type(number) is not int or not low <= number <= high:
        raise ConfigurationError(f"{name} is {value!r}, a whole number from {low} to {high} is allowed")
    return number


def check_timeout_ms(timeout_ms: int) -> int:
    return check_range("timeout_ms", timeout_ms, 1, DAY_MS)


def check_time_ms(name: str, value: int | datetime, *, or_zero: bool = False) -> int:
    """Milliseconds since 1970, from 2001 on (less are seconds), or a datetime with a time zone: without one it would mean another
    time on another machine. ``or_zero``: 0 is allowed, too, and means from the beginning."""
    if isinstance(value, datetime) and value == value:  # pandas.NaT is a datetime, and no time
        if value.utcoffset() is None:
            raise ConfigurationError(
                f"{name} is {value!r} without a time zone; a datetime with one is allowed, as value.astimezone() makes it of local time"
            )
        value = int(value.timestamp() * 1000)
    value_ms = check_range(name, value, 0, MAX_OFFSET)  # type: ignore[arg-type]
    if value_ms < _EARLIEST_TIME_MS and not (or_zero and value_ms == 0):
        day = datetime.fromtimestamp(value_ms / 1000, UTC).date()
        raise ConfigurationError(
            f"{name} is {value_ms}, which is {day} in milliseconds since 1970; a time from 2001 on is allowed, seconds times 1000"
        )
    return value_ms


def check_text(name: str, value: str) -> str:
    """The value, when it is text that can be sent, logged and read: not blank, no control characters, no lone surrogates."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is {value!r} ({type(value).__name__}), text (str) is allowed")
    if not value or value.isspace():
        raise ConfigurationError(f"{name} is {value!r}, text that is not blank is allowed; leave it out for none")
    problem = control_character_problem(name, value)
    if problem is not None:
        raise ConfigurationError(problem)
    return plain_text(value)


def check_queue(queue: MessageQueue, name: str = "queue") -> MessageQueue:
    """MessageQueue takes anything, for speed."""
    if (
        not isinstance(queue, MessageQueue)
        or not isinstance(queue.topic, str)
        or not isinstance(queue.broker_name, str)
        or type(number := plain_int(queue.queue_id)) is not int
        or not 0 <= number <= MAX_INT
    ):
        raise ConfigurationError(
            f"{name} is {queue!r}, a MessageQueue(topic, broker_name, queue_id) of text, text and a whole number is allowed"
        )
    if type(queue.topic) is str and type(queue.broker_name) is str and number is queue.queue_id:
        return queue
    return MessageQueue(plain_text(queue.topic), plain_text(queue.broker_name), number)


def check_settings(settings: Struct, own: frozenset[str] = frozenset()) -> None:
    """The fields of ``settings`` that are a bool, an int or text have such a value, and a plain one from now on; the settings check
    the ranges themselves. ``own``: fields that the settings check in their own words."""
    annotations = type(settings).__annotations__
    for name in settings.__struct_fields__:
        kind = annotations[name].removesuffix(" | None")
        value = getattr(settings, name)
        plain = (
            plain_text(value)
            if kind == "str" and isinstance(value, str)
            else plain_int(value)
            if kind == "int"
            else value
        )
        if plain is not value:
            force_setattr(settings, name, value := plain)
        if name in own or (value is None and kind != annotations[name]):
            continue
        if kind == "bool" and not isinstance(value, bool):
            raise ConfigurationError(f"{name} is {value!r}, True or False is allowed")
        if kind == "int" and type(value) is not int:
            raise ConfigurationError(f"{name} is {value!r}, a whole number is allowed")
        if kind == "str":
            check_text(name, value)


def check_duration(name: str, value: float) -> float:
    """The value, when it is a number of milliseconds, 0 at least, that a timer can wait for; else ConfigurationError."""
    number = plain_int(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= MAX_INT:
        raise ConfigurationError(f"{name} is {value!r}, a number from 0 to {MAX_INT} is allowed")
    return float(number) if isinstance(number, float) else number

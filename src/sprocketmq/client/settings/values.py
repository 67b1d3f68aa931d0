# SPDX-License-Identifier: Apache-2.0
"""Values instead of bytes: the functions that convert between them (no Java counterpart; Kafka's clients have both options).

A serializer makes the body at once, where the value is given; a deserializer reads it when ``message.value`` is first read. An
option is one function for all topics, or a mapping of topics to functions. Any function with such an argument and result may be
used: ``msgspec.json.Decoder(Order).decode``, ``Order.model_validate_json`` of pydantic.

Rules
1. A serializer that fails is its caller's error; nothing is sent.
2. A body that cannot be deserialized fails where ``message.value`` is read, with the topic, the id and the reason. Nothing else of
   the message is affected, and the queue goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from sprocketmq.client.settings.validators import check_topic
from sprocketmq.core.callbacks import check_callback
from sprocketmq.errors import ConfigurationError, described
from sprocketmq.wire.records.message import MessageExt

Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]
Serializers = Serializer | Mapping[str, Serializer]
Deserializers = Deserializer | Mapping[str, Deserializer]


def json_serializer(value: object) -> bytes:
    """JSON in UTF-8, as msgspec writes it: also dataclasses, structs, enums, datetimes, UUIDs and decimals; NaN and infinity become
    null, bytes become base64. Raises TypeError (there is no JSON for it)."""
    return msgspec.json.encode(value)


def json_deserializer(body: bytes) -> Any:
    """The value of a JSON text in UTF-8: dict, list, str, int, float, bool or None. Raises ValueError (it is no JSON)."""
    return msgspec.json.decode(body)


def text_serializer(value: str) -> bytes:
    """Text in UTF-8. ``value``: the text. Returns the body. Raises TypeError (it is no text)."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text (str)")
    return value.encode()


def text_deserializer(body: bytes) -> str:
    """Text in UTF-8. ``body``: the text's bytes. Raises ValueError (it is no UTF-8)."""
    return body.decode()


def bytes_serializer(value: bytes | bytearray | memoryview) -> bytes:
    """Bytes as they are, for a topic of its own in a mapping. Raises TypeError (it is no bytes)."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{type(value).__name__} is no bytes")
    return bytes(value)


def bytes_deserializer(body: bytes) -> bytes:
    """Bytes as they are, for a topic of its own in a mapping."""
    return body


def check_value_functions(name: str, functions: object, parameter: str) -> None:
    if isinstance(functions, Mapping):
        for topic, function in functions.items():
            check_topic(topic, f"a topic of {name}")
            check_callback(f"{name} of {topic!r}", function, parameter)
    elif functions is not None:
        check_callback(name, functions, parameter, "or a dict of topics and functions")


def serialized(functions: Serializers | None, topic: str, value: object, whose: str) -> bytes:
    """The body for ``value``. Raises ConfigurationError (there is no serializer for the topic, it failed, or returned no bytes)."""
    serialize = functions.get(topic) if isinstance(functions, Mapping) else functions
    if serialize is None:
        where = f" for topic {topic!r}" if functions is not None else ""
        raise ConfigurationError(
            f"{whose} has no value_serializer{where}; give one, as in value_serializer=json_serializer, or send Message(topic, body)"
        )
    try:
        body = serialize(value)
    except Exception as error:
        raise ConfigurationError(
            f"the value for topic {topic!r} cannot be serialized ({type(value).__name__}): {described(error)}"
        ) from error
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigurationError(
            f"the value_serializer of topic {topic!r} returned {type(body).__name__}, bytes are allowed"
        )
    return bytes(body)


def use_deserializers(functions: Deserializers | None, messages: Iterable[MessageExt]) -> None:
    if functions is None:
        return
    if not isinstance(functions, Mapping):
        for message in messages:
            message._deserialize = functions
        return
    for message in messages:
        if (function := functions.get(message.topic)) is not None:
            message._deserialize = function

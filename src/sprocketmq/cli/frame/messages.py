# SPDX-License-Identifier: Apache-2.0
"""Messages as text and as JSON: ``tail --json`` writes one object for each line, and ``send --file`` reads them. Body, tag, keys and user
properties survive that; properties that brokers and clients add are left out. A body that is not UTF-8 is ``body_base64``."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.cli.frame.values import time_text
from sprocketmq.core.hex_dump import hex_dump
from sprocketmq.errors import ConfigurationError
from sprocketmq.logs import escaped

if TYPE_CHECKING:
    from sprocketmq.wire.records.message import Message, MessageExt

_MAX_HEX_BYTES: Final = 2_000
_MAX_LINE_BODY: Final = 200
_IGNORED_FIELDS: Final = frozenset(
    (
        "topic",
        "message_id",
        "broker_name",
        "queue_id",
        "queue_offset",
        "store_timestamp_ms",
        "born_timestamp_ms",
        "reconsume_times",
    )
)
_FIELDS: Final = frozenset(("body", "body_base64", "tag", "key", "keys", "properties", "sharding_key"))


def as_dict(message: MessageExt) -> dict[str, Any]:
    from sprocketmq.wire.records import properties as props

    row: dict[str, Any] = {
        "topic": message.topic,
        "message_id": message.message_id,
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "born_timestamp_ms": message.born_timestamp_ms,
        "store_timestamp_ms": message.store_timestamp_ms,
        "reconsume_times": message.reconsume_times,
        "tag": message.tags,
        "keys": message.keys,
        "sharding_key": message.properties.get(props.SHARDING_KEY),
        "properties": {name: value for name, value in message.properties.items() if name not in props.OF_ONE_MESSAGE},
    }
    try:
        row["body"] = message.body.decode()
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(message.body).decode()
    return row


def message_line(message: MessageExt) -> str:
    marks = [f"[{message.tags}]"] * bool(message.tags) + [" ".join(message.keys)] * bool(message.keys)
    place = f"{time_text(message.store_timestamp_ms)} {message.broker_name}/{message.queue_id}@{message.queue_offset}"
    try:
        text = message.body.decode()
    except UnicodeDecodeError:
        text = repr(message.body[:_MAX_LINE_BODY])
    more = f"... ({len(message.body):,} bytes)" if len(text) > _MAX_LINE_BODY else ""
    return " ".join([escaped(one) for one in (place, *marks, text[:_MAX_LINE_BODY] + more) if one])


def body_text(body: bytes, form: str = "auto") -> str:
    """A body for a terminal. ``form``: "text" (control characters escaped), "json" (indented) or "hex"; "auto" tries JSON objects and
    lists, then text, then hex."""
    if form in ("auto", "json"):
        try:
            found = json.loads(body)
            if isinstance(found, dict | list) or form == "json":
                return json.dumps(found, indent=2, ensure_ascii=True)
        except (ValueError, RecursionError) as error:  # RecursionError: thousands of brackets
            if form == "json":
                raise ConfigurationError(f"the body is no JSON ({error}); --body text, hex or raw shows it") from error
    if form != "hex":
        try:
            return _printable(body.decode())
        except UnicodeDecodeError:
            if form == "text":
                return _printable(body.decode("utf-8", "backslashreplace"))
    return hex_dump(body[:_MAX_HEX_BYTES]) + (
        f"\n... {len(body) - _MAX_HEX_BYTES:,} bytes more" if len(body) > _MAX_HEX_BYTES else ""
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else escaped(char) for char in text)


def message_of(topic: str, row: Mapping[str, Any]) -> tuple[Message, str | None]:
    """The message that a JSON object describes, and its sharding key. A ``body`` that is not a string is sent as JSON."""
    from sprocketmq.wire.records.message import Message

    unknown = sorted(row.keys() - _FIELDS - _IGNORED_FIELDS)
    if unknown:
        raise ConfigurationError(f"a message has no {unknown[0]!r}; {', '.join(sorted(_FIELDS))} are allowed")
    if "body_base64" in row:
        try:
            body = base64.b64decode(row["body_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ConfigurationError(f"body_base64 is no base64 ({error})") from error
    elif isinstance(row.get("body"), str):
        body = row["body"].encode()
    elif "body" in row:
        body = json.dumps(row["body"], ensure_ascii=False).encode()
    else:
        raise ConfigurationError("a message has no body; give body, or body_base64")
    keys = row.get("keys") or row.get("key")
    message = Message(
        topic, body, tags=row.get("tag") or None, keys=keys or None, properties=row.get("properties") or None
    )
    return message, row.get("sharding_key") or None

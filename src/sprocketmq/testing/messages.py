# SPDX-License-Identifier: Apache-2.0
"""A message as a listener gets it, without a broker: for tests of a listener's own code."""

from __future__ import annotations

import time
from typing import Any, Final

from sprocketmq.client.settings.values import json_serializer
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt

_NOT_GIVEN: Final[Any] = object()


def message(
    topic: str, body: bytes | None = None, *, value: Any = _NOT_GIVEN, message_id: str = "", **fields: Any
) -> MessageExt[Any]:
    """A received message for a direct call of a listener: ``handle(message("orders", value={"id": 1}))``.

    ``body``: default the JSON of ``value``, which ``message.value`` is. ``message_id``: default one that no other message has.
    ``fields``: others of Message and MessageExt: ``tags``, ``reconsume_times``, ``queue_offset`` and so on. Raises
    ConfigurationError (there is neither a body nor a value, or a field is wrong).
    """
    if body is None:
        if value is _NOT_GIVEN:
            raise ConfigurationError(
                "body and value are both missing; give one, as in message('orders', value={'id': 1})"
            )
        body = value if isinstance(value, bytes) else json_serializer(value)
    now_ms = time.time_ns() // 1_000_000
    made = MessageExt[Any](
        topic, body, **{"broker_name": "broker-a", "born_timestamp_ms": now_ms, "store_timestamp_ms": now_ms, **fields}
    )
    made.properties[props.UNIQ_KEY] = message_id or f"{time.time_ns():032X}"
    if value is not _NOT_GIVEN:
        made._value = value
    return made

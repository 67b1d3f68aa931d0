# SPDX-License-Identifier: Apache-2.0
"""The form of messages in log lines: the id, the keys and the number of the try, because people search for these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message, MessageExt

_SHOWN: Final = 5


def logged_message(message: Message, message_id: str, count: str = "") -> str:
    """``7F00... (keys N14228 UA5, try 2)``. ``count``: the number of the try, in words; none by default."""
    keys = message.properties.get(props.KEYS)
    facts = [f"keys {keys}"] * bool(keys) + [count] * bool(count)
    return f"{message_id} ({', '.join(facts)})" if facts else message_id


def logged_messages(messages: Sequence[MessageExt], max_reconsume_times: int | None = None) -> str:
    """The messages of a listener call; if there are many, the first few. Never raises, whatever the listener did to them."""
    of = "" if max_reconsume_times is None else f" of {max_reconsume_times + 1}"
    try:
        shown = [logged_message(one, one.message_id, f"try {one.reconsume_times + 1}{of}") for one in messages[:_SHOWN]]
    except Exception:  # noqa: BLE001 - a listener may put anything into its messages
        return "messages that the listener has changed"
    return ", ".join(shown) + (f" and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else "")

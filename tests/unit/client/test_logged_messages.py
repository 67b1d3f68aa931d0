# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sprocketmq.client.logged_messages import logged_message, logged_messages
from sprocketmq.wire.records.message import Message, MessageExt
from sprocketmq.wire.records.properties import UNIQ_KEY


def stored(number: int, **fields: Any) -> MessageExt:
    message = MessageExt("flights", b"x", **fields)
    message.properties[UNIQ_KEY] = f"7F{number}"
    return message


def test_a_message_is_named_by_its_id_its_keys_and_its_try():
    assert logged_messages([stored(1, keys=["N1", "UA5"], reconsume_times=2), stored(2)]) == (
        "7F1 (keys N1 UA5, try 3), 7F2 (try 1)"
    )
    assert logged_message(Message("flights", b"x"), "7F") == "7F"
    assert logged_message(Message("flights", b"x", keys="N1"), "7F", "check 2") == "7F (keys N1, check 2)"


def test_of_many_messages_the_first_are_named():
    named = logged_messages([stored(number) for number in range(7)])
    assert named.startswith("7F0 (try 1), ")
    assert named.endswith("7F4 (try 1) and 2 more")


@pytest.mark.parametrize("value", ["1", None])
def test_what_a_listener_did_to_a_message_does_not_keep_the_line_from_the_log(value):
    message = stored(1)
    message.reconsume_times = value
    assert logged_messages([message]) == "messages that the listener has changed"
    message = stored(1)
    message.properties["KEYS"] = 5  # type: ignore[assignment]
    assert logged_messages([message]) == "7F1 (keys 5, try 1)"

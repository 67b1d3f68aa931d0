# SPDX-License-Identifier: Apache-2.0
"""Small builders shared by the tests of core."""

from __future__ import annotations

from sprocketmq.wire.records.message import MessageExt, MessageQueue

QUEUE = MessageQueue("flights", "broker-a", 0)


def message(offset: int, body: bytes = b"x", reconsume_times: int = 0, topic: str = "flights") -> MessageExt:
    return MessageExt(topic, body, queue_offset=offset, reconsume_times=reconsume_times, broker_name="broker-a")


def messages(*offsets: int) -> list[MessageExt]:
    return [message(offset) for offset in offsets]


def offsets_of(found: list[MessageExt]) -> list[int]:
    return [one.queue_offset for one in found]

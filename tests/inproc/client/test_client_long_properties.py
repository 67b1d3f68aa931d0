# SPDX-License-Identifier: Apache-2.0
"""Messages whose properties leave no room for what a copy needs: they are tried a bounded number of times and end as a dead letter."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.client.dead_letters.dead_letter_message import replay_copy
from sprocketmq.wire.records import properties as props


def full(room_bytes: int) -> rmq.Message:
    """With as many bytes of properties as a broker takes, but ``room_bytes``."""
    message = rmq.Message("flights", b"x", keys="k", properties={"year": "2013", "FILL": "f"})
    message.properties[props.UNIQ_KEY] = "AB" * 16
    taken = len(props.encode_properties(message.properties))
    message.properties["FILL"] = "f" * (props.MAX_PROPERTIES_BYTES - taken + 1 - room_bytes)
    return message


@pytest.mark.parametrize("kind", ["message", "orderly"])
@pytest.mark.parametrize(("room_bytes", "is_cut"), [(62, True), (80, True), (150, False)])
def test_a_message_without_room_for_a_copy_ends_as_a_dead_letter(
    rocketmq, producer, consumers, caplog, kind, room_bytes, is_cut
):
    """A broker adds 62 bytes of its own. A dead letter needs less room than a message that waits for its retry."""
    producer.send(full(room_bytes))
    producer.send(rmq.Message("flights", b"behind"))
    called = []

    def listen(given: Any, *_: object) -> Any:
        for message in given if kind == "orderly" else [given]:
            called.append(bytes(message.body))
            if message.body == b"x" and kind == "message":
                raise ValueError("never")
        if called[-1] == b"x":
            return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return rmq.ConsumeOrderlyStatus.SUCCESS if kind == "orderly" else None

    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        consumer = consumers(listen, kind=kind, max_reconsume_times=3)
        rocketmq.advance_until(lambda: rocketmq.consumer_offset("delays", "flights") == {0: 2}, limit_ms=200_000)
        consumer.shutdown()
    assert called.count(b"x") == 4
    (letter,) = rocketmq.messages("%DLQ%delays")
    assert (letter.body, letter.keys, letter.properties["year"]) == (b"x", ["k"], "2013")
    assert letter.message_id == "AB" * 16
    assert letter.properties[props.RETRY_TOPIC] == "flights"
    assert ("FILL" not in letter.properties) is is_cut
    assert len([record for record in caplog.records if "is made without FILL" in record.getMessage()]) == is_cut


@pytest.mark.parametrize(("room_bytes", "has_id"), [(62, False), (100, False), (2_000, True)])
def test_a_replay_without_room_for_its_id_goes_without(rocketmq, producer, room_bytes, has_id):
    producer.send(full(room_bytes))
    (letter,) = rocketmq.messages("flights")
    producer.send(replay_copy(letter, "flights"))
    first, again = rocketmq.messages("flights")
    assert (props.REPLAY_ID in again.properties) is has_id
    assert again.properties["FILL"] == first.properties["FILL"]

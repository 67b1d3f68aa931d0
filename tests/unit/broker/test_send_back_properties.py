# SPDX-License-Identifier: Apache-2.0
"""The properties of a copy that is sent back: those of a first failure are joined at once, and must be what the general way makes."""

from __future__ import annotations

import pytest

from sprocketmq.broker.handlers.messages import send_back
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import offset_message_id
from sprocketmq.wire.records.record import RecordView, encode_record

HOST = (bytes((127, 0, 0, 1)), 10911)
TEXTS = (
    b"",
    b"TAGS\x01UA\x02",
    b"TAGS\x01UA",
    b"UNIQ_KEY\x01AC\x02TAGS\x01\xff\x02",
    b"WAIT\x01true\x02TAGS\x01UA\x02",
    b"DELAY\x013\x02",
    b"MY_DELAY\x013\x02",
    b"RETRY_TOPIC\x01weather\x02",
    b"ORIGIN_MESSAGE_ID\x01AB\x02TAGS\x01UA\x02",
)


def record_with(text: bytes) -> RecordView:
    places = {
        "queue_id": 0,
        "queue_offset": 0,
        "physical_offset": 4711,
        "born_timestamp_ms": 1,
        "store_timestamp_ms": 1,
    }
    return RecordView(encode_record(b"flights", b"body", text, born_host=HOST, store_host=HOST, **places))


@pytest.mark.parametrize("text", TEXTS)
def test_both_ways_make_the_same_bytes(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = send_back._properties(record_with(text), 4711, "18")
    monkeypatch.setattr(send_back, "_SET_HERE", (b"",))  # in each text
    assert send_back._properties(record_with(text), 4711, "18") == chosen
    pairs = props.decode_properties(chosen)
    assert (pairs["WAIT"], pairs["DELAY"]) == ("false", "18")
    assert pairs["RETRY_TOPIC"] == ("weather" if b"weather" in text else "flights")
    assert pairs["ORIGIN_MESSAGE_ID"] == ("AB" if b"\x01AB" in text else offset_message_id(HOST, 4711))

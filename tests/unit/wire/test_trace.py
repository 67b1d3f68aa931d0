# SPDX-License-Identifier: Apache-2.0
"""wire.trace: the records of message trace, byte for byte as Java's TraceDataEncoder writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.wire.trace import MessageType, TraceRecord, TraceType, decode_trace, encode_trace, trace_keys

TEXT = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=("Cs",)), max_size=12)
MAYBE = st.none() | TEXT.filter(lambda text: text != "null")
TIME = st.integers(0, 1 << 50)
NUMBER = st.integers(0, 1 << 30)

RECORDS = st.one_of(
    st.builds(
        TraceRecord, st.just(TraceType.PUB), TIME, TEXT, TEXT, TEXT, TEXT, MAYBE, MAYBE, TEXT, NUMBER, NUMBER,
        st.sampled_from(MessageType), MAYBE, st.booleans(),
    ),
    st.builds(
        TraceRecord, st.just(TraceType.SUB_BEFORE), TIME, TEXT, TEXT, message_id=TEXT, keys=MAYBE, request_id=TEXT,
        retry_times=NUMBER,
    ),
    st.builds(
        TraceRecord, st.just(TraceType.SUB_AFTER), TIME, group=TEXT, message_id=TEXT, keys=MAYBE, request_id=TEXT,
        cost_ms=NUMBER, success=st.booleans(), context_code=st.integers(0, 4),
    ),
    st.builds(
        TraceRecord, st.just(TraceType.END_TRANSACTION), TIME, TEXT, TEXT, TEXT, TEXT, MAYBE, MAYBE, TEXT,
        message_type=st.sampled_from(MessageType), transaction_id=MAYBE, transaction_state=TEXT,
        from_transaction_check=st.booleans(),
    ),
    st.builds(
        TraceRecord, st.just(TraceType.RECALL), TIME, TEXT, TEXT, TEXT, TEXT, success=st.booleans()
    ),
)  # fmt: skip


@given(records=st.lists(RECORDS, max_size=6))
def test_what_is_written_is_read_again(records):
    body = "".join(map(encode_trace, records)).encode()
    assert decode_trace(body) == records


def test_the_fields_stand_in_javas_order():
    sent = TraceRecord(
        TraceType.PUB, 1, "R", "g", "t", "id", None, "k1 k2", "h:1", 5, 7, MessageType.DELAY, "off", False
    )
    assert encode_trace(sent) == "\x01".join(
        ["Pub", "1", "R", "g", "t", "id", "null", "k1 k2", "h:1", "5", "7", "3", "off", "false\x02"]
    )
    before = TraceRecord(TraceType.SUB_BEFORE, 1, "R", "g", message_id="id", request_id="r", retry_times=2)
    assert encode_trace(before) == "\x01".join(["SubBefore", "1", "R", "g", "r", "id", "2", "null\x02"])
    after = TraceRecord(TraceType.SUB_AFTER, 9, group="g", message_id="id", request_id="r", cost_ms=3, context_code=4)
    assert encode_trace(after) == "\x01".join(["SubAfter", "r", "id", "3", "true", "null", "4", "9", "g\x02"])
    assert encode_trace(after, cloud=True) == "\x01".join(["SubAfter", "r", "id", "3", "true", "null", "4", "\x02"])
    ended = TraceRecord(
        TraceType.END_TRANSACTION, 1, "R", "g", "t", "id", "tag", None, "h:1",
        message_type=MessageType.TRANSACTION_COMMIT, transaction_id="x", transaction_state="COMMIT_MESSAGE",
    )  # fmt: skip
    assert encode_trace(ended) == "\x01".join(
        ["EndTransaction", "1", "R", "g", "t", "id", "tag", "null", "h:1", "2", "x", "COMMIT_MESSAGE", "false\x02"]
    )
    assert trace_keys([sent, before, after]) == ["id", "k1", "k2"]


def test_records_of_older_and_newer_clients_are_read():
    old = "\x01".join(["Pub", "1", "R", "g", "t", "id", "", "", "h", "5", "7", "0", "true\x02"])
    new = "\x01".join(["Pub", "1", "R", "g", "t", "id", "", "", "h", "5", "7", "0", "off", "true", "host\x02"])
    short = "\x01".join(["SubAfter", "r", "id", "3", "false", "k\x02"])
    first, second, third = decode_trace((old + new + short).encode())
    assert (first.offset_message_id, first.success) == (None, True)
    assert (second.offset_message_id, second.success) == ("off", True)
    assert (third.success, third.keys, third.context_code, third.timestamp_ms) == (False, "k", 0, 0)


@given(body=st.binary(max_size=200))
def test_what_cannot_be_read_is_left_out(body):
    good = TraceRecord(TraceType.RECALL, 1, "R", "g", "t", "id")
    assert decode_trace(b"Nonsense\x01\x02" + b"Pub\x011\x02" + encode_trace(good).encode())[-1] == good
    decode_trace(body)

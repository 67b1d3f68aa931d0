# SPDX-License-Identifier: Apache-2.0
"""Records: known bytes, round trips in every version and address family, and hostile input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from record_fields import ANY_FIELDS, STORED
from sprocketmq.errors import ProtocolError
from sprocketmq.wire.records.batch import encode_batch
from sprocketmq.wire.records.compression import CompressionType, compress
from sprocketmq.wire.records.message import Message
from sprocketmq.wire.records.record import (
    RecordView,
    blank_size,
    check_record,
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
    record_parts,
    record_size,
)
from sprocketmq.wire.records.record_layout import MAGIC_V1, MAGIC_V2, RECORD
from sprocketmq.wire.records.sys_flag import BORNHOST_V6, COMPRESSED, INNER_BATCH, NEED_UNWRAP, STOREHOSTADDRESS_V6

KNOWN = bytes.fromhex(
    "00000075 daa320a7 3610a686 00000002 00000000 0000000000000007 000000000001e240 00000000 0000018bcfe56800"
    "0a000002 0000c350 0000018bcfe56801 0a000001 00002a9f 00000000 0000000000000000 00000005 68656c6c6f"
    "01 54 0014 5441475301 5461674102 5741495401 7472756502"
)
KNOWN_PROPERTIES = b"TAGS\x01TagA\x02WAIT\x01true\x02"

# Without flags that say how the body is to be read.
_SYS_FLAGS = st.sampled_from([0, 4, 8, 12, 0x30, 0x300])


@st.composite
def _records(draw: st.DrawFn) -> tuple[str, bytes, bytes, dict[str, Any], bytes]:
    topic = draw(st.text("abc%-_", min_size=1, max_size=20) | st.just("t" * 128) | st.just("主题"))
    body, properties = draw(st.binary(max_size=40)), draw(st.binary(max_size=40))
    fields = draw(ANY_FIELDS) | {"sys_flag": draw(_SYS_FLAGS), "version": draw(st.sampled_from([None, 2]))}
    return topic, body, properties, fields, encode_record(topic.encode(), body, properties, **fields)


def test_a_record_is_the_known_bytes():
    assert encode_record(b"T", b"hello", KNOWN_PROPERTIES, **STORED) == KNOWN
    assert len(KNOWN) == record_size(1, 5, len(KNOWN_PROPERTIES)) == 117


def test_the_known_record_is_read():
    message = decode_record(KNOWN, broker_name="broker-a")
    assert (message.topic, message.body, message.tags, message.broker_name) == ("T", b"hello", "TagA", "broker-a")
    assert (message.queue_id, message.queue_offset, message.commit_log_offset) == (2, 7, 123456)
    assert (message.born_host, message.store_host) == ("10.0.0.2:50000", "10.0.0.1:10911")
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (1700000000000, 1700000000001)
    assert (message.reconsume_times, message.sys_flag, message.flag, message.store_size_bytes) == (0, 0, 0, 117)
    assert message.message_id == message.offset_message_id == "0A00000100002A9F000000000001E240"
    assert message.transaction_id is None


def test_the_checksum_has_31_bits():
    record = encode_record(b"T", b"a", b"", **STORED)
    assert RecordView(record).body_crc == 1756872259


@given(_records())
def test_a_record_comes_back(record):
    topic, body, properties, fields, raw = record
    view = check_record(b"before" + raw + b"after", 6)
    message = decode_record(raw)
    v6 = [len(fields[host][0]) == 16 for host in ("born_host", "store_host")]
    sys_flag = (fields["sys_flag"] & ~0x30) | (BORNHOST_V6 if v6[0] else 0) | (STOREHOSTADDRESS_V6 if v6[1] else 0)
    assert view.magic == (MAGIC_V2 if fields["version"] == 2 or len(topic.encode()) > 127 else MAGIC_V1)
    assert (view.topic, bytes(view.body), view.raw_properties, bytes(view.raw)) == (topic, body, properties, raw)
    assert (message.topic, message.body, message._raw_properties) == (topic, body, properties)
    assert view.sys_flag == message.sys_flag == sys_flag
    assert view.size == message.store_size_bytes == len(raw)
    assert view.physical_offset == message.commit_log_offset == fields["physical_offset"]
    assert (view.born_host, view.store_host) == (fields["born_host"], fields["store_host"])
    assert (message._born_host, message._store_host) == (fields["born_host"], fields["store_host"])
    for name in ("queue_id", "flag", "queue_offset", "born_timestamp_ms", "store_timestamp_ms", "reconsume_times"):
        assert getattr(view, name) == getattr(message, name) == fields[name]
    assert (
        view.prepared_transaction_offset == message.prepared_transaction_offset == fields["prepared_transaction_offset"]
    )


@given(_records(), st.binary(max_size=30))
def test_the_parts_of_a_record_are_those_of_its_view(record, before):
    raw = record[-1]
    for buffer in (before + raw + b"after", memoryview(before + raw + b"after")):
        view = RecordView(buffer, len(before))
        head, body, properties = record_parts(buffer, len(before))
        assert (bytes(body), properties) == (bytes(view.body), view.raw_properties)
        assert head == (
            view.size, view.magic, view.body_crc, view.queue_id, view.flag, view.queue_offset, view.physical_offset,
            view.sys_flag, view.born_timestamp_ms, *view.born_host, view.store_timestamp_ms, *view.store_host,
            view.reconsume_times, view.prepared_transaction_offset, len(body),
        )  # fmt: skip


@given(_records(), st.data())
def test_parts_of_damaged_bytes_are_those_of_the_view_or_none(record, data):
    damaged = bytearray(record[-1])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        view = RecordView(damaged)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            record_parts(damaged)
    else:
        assert [bytes(part) for part in record_parts(damaged)[1:]] == [bytes(view.body), view.raw_properties]


@given(_records())
def test_sizes_are_known_beforehand(record):
    topic, body, properties, fields, raw = record
    if fields["version"] is None:
        sizes = (len(topic.encode()), len(body), len(properties))
        v6 = {f"{host}_v6": len(fields[host][0]) == 16 for host in ("born_host", "store_host")}
        assert record_size(*sizes, **v6) == len(raw)


@given(st.lists(_records(), max_size=5))
def test_records_back_to_back_are_all_read(records):
    buffer = b"".join(record[4] for record in records)
    for data in (buffer, bytearray(buffer), memoryview(buffer)):
        messages = decode_records(data)
        assert [(message.topic, message.body) for message in messages] == [record[:2] for record in records]


@given(_records(), st.binary(min_size=1, max_size=120))
def test_bytes_after_the_last_record_are_not_ignored(record, tail):
    with pytest.raises(ProtocolError):
        decode_records(record[4] + tail)


@given(_records())
def test_a_record_cut_anywhere_is_a_protocol_error(record):
    raw = record[4]
    for end in range(1, len(raw)):
        with pytest.raises(ProtocolError):
            decode_records(raw[:end])
        with pytest.raises(ProtocolError):
            check_record(raw[:end])


def test_a_wrong_checksum_is_found_when_asked_for():
    raw = bytearray(KNOWN)
    raw[RECORD.size] ^= 1
    with pytest.raises(ProtocolError):
        check_record(raw)
    assert bytes(check_record(raw, check_crc=False).body) == b"iello"


@pytest.mark.parametrize("at", [-1, 1, 117, 1000])
def test_a_place_outside_is_a_protocol_error(at):
    with pytest.raises(ProtocolError):
        RecordView(KNOWN, at)


def test_a_topic_that_is_not_utf8_is_a_protocol_error():
    raw = encode_record(b"\xff", b"", b"", **STORED)
    with pytest.raises(ProtocolError):
        decode_records(raw)
    with pytest.raises(ProtocolError):
        _ = RecordView(raw).topic


@pytest.mark.parametrize(
    ("topic_bytes", "properties_bytes", "version"), [(128, 0, 1), (32_768, 0, None), (1, 32_768, None)]
)
def test_what_does_not_fit_its_length_field_is_refused(topic_bytes, properties_bytes, version):
    with pytest.raises(ProtocolError):
        encode_record(b"t" * topic_bytes, b"", b"p" * properties_bytes, **STORED, version=version)


def test_the_longest_properties_fit():
    raw = encode_record(b"t", b"", b"p" * 32_767, **STORED)
    assert len(RecordView(raw).raw_properties) == 32_767


def test_a_filler_states_its_size():
    blank = encode_blank(1000)
    assert len(blank) == 8
    assert blank_size(b"xx" + blank, 2) == 1000
    assert blank_size(KNOWN) == blank_size(blank[:7]) == blank_size(bytes(100)) == blank_size(blank, -1) == 0
    with pytest.raises(ProtocolError):
        RecordView(blank + bytes(992))


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_compressed_body_is_given_in_the_original(kind):
    body = b"abc" * 1000
    raw = encode_record(b"T", compress(body, kind), b"", **STORED, sys_flag=kind.sys_flag | 8)
    message = decode_record(raw)
    assert message.body == body
    assert message.sys_flag == (kind.sys_flag | 8) & ~COMPRESSED
    as_stored = decode_record(raw, decompress=False)
    assert as_stored.body == compress(body, kind)
    assert as_stored.sys_flag == kind.sys_flag | 8


def test_a_body_that_cannot_be_decompressed_costs_only_itself():
    good = encode_record(b"T", compress(b"good"), b"", **STORED, sys_flag=COMPRESSED)
    bad = encode_record(b"T", b"not zlib", b"", **STORED, sys_flag=COMPRESSED)
    messages = decode_records(good + bad + good)
    assert [message.body for message in messages] == [b"good", b"not zlib", b"good"]
    assert [message.sys_flag & COMPRESSED for message in messages] == [0, COMPRESSED, 0]


def test_bodies_do_not_keep_the_whole_pull_in_memory():
    messages = decode_records(memoryview(KNOWN * 3))
    assert all(type(message.body) is bytes for message in messages)


def _inner_batch(body: bytes, sys_flag: int = INNER_BATCH | NEED_UNWRAP) -> bytes:
    return encode_record(b"T", body, b"INNER_NUM\x012\x02", **STORED, sys_flag=sys_flag)


def test_messages_of_an_inner_batch_are_given_one_by_one():
    body = encode_batch([Message("T", b"one", tags="a"), Message("T", b"two", tags="b", flag=5)])
    messages = decode_records(KNOWN + _inner_batch(body) + KNOWN)
    assert [message.body for message in messages] == [b"hello", b"one", b"two", b"hello"]
    assert [message.queue_offset for message in messages] == [7, 7, 8, 7]
    assert [(message.tags, message.flag) for message in messages[1:3]] == [("a", 0), ("b", 5)]
    assert [message.sys_flag for message in messages[1:3]] == [INNER_BATCH] * 2
    compressed = _inner_batch(compress(body), INNER_BATCH | NEED_UNWRAP | COMPRESSED)
    assert [message.body for message in decode_records(compressed)] == [b"one", b"two"]


def test_an_inner_batch_that_cannot_be_opened_costs_only_itself():
    messages = decode_records(_inner_batch(b"no batch") + KNOWN)
    assert [message.body for message in messages] == [b"no batch", b"hello"]
    assert messages[0].sys_flag == INNER_BATCH | NEED_UNWRAP

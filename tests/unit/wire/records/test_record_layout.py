# SPDX-License-Identifier: Apache-2.0
"""The table of a record's fields against Java's bytes and against a reader that knows no table."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import VERSIONS, store_dir, store_file
from record_fields import ANY_FIELDS
from sprocketmq.store.queue.unit import UNIT_LAYOUT, unit_type, units_of
from sprocketmq.wire.layout import Layout
from sprocketmq.wire.records.record import encode_record
from sprocketmq.wire.records.record_layout import (
    BLANK_BYTES,
    LAYOUTS,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    PROPERTIES_LENGTH,
    RECORD,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    layout_of,
)


def as_java_reads(raw: bytes) -> dict[str, Any]:
    """One record read as Java's MessageDecoder.decode reads it: step by step, each step from where the one before it ended."""
    stream = io.BytesIO(raw)

    def number(octets: int) -> int:
        return int.from_bytes(stream.read(octets), "big", signed=True)

    def host(is_v6: int) -> tuple[bytes, int]:
        return stream.read(16 if is_v6 else 4), number(4)

    said: dict[str, Any] = {
        "size": number(4),
        "magic": number(4) & 0xFFFFFFFF,
        "body_crc": number(4),
        "queue_id": number(4),
    }
    said |= {"flag": number(4), "queue_offset": number(8), "physical_offset": number(8), "sys_flag": number(4)}
    said |= {"born_timestamp_ms": number(8), "born_host": host(said["sys_flag"] & 0x10)}
    said |= {"store_timestamp_ms": number(8), "store_host": host(said["sys_flag"] & 0x20)}
    said |= {"reconsume_times": number(4), "prepared_transaction_offset": number(8), "body_length": number(4)}
    said["body"] = stream.read(said["body_length"])
    said["topic"] = stream.read(number(2 if said["magic"] == 0xDAA320AB else 1))
    said["properties"] = stream.read(number(2))
    assert stream.tell() == len(raw) == said["size"]
    return said


def as_the_table_says(raw: bytes) -> dict[str, Any]:
    """The same by the table alone."""
    layout = layout_of(RECORD.subset("sys_flag").unpack_from(raw)[0])
    values = layout.struct.unpack_from(raw)
    said: dict[str, Any] = {}
    for name, at in layout.index.items():
        said[name] = values[at : at + 2] if name.endswith("_host") else values[at]
        assert layout.subset(name).unpack_from(raw) == (said[name] if name.endswith("_host") else (said[name],))
    body_end = layout.size + said["body_length"]
    topic_length = TOPIC_LENGTH_V2 if said["magic"] == MAGIC_V2 else TOPIC_LENGTH_V1
    topic_at = body_end + topic_length.size
    topic_end = topic_at + topic_length.unpack_from(raw, body_end)[0]
    said |= {"body": raw[layout.size : body_end], "topic": raw[topic_at:topic_end]}
    assert PROPERTIES_LENGTH.unpack_from(raw, topic_end)[0] == len(raw) - topic_end - PROPERTIES_LENGTH.size
    return said | {"properties": raw[topic_end + PROPERTIES_LENGTH.size :]}


def records_of_java(version: str) -> list[bytes]:
    log, at, found = store_file(version, "commitlog-head.bin"), 0, []
    while at < len(log):
        size = int.from_bytes(log[at : at + 4], "big")
        found.append(log[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_java_stored_are_what_the_table_says(version):
    records = records_of_java(version)
    assert len(records) > 20
    for raw in records:
        assert as_the_table_says(raw) == as_java_reads(raw)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_columns_of_store_and_spark_are_the_fields_of_javas_records(version):
    from sprocketmq.spark.columns import records as spark_records
    from sprocketmq.store.log import record_batch

    records = records_of_java(version)
    heads = b"".join(raw[: RECORD.size] for raw in records)
    expected = [as_java_reads(raw) for raw in records]
    for columns in (np.frombuffer(heads, record_batch.HEAD), np.frombuffer(heads, spark_records.HEAD)):
        for name in RECORD.types:
            if name.endswith("_host"):
                told = [octets + struct.pack(">I", port) for octets, port in (said[name] for said in expected)]
                assert columns[name].tobytes() == b"".join(told), name
            else:
                assert columns[name].tolist() == [said[name] for said in expected], name


@given(
    ANY_FIELDS,
    st.binary(max_size=40),
    st.binary(min_size=1, max_size=127) | st.binary(min_size=128, max_size=300),
    st.binary(max_size=40),
    st.sampled_from([None, 2]),
)
def test_both_host_lengths_and_both_magics_are_read_as_java_reads_them(fields, body, topic, properties, version):
    raw = encode_record(topic, body, properties, version=version, **fields)
    said = as_java_reads(raw)
    assert as_the_table_says(raw) == said
    v6 = (16 if len(fields["born_host"][0]) == 16 else 0) | (32 if len(fields["store_host"][0]) == 16 else 0)
    wanted = fields | {
        "sys_flag": fields["sys_flag"] & ~0x30 | v6,
        "body": body,
        "topic": topic,
        "properties": properties,
    }
    assert {name: said[name] for name in wanted} == wanted
    assert said["magic"] == (MAGIC_V2 if version == 2 or len(topic) > 127 else MAGIC_V1)


def test_the_numbers_that_javas_sources_state():
    """CommitLog.calMsgLength, MessageDecoder's positions, ConsumeQueue.CQ_STORE_UNIT_SIZE, CommitLog.END_FILE_MIN_BLANK_LENGTH."""
    assert [layout.size for layout in LAYOUTS] == [88, 100, 100, 112]
    assert (MIN_RECORD_BYTES, BLANK_BYTES, UNIT_LAYOUT.size) == (91, 8, 20)
    assert (RECORD.at["magic"], RECORD.at["flag"], RECORD.at["physical_offset"], RECORD.at["sys_flag"]) == (
        4,
        16,
        28,
        36,
    )
    assert [layout.at["store_timestamp_ms"] for layout in LAYOUTS] == [56, 68, 56, 68]
    assert [layout.at["body_length"] for layout in LAYOUTS] == [84, 96, 96, 108]


@pytest.mark.parametrize("version", VERSIONS)
def test_units_that_java_stored_are_what_the_table_says(version):
    log = store_file(version, "commitlog-head.bin")
    for head in store_dir(version).glob("consumequeue-golden-?-head.bin"):
        units = np.frombuffer(head.read_bytes(), unit_type())
        assert units["size"].tolist() == [
            as_java_reads(log[at : at + size])["size"] for at, size in units[["physical_offset", "size"]].tolist()
        ]
        first = UNIT_LAYOUT.struct.unpack_from(head.read_bytes())
        assert first == units[0].item()
        assert UNIT_LAYOUT.repeated("size", len(units)).unpack(head.read_bytes()) == tuple(units["size"].tolist())


def test_units_together_are_units_one_by_one():
    places = (1 << 40) + 117 * np.arange(100)
    units = [UNIT_LAYOUT.struct.pack((1 << 40) + 117 * number, 117, -7) for number in range(100)]
    assert units_of(places, 117, [-7] * 100) == b"".join(units)
    assert units_of(places, np.full(100, 117), [-7] * 100) == b"".join(units)


_kinds = st.sampled_from(["b", "B", "h", "H", "i", "I", "q", "Q", "4sI", "16sI"])


@given(st.lists(_kinds, min_size=2, max_size=9), st.data())
def test_whatever_is_taken_out_of_a_layout_is_what_all_of_it_has_there(kinds, data):
    names = [f"field{number}" for number in range(len(kinds))]
    layout = Layout(*zip(names, kinds, strict=True))
    raw = data.draw(st.binary(min_size=layout.size, max_size=layout.size))
    values = layout.struct.unpack(raw)
    own = {name: struct.unpack(">" + kind, raw[layout.span(name)]) for name, kind in layout.types.items()}
    some = sorted(data.draw(st.sets(st.sampled_from(names), min_size=2)))
    together = tuple(value for name in some for value in own[name])
    assert tuple(value for name in names for value in own[name]) == values
    assert layout.subset(*some).unpack_from(raw) == layout.values(*some)(values) == together
    last = data.draw(st.sampled_from(names[:-1]))
    behind = layout.at[names[names.index(last) + 1]]
    assert layout.after(last).unpack(raw[behind:]) == values[layout.index[last] + len(own[last]) :]
    rows = np.frombuffer(raw, np.dtype(layout.columns()))
    assert [rows[name].tobytes() for name in names] == [raw[layout.span(name)] for name in names]
    assert all(rows[name].item() == own[name][0] for name in names if len(own[name]) == 1)

# SPDX-License-Identifier: Apache-2.0
"""Rows by columns: the same elements as rows one by one, and nothing but plain rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.send.row_columns import element_rows
from sprocketmq.spark.send.row_messages import SEND_COLUMNS, outgoing_rows
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import encode_batch

TYPES = {
    "body": pa.binary(),
    "topic": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "shardingKey": pa.string(),
    "queueId": pa.int32(),
    "delayLevel": pa.int32(),
    "deliverTimeMs": pa.int64(),
}
ANY_TEXT = st.text(max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(min_size=1, max_size=40),
            "tags": st.one_of(st.none(), st.sampled_from(["", "UA", "caf\u00e9", "a b"]), ANY_TEXT),
            "keys": st.one_of(st.none(), st.sampled_from(["", "N1", "N22"]), ANY_TEXT),
            "properties": st.dictionaries(
                st.sampled_from(["a", "caf\u00e9", "KEYS", "UNIQ_KEY", "__SHARDINGKEY"]),
                st.one_of(st.sampled_from(["x", "", "long value"]), ANY_TEXT),
                max_size=4,
            ).map(lambda pairs: list(pairs.items())),
        }
    ),
    min_size=1,
    max_size=12,
)
NOTES = {"SPARK_BATCH_ID": "7", "SPARK_SEQUENCE": range(90, 1000)}


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array([row[name] for row in rows], TYPES[name]) for name in rows[0]})


def keys_for(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{number:032X}" for number in range(len(rows))]


def one_by_one(batch: pa.RecordBatch, topic: str | None, marks: dict[str, Any]) -> bytes:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in SEND_COLUMNS}
    messages = [row.message for row in outgoing_rows(columns, topic)]
    for number, message in enumerate(messages):
        message.properties.update(
            {name: str(note[number]) if isinstance(note, range) else note for name, note in marks.items()}
        )
        message.properties[props.UNIQ_KEY] = f"{number:032X}"
    return encode_batch(messages)


@settings(deadline=None, max_examples=examples(150))
@given(ROWS, st.booleans())
def test_rows_by_columns_are_rows_one_by_one_or_left_to_them(rows: list[dict[str, Any]], noted: bool) -> None:
    batch = batch_of(rows)
    marks: dict[str, Any] = {}
    if noted:
        marks = {**NOTES, "SPARK_SEQUENCE": range(90, 90 + len(rows))}
    found = element_rows(batch, "T", keys_for(rows), marks, 1000)
    if found is not None:
        assert bytes(found.data) == one_by_one(batch, "T", marks)


@pytest.mark.parametrize("tags", ["UA", None, "", "caf\u00e9", "a b"])
@pytest.mark.parametrize("keys", ["N1", None, ""])
@pytest.mark.parametrize("properties", [[], [("a", "x y")], [("KEYS", "old"), ("b", "\u00e9"), ("c", "")]])
def test_plain_rows_go_by_columns(tags: str | None, keys: str | None, properties: list[tuple[str, str]]) -> None:
    rows = [{"body": b"b", "tags": tags, "keys": keys, "properties": properties}]
    rows += [{"body": b"bb", "tags": "AA", "keys": "N2", "properties": [("a", "1")]}] * 20
    batch = batch_of(rows)
    found = element_rows(batch, "T", keys_for(rows), {}, 1000)
    assert found is not None
    assert bytes(found.data) == one_by_one(batch, "T", {})


def test_a_column_may_name_the_topic_if_it_names_one() -> None:
    rows = [{"body": b"b", "topic": "T"}, {"body": b"b", "topic": "T"}]
    found = element_rows(batch_of(rows), None, keys_for(rows), {}, 1000)
    assert found is not None
    assert found.topic == "T"
    rows[1]["topic"] = "U"
    assert element_rows(batch_of(rows), None, keys_for(rows), {}, 1000) is None
    named = element_rows(batch_of(rows), "V", keys_for(rows), {}, 1000)
    assert named is not None
    assert named.topic == "V"


@pytest.mark.parametrize(
    "unusual",
    [
        {"body": b""},
        {"body": None},
        {"body": b"b" * 1001},
        {"tags": "a\x01b"},
        {"tags": " \t"},
        {"tags": "\x1f"},
        {"tags": "\u2003"},
        {"keys": "two words"},
        {"keys": "\u00a0"},
        {"properties": [("", "x")]},
        {"properties": [("a\x02", "x")]},
        {"properties": [("a", " ")]},
        {"properties": [("a", "x"), ("a", "y")]},
        {"properties": [("a", "x" * 40_000)]},
        {"properties": None},
        {"shardingKey": "k"},
        {"queueId": 1},
        {"delayLevel": 1},
        {"deliverTimeMs": 1},
    ],
    ids=str,
)
def test_what_is_not_plain_is_left_to_one_by_one(unusual: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"body": b"b", "tags": "t", "keys": "k", "properties": [("a", "x")]}
    rows = [{**dict.fromkeys(unusual), **plain}, {**plain, **unusual}]
    assert element_rows(batch_of(rows), "T", keys_for(rows), {}, 1000) is None


def test_a_missing_topic_is_left_to_the_check_row_by_row() -> None:
    rows: list[dict[str, Any]] = [{"body": b"b"}]
    assert element_rows(batch_of(rows), None, keys_for(rows), {}, 1000) is None
    with pytest.raises(ConfigurationError, match="no topic"):
        one_by_one(batch_of(rows), None, {})


def test_parts_hold_all_elements_within_both_limits() -> None:
    rows = [{"body": b"b" * size} for size in (10, 500, 10, 10, 900, 10, 10, 10)]
    found = element_rows(batch_of(rows), "T", keys_for(rows), {}, 1000)
    assert found is not None
    parts = [bytes(part) for part in found.parts(700, 3)]
    assert b"".join(parts) == bytes(found.data)
    assert [part.count(b"UNIQ_KEY") for part in parts] == [2, 2, 1, 3]
    assert sum(len(part) > 700 for part in parts) == 1

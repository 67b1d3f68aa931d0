# SPDX-License-Identifier: Apache-2.0
"""Rows into messages, and the columns that a write may have."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.send.row_messages import OutgoingRow, check_columns, columns_of, outgoing_rows
from sprocketmq.wire.records import properties as props


def only(columns: dict[str, object], topic: str | None = None) -> OutgoingRow:
    (row,) = outgoing_rows({name: [value] for name, value in columns.items()}, topic)
    return row


def test_a_row_becomes_a_message() -> None:
    row = only(
        {
            "body": b"late",
            "topic": "flights",
            "tags": "UA",
            "keys": ["a", "b"],
            "properties": [("year", "2013")],
            "shardingKey": "N1",
            "queueId": 2,
            "deliverTimeMs": 1_700_000_000_005,
        }
    )
    message = row.message
    assert (message.topic, message.body, message.tags, message.keys) == ("flights", b"late", "UA", ["a", "b"])
    assert (message.properties["year"], message.delay_level) == ("2013", 0)
    assert (row.sharding_key, row.queue_id, row.deliver_time_ms, row.alone) == ("N1", 2, 1_700_000_000_005, True)


def test_a_time_of_delivery_in_seconds_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="deliverTimeMs is 1700000000, which is 1970-01-20 in milliseconds"):
        only({"body": b"x", "deliverTimeMs": 1_700_000_000}, "flights")


def test_a_delay_level_is_one_of_the_brokers_and_stands_alone() -> None:
    row = only({"body": b"x", "delayLevel": 3}, "flights")
    assert (row.message.delay_level, row.alone) == (3, True)
    sentence = (
        "^a row for topic 'flights' has delayLevel 19, a whole number from 0 to 18 is allowed; .* set maxDelayLevel$"
    )
    for level in (19, -1):
        with pytest.raises(ConfigurationError, match=sentence.replace("19,", f"{level},")):
            list(outgoing_rows({"body": [b"x"], "delayLevel": [level]}, "flights", max_delay_level=18))
    with pytest.raises(
        ConfigurationError, match="delayLevel 3 and deliverTimeMs 1700000000005, of which a broker would take"
    ):
        only({"body": b"x", "delayLevel": 3, "deliverTimeMs": 1_700_000_000_005}, "flights")


def test_nulls_are_nothing_and_text_is_utf8() -> None:
    texts = columns_of(pa.record_batch({"body": ["späť"], "tags": pa.array([None], pa.string())}))
    (row,) = outgoing_rows({**texts, "keys": [None], "properties": [None], "delayLevel": [None]}, "flights")
    assert (row.message.body, row.message.properties, row.queue_id, row.alone) == ("späť".encode(), {}, -1, False)


def test_the_option_topic_wins_over_the_column() -> None:
    assert only({"body": b"x", "topic": "column"}, "option").message.topic == "option"


def test_names_of_rocketmqs_own_are_left_out_of_properties() -> None:
    properties = [(name, "x") for name in (props.UNIQ_KEY, props.TAGS, props.CLUSTER, props.SHARDING_KEY, "mine")]
    assert only({"body": b"x", "topic": "t", "properties": properties}).message.properties == {"mine": "x"}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"body": b"x", "topic": None}, "a row has no topic"),
        ({"body": None, "topic": "t"}, "a row for topic 't' has no body"),
        ({"body": b"", "topic": "t"}, "a row for topic 't' has an empty body"),
        ({"body": b"x", "topic": "t", "tags": " "}, "tags is blank"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(columns: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        only(columns)


def test_columns_are_checked_by_mode() -> None:
    def schema(**columns: object) -> StructType:
        return StructType([StructField(name, kind) for name, kind in columns.items()])  # type: ignore[arg-type]

    text = StringType()
    check_columns(schema(body=text, topic=text, keys=ArrayType(text)), "send", None)
    check_columns(schema(body=text, queueOffset=LongType()), "send", "t")
    check_columns(schema(brokerName=text, commitLogOffset=LongType(), action=text), "ack", None)
    with pytest.raises(ConfigurationError, match="no column 'commitLogOffset', which a write with mode ack needs"):
        check_columns(schema(brokerName=text), "ack", None)
    with pytest.raises(ConfigurationError, match="column 'keys' is int; string or array<string> is allowed; cast it"):
        check_columns(schema(body=text, keys=IntegerType()), "send", "t")
    with pytest.raises(ConfigurationError, match="column 'colour' is unknown to the sink"):
        check_columns(schema(body=text, colour=text), "send", "t")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["key", "value"], r"no column 'body', .* needs; they have key, value; rename 'value'$"),
        (["id"], r"no column 'body', .* they have id$"),
        (["body", "headers"], r"column 'headers' is unknown .*; did you mean properties\?$"),
        (["body", "colour"], r"drop or rename it$"),
    ],
)
def test_a_column_of_another_name_is_answered_with_the_one_that_is_meant(columns: list[str], sentence: str) -> None:
    schema = StructType([StructField(name, StringType()) for name in columns])
    with pytest.raises(ConfigurationError, match=sentence):
        check_columns(schema, "send", "t")

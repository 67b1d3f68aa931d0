"""Rows that cannot be messages: the write fails, they are left out, or they become dead letters; and how long rows travel."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.message_sender import MessageSender
from sprocketmq.spark.sink_options import sink_options
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ

BAD: list[dict[str, Any]] = [
    {"body": None, "topic": "flights", "keys": "none"},
    {"body": "", "topic": "flights", "keys": "empty"},
    {"body": "x" * 2_001, "topic": "flights", "keys": "long"},
    {"body": "x", "topic": None, "keys": "nowhere"},
    {"body": "x", "topic": "flights", "keys": "odd", "properties": [("year", "20\x0213")]},
    {"body": "x", "topic": "flights", "keys": "wide", "properties": [("year", "2" * 40_000)]},
    {"body": "x", "topic": "flights", "keys": "blank", "shardingKey": " "},
]
SCHEMA = pa.schema(
    {
        "body": pa.string(),
        "topic": pa.string(),
        "keys": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "shardingKey": pa.string(),
    }
)


def send(mq: EmbeddedRocketMQ, rows: list[dict[str, Any]], **options: str) -> MessageSender:
    sender = MessageSender(sink_options({"namesrvAddr": mq.namesrv_addr, "maxMessageBytes": "2000", **options}))
    given = {name for row in rows for name, value in row.items() if value is not None}
    sender.send(pa.RecordBatch.from_pylist(rows, pa.schema([field for field in SCHEMA if field.name in given])))
    return sender


def among_good_ones(*bad: dict[str, Any]) -> list[dict[str, Any]]:
    good = [{"body": f"good {number}", "topic": "flights"} for number in range(20)]
    return [*good[:10], *bad, *good[10:]]


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["keys"])
def test_a_row_that_cannot_be_a_message_fails_the_write_by_default(mq: EmbeddedRocketMQ, row: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        send(mq, among_good_ones(row))
    assert mq.messages("flights") == []


def test_with_drop_all_other_rows_are_sent_and_those_are_counted(mq: EmbeddedRocketMQ) -> None:
    sender = send(mq, among_good_ones(*BAD), onError="drop")
    assert (sender.sent, sender.refused.count) == (20, len(BAD))
    assert {message.body for message in mq.messages("flights")} == {b"good %d" % number for number in range(20)}


def test_with_dlq_they_are_dead_letters_with_topic_and_reason(mq: EmbeddedRocketMQ) -> None:
    sender = send(mq, among_good_ones(*BAD), onError="dlq", group="loads")
    assert (sender.sent, sender.refused.count) == (20, len(BAD))
    letters = {" ".join(letter.keys): letter for letter in mq.messages("%DLQ%loads")}
    assert letters.keys() == {row["keys"] for row in BAD}
    reasons = {name: letter.properties["RETRY_REASON"] for name, letter in letters.items()}
    assert reasons["long"].startswith("a row for topic 'flights' has a body of 2001 bytes, maxMessageBytes allows 2000")
    assert (len(letters["long"].body), letters["none"].body, letters["odd"].body) == (2_000, b" ", b"x")
    known = {letter.message_id for letter in letters.values()}
    assert len(known) == len(BAD)

    def read() -> list[dict[str, Any]]:
        source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "deadlettersof": "loads"})
        reader = source.reader(source.schema())
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    mq.wait_until(read)
    assert {row["topic"] for row in read() if row["keys"] != "nowhere"} == {"flights"}


@pytest.mark.parametrize("key", [None, "N14228"])
def test_long_bodies_are_compressed_and_come_as_they_were(mq: EmbeddedRocketMQ, key: str | None) -> None:
    rows = [
        {"body": str(number % 10) * (number * 100 + 1), "topic": "flights", "shardingKey": key} for number in range(20)
    ]
    sender = send(mq, rows, compressType="zlib", compressOverBytes="1000")
    assert sender.sent == 20
    stored = mq.messages("flights")
    assert sorted(message.body for message in stored) == sorted(row["body"].encode() for row in rows)
    small = [message for message in stored if message.store_size_bytes < len(message.body)]
    assert {len(message.body) for message in small} == {len(row["body"]) for row in rows if len(row["body"]) >= 1_000}
    if key:
        assert [message.body for message in stored] == [row["body"].encode() for row in rows]


def test_without_compression_a_long_row_is_stored_as_it_is(mq: EmbeddedRocketMQ) -> None:
    send(mq, [{"body": "x" * 2_000, "topic": "flights"}])
    (message,) = mq.messages("flights")
    assert message.store_size_bytes > 2_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"onError": "dlq"}, "onError is 'dlq' without group; name the group"),
        (
            {"onError": "drop", "delivery": "transactional", "group": "g"},
            "onError is 'drop' with delivery transactional",
        ),
        ({"onError": "skip"}, "onError is 'skip'; allowed is fail or drop or dlq"),
        ({"onError": "drop", "mode": "ack", "group": "g"}, "onError is given with mode ack"),
        ({"maxMessageBytes": "9", "mode": "replay"}, "maxMessageBytes is given with mode replay"),
        ({"compressOverBytes": "9"}, "compressOverBytes is given without compressType"),
        ({"compressType": "gzip"}, "compressType is 'gzip'; allowed is none or zlib or lz4 or zstd"),
    ],
)
def test_what_does_nothing_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        sink_options({"namesrvAddr": "127.0.0.1:1", **options})

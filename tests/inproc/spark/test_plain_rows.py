# SPDX-License-Identifier: Apache-2.0
"""Plain rows go to the broker by columns, and come back as they were given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.write import message_sender
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.spark.write.writer import TaskResult
from sprocketmq.testing import EmbeddedRocketMQ

COUNT = 1200


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ() as embedded:
        embedded.create_topic("flights", queues=4)
        yield embedded


def plain_rows(**more: pa.Array) -> pa.RecordBatch:
    numbers = range(COUNT)
    return pa.record_batch(
        {
            "body": pa.array([b"%d" % number * (1 + number % 9) for number in numbers]),
            "keys": pa.array([f"N{number}" for number in numbers]),
            "tags": pa.array([None if number % 3 else "UA" for number in numbers], pa.string()),
            "properties": pa.array([[("carrier", "UA")]] * COUNT, pa.map_(pa.string(), pa.string())),
            **more,
        }
    )


def test_plain_rows_are_stored_as_they_were_given(mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_sender, "outgoing_rows", lambda *_: pytest.fail("one by one"))
    rows = plain_rows()
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights"})
    result = source.writer(from_arrow_schema(rows.schema), overwrite=False).write(iter([rows]))
    assert isinstance(result, TaskResult)
    assert result.sent == COUNT
    stored = mq.messages("flights")
    expected = zip(rows["body"].to_pylist(), rows["keys"].to_pylist(), rows["tags"].to_pylist(), strict=True)
    assert Counter((one.body, *one.keys, one.tags) for one in stored) == Counter(expected)
    assert all(one.properties["carrier"] == "UA" for one in stored)
    assert len({one.properties["UNIQ_KEY"] for one in stored}) == COUNT
    assert len({one.queue_id for one in stored}) > 1


def test_plain_rows_carry_the_notes_of_their_task(mq: EmbeddedRocketMQ) -> None:
    sender = MessageSender(sink_options({"namesrvaddr": mq.namesrv_addr, "topic": "flights"}), ("q", "7", 3))
    for _ in range(2):
        sender.send(plain_rows())
    notes: Any = [one.properties for one in mq.messages("flights")]
    assert sorted(int(note["SPARK_SEQUENCE"]) for note in notes) == list(range(2 * COUNT))
    same = {(note["SPARK_QUERY_ID"], note["SPARK_BATCH_ID"], note["SPARK_PARTITION"]) for note in notes}
    assert same == {("q", "7", "3")}


def test_one_row_that_is_not_plain_has_all_of_its_batch_made_one_by_one(mq: EmbeddedRocketMQ) -> None:
    sharding = pa.array(["k" if number == 5 else None for number in range(COUNT)], pa.string())
    sender = MessageSender(sink_options({"namesrvaddr": mq.namesrv_addr, "topic": "flights"}))
    sender.send(plain_rows(shardingKey=sharding))
    stored = mq.messages("flights")
    assert len(stored) == COUNT == sender.sent
    assert [one.keys for one in stored if one.properties.get("__SHARDINGKEY") == "k"] == [["N5"]]


def test_rows_of_one_key_are_stored_in_one_queue_in_their_order(mq: EmbeddedRocketMQ) -> None:
    names = [
        None if number % 100 == 99 else f"k{number % 2}" for number in range(COUNT)
    ]  # more of each than a batch holds
    sender = MessageSender(sink_options({"namesrvaddr": mq.namesrv_addr, "topic": "flights"}))
    for _ in range(2):
        sender.send(plain_rows(shardingKey=pa.array(names, pa.string())))
    stored = mq.messages("flights")
    assert len(stored) == 2 * COUNT == sender.sent
    for key in ("k0", "k1"):
        of_key = [one for one in stored if one.properties.get("__SHARDINGKEY") == key]
        assert len({one.queue_id for one in of_key}) == 1
        in_order = sorted(of_key, key=lambda one: one.queue_offset)
        assert [int(one.keys[0][1:]) for one in in_order] == 2 * [at for at in range(COUNT) if names[at] == key]


@pytest.mark.parametrize("key", ["N14228", None], ids=["bound to a queue", "to any queue"])
def test_rows_with_large_properties_fit_into_their_batches(mq: EmbeddedRocketMQ, key: str | None) -> None:
    """512 rows in one batch were 8 MB, which no broker takes, however often they are sent."""
    rows = 600
    properties = pa.array([[("note", "ö" * 8_000)]] * rows, pa.map_(pa.string(), pa.string()))
    columns = {
        "body": pa.array([b"x"] * rows),
        "properties": properties,
        "shardingKey": pa.array([key] * rows, pa.string()),
    }
    columns["keys"] = pa.array([["a", "b"]] * rows, pa.list_(pa.string())) if key is None else pa.array(["k"] * rows)
    sender = MessageSender(sink_options({"namesrvaddr": mq.namesrv_addr, "topic": "flights", "retrytimeoutms": "1s"}))
    sender.send(pa.record_batch(columns))
    assert len(mq.messages("flights")) == rows

# SPDX-License-Identifier: Apache-2.0
"""What a sink wrote again after a crash (delivery=idempotent) is read once, and nothing else is dropped, through a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import Numbers, publish, reading, run_available_now, streaming
from pyspark.sql import functions as f

from sprocketmq.spark import each_try_once, each_write_once
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARKS = ("QUERY_ID", "BATCH_ID", "PARTITION", "SEQUENCE")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class Once:
    """A function for foreachBatch: the numbers that came, and the names of their properties."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.names: set[str] = set()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        for row in rows.select("body", "properties").collect():
            self.numbers.append(int(row.body))
            self.names |= row.properties.keys()


def copy(spark: SparkSession, mq: EmbeddedRocketMQ, checkpoint: Path, **options: object) -> None:
    """All of ``flights`` into ``copy``, in batches of 20 rows."""
    query = (
        streaming(spark, mq, maxOffsetsPerTrigger=20, **options)
        .load()
        .selectExpr("body", "map('carrier', 'UA') AS properties")
        .writeStream.format("rocketmq")
        .options(namesrvAddr=mq.namesrv_addr, topic="copy", delivery="idempotent", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)


def test_a_stream_reads_once_what_a_sink_wrote_again_after_a_crash(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 40)
    copies = each_write_once(streaming(spark, mq, topic="copy").load())
    reading, writing = tmp_path / "reading", tmp_path / "writing"
    copy(spark, mq, writing)
    once = Once()
    run_available_now(copies, once, reading)
    assert sorted(once.numbers) == list(range(40))

    for commit in (writing / "commits").glob("*1*"):
        commit.unlink()  # as after a driver that died before Spark wrote that the second batch is done
    copy(spark, mq, writing)
    assert len(mq.messages("copy")) == 60
    with mq.producer() as producer:
        producer.send_batch([Message("copy", b"100"), Message("copy", b"100")])  # another's, alike and without marks
    run_available_now(copies, once, reading)  # repeats of what an earlier run, and an earlier batch, has read
    assert sorted(once.numbers) == [*range(40), 100, 100]
    assert "carrier" in once.names
    assert not [name for name in once.names if name.startswith("SPARK_")]

    at_once = Once()
    run_available_now(copies, at_once, tmp_path / "from-the-start")  # repeats within one batch
    assert sorted(at_once.numbers) == [*range(40), 100, 100]


def test_a_row_without_marks_is_known_to_the_state_of_an_older_version(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """Which was the message id alone."""
    mq.create_topic("copy", queues=1)
    again = Message("copy", b"1")

    def send(*messages: Message) -> None:
        with mq.producer() as producer:
            for message in messages:
                producer.send(message)

    send(again, Message("copy", b"2"))
    rows = streaming(spark, mq, topic="copy").load()
    older = rows.withColumn("sparkWrite", f.col("messageId")).withColumn("firstRead", f.current_timestamp())
    older = older.withWatermark("firstRead", "3 hours").dropDuplicatesWithinWatermark(["sparkWrite"])
    seen = Once()
    run_available_now(older.drop("sparkWrite", "firstRead"), seen, tmp_path)
    send(again, Message("copy", b"3"))
    assert len({message.message_id for message in mq.messages("copy")}) == 3
    run_available_now(each_write_once(rows), seen, tmp_path)
    assert sorted(seen.numbers) == [1, 2, 3]


def once(spark: SparkSession, mq: EmbeddedRocketMQ, topic: str = "copy") -> list[bytes]:
    """The bodies that a batch reads once."""
    return sorted(bytes(row.body) for row in each_write_once(reading(spark, mq, topic=topic)).select("body").collect())


def write(rows: DataFrame, mq: EmbeddedRocketMQ, **options: object) -> None:
    given = {"namesrvAddr": mq.namesrv_addr, "topic": "copy", **options}
    rows.write.format("rocketmq").options(**given).mode("append").save()


def test_a_batch_that_runs_again_with_other_options_is_written_from_the_same_tasks(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 40)
    copy(spark, mq, tmp_path, minPartitions=2)
    for commit in (tmp_path / "commits").glob("*1*"):
        commit.unlink()
    copy(spark, mq, tmp_path, minPartitions=5, ordered=True)
    assert len(mq.messages("copy")) == 60
    numbers = {tuple(message.properties[f"SPARK_{name}"] for name in MARKS) for message in mq.messages("copy")}
    assert len(numbers) == 40
    assert once(spark, mq) == sorted(b"%d" % number for number in range(40))


def test_rows_with_equal_marks_that_say_different_things_are_all_kept(
    spark: SparkSession, mq: EmbeddedRocketMQ
) -> None:
    marks = {f"SPARK_{name}": "0" for name in MARKS}
    with mq.producer() as producer:
        for body in (b"a", b"b", b"a"):  # a shuffle gave the second row the number of the first
            producer.send(Message("copy", body, properties=marks))
    assert once(spark, mq) == [b"a", b"b"]


def test_a_row_that_comes_again_later_than_within_comes_twice(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """What is read later moves the clock on; nobody needs to wait."""
    mq.create_topic("copy", queues=1)
    rows = streaming(spark, mq, topic="copy").load()
    late = Numbers()
    for body in (b"1", b"2", b"1"):
        marks = {f"SPARK_{name}": body.decode() for name in MARKS}
        with mq.producer() as producer:
            producer.send(Message("copy", body, properties=marks))
        run_available_now(each_write_once(rows, within="1 millisecond"), late, tmp_path)
    assert late.seen == [1, 2, 1]


def test_two_writes_of_one_name_are_told_apart_by_their_topics(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    rows = spark.range(0, 10, 1, 1).selectExpr("cast(id AS string) AS body")
    for name in ("loads", "0c7a6cb2-2f0b-4f0e-9a55-6c1b5f0f2a11"):  # a UUID, as a stream has
        for _ in range(2):
            for topic in ("copy", "archive"):
                write(rows, mq, topic=topic, delivery="idempotent", txnAppId=name, txnVersion=7)
    both = each_write_once(reading(spark, mq, topic="copy,archive"))
    assert {row.topic: row["count"] for row in both.groupBy("topic").count().collect()} == {"copy": 20, "archive": 20}


def test_rows_made_of_marked_messages_have_no_marks_of_them(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    marks = {f"SPARK_{name}": "0" for name in MARKS}
    with mq.producer() as producer:
        for body in (b"a", b"b", b"c"):
            producer.send(Message("flights", body, properties={**marks, "SPARK_TRY": "1", "year": "2013"}))
    twice = reading(spark, mq).selectExpr("body", "properties", "explode(sequence(1, 2)) AS leg").drop("leg")
    write(twice, mq)
    assert len(once(spark, mq)) == 6
    assert {
        tuple(message.properties.get(name) for name in ("SPARK_TRY", "year")) for message in mq.messages("copy")
    } == {(None, "2013")}


def test_a_replayed_dead_letter_is_no_repeat(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    publish(mq, 0, 2)
    rows = streaming(spark, mq, group="delays", commitOffsets="off").load()
    numbers = Numbers()
    run_available_now(each_try_once(rows), numbers, tmp_path)
    dead = reading(spark, mq).where("body = '1'").selectExpr("*", "'dlq' AS action")
    write(dead, mq, mode="ack", group="delays", topic="flights")
    letters = spark.read.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, deadLettersOf="delays").load()
    for _ in range(2):
        letters.write.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, mode="replay").mode("append").save()
    run_available_now(each_try_once(rows), numbers, tmp_path)
    assert sorted(numbers.seen) == [0, 1, 1, 1]
    assert len({message.message_id for message in mq.messages("flights")}) == 2

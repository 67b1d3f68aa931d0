# SPDX-License-Identifier: Apache-2.0
"""Streams that do not begin at RocketMQ and end there: the sink and row retry, as PySpark 4.0 and 4.1 can have them. Later versions have
streams of topics, whose tests prove the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from jobs import Numbers, publish

from sprocketmq.spark import foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
BATCHES, ROWS = 3, 40


class Files:
    """A folder of Parquet files, and a stream of it: one file a batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark, self._folder = spark, f"{directory}/files"
        self._checkpoint = directory / "checkpoint"
        self._schema = ""

    def add(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.mode("append").parquet(self._folder)
        self._schema = ", ".join(f"`{name}` {kind}" for name, kind in rows.dtypes)

    def stream(self) -> DataFrame:
        return self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).parquet(self._folder)

    def run(self, rows: DataFrame, into: Callable[[DataStreamWriter], DataStreamWriter]) -> None:
        """Everything that is there, until nothing is left."""
        writer = rows.writeStream.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True)
        assert into(writer).start().awaitTermination(600)

    def forget_last_commit(self) -> None:
        """As if the driver had died before it noted that its last batch is done: the batch runs again."""
        commits = self._checkpoint / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Files:
    files = Files(spark, tmp_path)
    for at in range(BATCHES):
        rows = spark.range(at * ROWS, (at + 1) * ROWS).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS body")
        files.add(rows)
    return files


def stored(mq: EmbeddedRocketMQ) -> Counter[int]:
    return Counter(int(message.body) for message in mq.messages("flights"))


def sink(mq: EmbeddedRocketMQ, **options: object) -> Callable[[DataStreamWriter], DataStreamWriter]:
    given = {"namesrvAddr": mq.namesrv_addr, "topic": "flights", **options}
    return lambda writer: writer.format("rocketmq").options(**given)


def test_each_row_is_stored_and_a_batch_that_runs_again_is_stored_again(mq: EmbeddedRocketMQ, numbers: Files) -> None:
    mq.create_topic("flights", queues=2)
    numbers.run(numbers.stream(), sink(mq))
    assert stored(mq) == Counter(range(BATCHES * ROWS))
    numbers.forget_last_commit()
    numbers.run(numbers.stream(), sink(mq))
    assert stored(mq) == Counter([*range(BATCHES * ROWS), *range((BATCHES - 1) * ROWS, BATCHES * ROWS)])


def test_with_transactional_delivery_a_batch_that_runs_again_appears_once(mq: EmbeddedRocketMQ, numbers: Files) -> None:
    mq.create_topic("flights", queues=2)
    for _ in range(2):
        numbers.run(numbers.stream(), sink(mq, delivery="transactional", group="exact"))
        assert stored(mq) == Counter(range(BATCHES * ROWS))
        numbers.forget_last_commit()


@pytest.fixture
def read_before(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> Files:
    """Messages that a batch read stored as a table, with the columns that say where they are."""
    mq.create_topic("flights", queues=2)
    publish(mq, 0, 30)
    files = Files(spark, tmp_path)
    files.add(spark.read.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, topic="flights").load())
    return files


def test_bad_rows_of_any_stream_go_back_to_the_brokers_that_have_their_messages(
    mq: EmbeddedRocketMQ, read_before: Files
) -> None:
    good = Numbers()

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        number = "cast(cast(body AS string) AS int)"
        return rows.selectExpr(
            "*", f"CASE {number} WHEN 3 THEN 'retry' WHEN 7 THEN 'dlq' WHEN 9 THEN 'drop' END AS action"
        )

    retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr)
    for _ in range(2):  # the second time with the verdicts that were kept
        read_before.run(read_before.stream(), lambda writer: writer.foreachBatch(retry))
        read_before.forget_last_commit()
    assert Counter(good.seen) == Counter({at: 2 for at in range(30) if at not in (3, 7, 9)})
    assert (retry.retried, retry.dead_lettered, retry.dropped) == (2, 2, 2)
    mq.wait_until(lambda: len(mq.messages("%RETRY%delays")) == 2)
    assert [copy.body for copy in mq.messages("%RETRY%delays")] == [b"3", b"3"]
    assert [letter.body for letter in mq.messages("%DLQ%delays")] == [b"7", b"7"]


def test_the_ack_sink_takes_rows_of_any_stream(mq: EmbeddedRocketMQ, read_before: Files) -> None:
    rows = read_before.stream().selectExpr("*", "IF(queueOffset = 2, 'dlq', 'ack') AS action")
    read_before.run(rows, sink(mq, mode="ack", group="delays"))
    assert {letter.body for letter in mq.messages("%DLQ%delays")} == {
        message.body for message in mq.messages("flights") if message.queue_offset == 2
    }


if VERSION < (4, 2):  # later versions read streams; a skipped test of Spark would count as failed

    def test_a_stream_of_a_topic_is_refused_with_what_this_spark_lacks(
        spark: SparkSession, mq: EmbeddedRocketMQ
    ) -> None:
        mq.create_topic("flights", queues=1)
        rows = spark.readStream.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, topic="flights").load()
        with pytest.raises(Exception, match=r"needs PySpark 4\.2 or later, this is 4\.[01]\.\d+.*latestOffset"):
            rows.writeStream.format("noop").start().processAllAvailable()

# SPDX-License-Identifier: Apache-2.0
"""Reads and streams of numbered messages, and what a user reads when they fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

Each = Callable[["DataFrame", int], None]


def publish(mq: EmbeddedRocketMQ, start: int, end: int, topic: str = "flights") -> None:
    with mq.producer() as producer:
        for at in range(start, end, 500):
            producer.send_batch([Message(topic, b"%d" % number, tags="UA") for number in range(at, min(at + 500, end))])


def reading(spark: SparkSession, mq: EmbeddedRocketMQ, **options: Any) -> DataFrame:
    return (
        spark.read.format("rocketmq").options(**{"namesrvAddr": mq.namesrv_addr, "topic": "flights", **options}).load()
    )


def streaming(spark: SparkSession, mq: EmbeddedRocketMQ, **options: Any) -> DataStreamReader:
    given = {"namesrvAddr": mq.namesrv_addr, "topic": "flights", "startingOffsets": "earliest", **options}
    return spark.readStream.format("rocketmq").options(**given)


def run_available_now(rows: DataFrame, each: Each, checkpoint: Path) -> StreamingQuery:
    query = (
        rows.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    return query


def last_words(error: PySparkException) -> str:
    """The last line of what is shown, above Spark's own account of the query."""
    shown = str(error).split("\n=== Streaming Query ===")[0].replace("SQLSTATE: ", "\nSQLSTATE: ")
    lines = [line.strip() for line in shown.splitlines()]
    return [line for line in lines if line and not line.startswith("SQLSTATE: ")][-1]


class Numbers:
    """A function for foreachBatch that keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.batches = 0

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.seen += [int(row.body) for row in rows.select("body").collect()]
        self.batches += 1

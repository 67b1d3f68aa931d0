# SPDX-License-Identifier: Apache-2.0
"""A retry keeps its ``bornTimestamp``: a watermark on that column drops it, one on ``storeTimestamp`` does not (docs/spark/retry.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import run_available_now, streaming
from pyspark.sql import functions as f

import sprocketmq as rmq
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import each_try_once, each_write_once, foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("column", "dropped"), [("bornTimestamp", 1), ("storeTimestamp", 0)])
def test_a_watermark_on_the_time_of_birth_drops_a_retry(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path, column: str, dropped: int
) -> None:
    mq.create_topic("flights", queues=1)
    rows = streaming(spark, mq, group="delays", includeRetry=True).load()
    windows = (
        rows.withWatermark(column, "100 milliseconds").groupBy(f.window(column, "100 milliseconds")).agg(f.count("*"))
    )
    for body in (b"fails", b"is born after it, and moves the watermark"):
        with mq.producer() as producer:
            producer.send(rmq.Message("flights", body))
        counted(windows, tmp_path / "windows")
    retry = foreach_batch(
        lambda rows, batch_id: rows.withColumn("failed", rows.body == f.lit(b"fails")),
        write=lambda rows, batch_id: rows.collect(),
        group="delays",
        namesrv_addr=mq.namesrv_addr,
        check_source=False,
    )
    run_available_now(streaming(spark, mq).load(), retry, tmp_path / "retry")
    mq.wait_until(lambda: len(mq.messages("%RETRY%delays")) == 1)
    assert counted(windows, tmp_path / "windows") == dropped


def counted(windows: DataFrame, checkpoint: Path) -> int:
    """Rows that the watermark dropped while the query took what was there."""
    query = (
        windows.writeStream.outputMode("update")
        .foreachBatch(lambda rows, batch_id: rows.collect())
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def test_repetitions_are_dropped_within_a_watermark_of_the_users(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    again = rmq.Message("flights", b"60")
    names = ["life", "firstRead", "sparkWrite"]  # columns of the user's, too
    rows = streaming(spark, mq).load().withColumns({name: f.lit(1) for name in names})
    rows = rows.withColumn("at", f.timestamp_seconds(rows.body.cast("string").cast("int")))
    watermarked = rows.withWatermark("at", "10 minutes")
    for function in (each_try_once, each_write_once):
        assert function(rows).columns == function(watermarked).columns == rows.columns
        with pytest.raises(ConfigurationError, match="the rows have a watermark on at of 600000 ms"):
            function(watermarked, within="1 hour")
    once = each_try_once(watermarked)
    counts: dict[int, int] = {}

    def take(windows: DataFrame, batch_id: int) -> None:
        counts.update({int(row.start): row["count"] for row in windows.collect()})

    counted = once.groupBy(f.window("at", "10 minutes"), *names).count()
    counted = counted.select(f.col("window.start").cast("long").alias("start"), "count")
    with mq.producer() as producer:
        for message in (again, rmq.Message("flights", b"61"), again, rmq.Message("flights", b"7200")):
            producer.send(message)
    query = counted.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    assert counts == {0: 2}

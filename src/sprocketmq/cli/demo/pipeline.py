# SPDX-License-Identifier: Apache-2.0
"""Last stage, a child process so that the JVM ends with it. Each batch overwrites its own folder, so a batch that is repeated after a crash
does not count twice."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.cli.demo.members import member_options, report, run_until_stdin_closes
from sprocketmq.cli.demo.publish import TOPIC
from sprocketmq.cli.frame.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GROUP: Final = "delays-spark"
MAX_RECONSUME_TIMES: Final = 2
_RETRY_LEVEL: Final = 1
_ROWS_PER_BATCH: Final = 60_000
_COLUMNS: Final = "topic,brokerName,commitLogOffset,messageId,body,reconsumeTimes"
_FLIGHT: Final = (
    "row INT, time_hour STRING, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, distance INT, "
    "hour INT, minute INT, sched_dep_time INT, dep_time INT, dep_delay INT, arr_delay INT"
)


class PipelineOptions(msgspec.Struct):
    """The options of the pipeline; ``out`` gets ``flights.parquet``, ``delays.parquet`` and the checkpoint."""

    target: Target
    out: str


class Batch(msgspec.Struct):
    good: int
    bad: int
    seconds: float


def main() -> None:
    options = member_options(PipelineOptions)
    spark = _session()
    try:
        query = _start(spark, options)

        def raise_if_it_failed() -> None:
            if (error := query.exception()) is not None:
                raise error

        run_until_stdin_closes(raise_if_it_failed)
        # Waits for one more trigger after the last batch, which writes the progress to the broker.
        query.processAllAvailable()
        query.stop()
        _write_means(spark, Path(options.out))
    finally:
        spark.stop()


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.appName("sprocketmq-demo")
        .master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _start(spark: SparkSession, options: PipelineOptions) -> StreamingQuery:
    import pyarrow.parquet as pq

    from sprocketmq.spark.retry.row_retry import foreach_batch

    out = Path(options.out)
    messages = (
        spark.readStream.format("rocketmq")
        .options(**options.target.spark_options())
        .option("topic", TOPIC)
        .option("group", GROUP)
        .option("startingOffsets", "earliest")
        .option("includeRetry", "true")
        .option("columns", _COLUMNS)
        .option("maxOffsetsPerTrigger", str(_ROWS_PER_BATCH))
        .load()
    )
    written = 0

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        from pyspark.sql import functions as f

        flights = rows.withColumn("flight", f.from_json(f.col("body").cast("string"), _FLIGHT))
        return flights.withColumn("failed", f.col("flight.dep_time").isNull())

    def write(good: DataFrame, batch_id: int) -> None:
        nonlocal written
        path = str(out / "flights.parquet" / f"batch={batch_id}")
        good.select("flight.*").write.mode("overwrite").parquet(path)
        written = sum(pq.read_metadata(file).num_rows for file in Path(path).glob("*.parquet"))

    retry = foreach_batch(
        judge,
        write=write,
        group=GROUP,
        options=options.target.spark_options(),
        max_reconsume=MAX_RECONSUME_TIMES,
        delay_level=_RETRY_LEVEL,
    )

    def run_batch(rows: DataFrame, batch_id: int) -> None:
        started_s, before = time.perf_counter(), retry.retried + retry.dead_lettered
        retry(rows, batch_id)
        report(Batch(written, retry.retried + retry.dead_lettered - before, time.perf_counter() - started_s))

    return (
        messages.writeStream.foreachBatch(run_batch)
        .option("checkpointLocation", str(out / "checkpoint"))
        .queryName(GROUP)
        .start()
    )


def _write_means(spark: SparkSession, out: Path) -> None:
    from pyspark.sql import functions as f

    flights = spark.read.parquet(str(out / "flights.parquet"))
    means = flights.groupBy("carrier", "hour").agg(
        f.count("dep_delay").alias("flights"), f.avg("dep_delay").alias("mean_dep_delay")
    )
    means.orderBy("carrier", "hour").coalesce(1).write.mode("overwrite").parquet(str(out / "delays.parquet"))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Last stage, a child process so that the JVM ends with it; Spark starts while the other stages run. Each batch overwrites its own folder,
so a batch that is repeated after a crash does not count twice."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from sprocketmq.cli.demo.children import Parent
from sprocketmq.cli.demo.reports import MAX_RECONSUME_TIMES, RETRY_LEVEL, SPARK_GROUP, TOPIC, Batch, Options
from sprocketmq.spark import foreach_batch

_ROWS_PER_BATCH: Final = 60_000
_FLIGHT: Final = (
    "row INT, time_hour STRING, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, distance INT, "
    "hour INT, minute INT, sched_dep_time INT, dep_time INT, dep_delay INT, arr_delay INT"
)


def main() -> None:
    demo = Parent(Options)
    spark = session()
    try:
        while not demo.lets_go_on(1):
            pass
        query = start(spark, demo)
        while not demo.lets_go_on(0.1):
            if (error := query.exception()) is not None:
                raise error
        # Waits for one more trigger after the last batch, which writes the progress to the broker.
        query.processAllAvailable()
        query.stop()
        write_means(spark, Path(demo.options.out))
    finally:
        spark.stop()


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = (
        sys.executable
    )  # whatever this machine's Spark runs
    return (
        SparkSession.builder.appName("sprocketmq-demo")
        .master("local[*]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # The run ends before the second compiler's code would pay for its compiling.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def start(spark: SparkSession, demo: Parent[Options]) -> StreamingQuery:
    mq = demo.options.target.spark_options()
    written = 0

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        flights = rows.withColumn("flight", f.from_json(f.col("body").cast("string"), _FLIGHT))
        return flights.withColumn("failed", f.col("flight.dep_time").isNull()).drop("body")

    def write(good: DataFrame, batch_id: int) -> None:
        nonlocal written
        path = f"{demo.options.out}/flights.parquet/batch={batch_id}"
        good.select("flight.*").write.mode("overwrite").parquet(path)
        written = sum(pq.read_metadata(file).num_rows for file in Path(path).glob("*.parquet"))

    retry = foreach_batch(
        judge, write=write, group=SPARK_GROUP, options=mq, max_reconsume=MAX_RECONSUME_TIMES, delay_level=RETRY_LEVEL
    )

    def run_batch(rows: DataFrame, batch_id: int) -> None:
        retried, dead = retry.retried, retry.dead_lettered
        retry(rows, batch_id)
        demo.report(Batch(written, retry.retried - retried, retry.dead_lettered - dead))

    return (
        spark.readStream.format("rocketmq")
        .options(**retry.source_options, topic=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=_ROWS_PER_BATCH)
        .option("maxPartitions", os.cpu_count() or 1)  # more tasks than cores only cost
        .option("columns", "topic,brokerName,commitLogOffset,messageId,body,reconsumeTimes")
        .load()
        .writeStream.foreachBatch(run_batch)
        .option("checkpointLocation", f"{demo.options.out}/checkpoint")
        .queryName(SPARK_GROUP)
        .start()
    )


def write_means(spark: SparkSession, out: Path) -> None:
    flights = spark.read.parquet(str(out / "flights.parquet"))
    means = flights.groupBy("carrier", "hour").agg(
        f.count("dep_delay").alias("flights"), f.avg("dep_delay").alias("mean_dep_delay")
    )
    means.orderBy("carrier", "hour").coalesce(1).write.mode("overwrite").parquet(str(out / "delays.parquet"))


if __name__ == "__main__":
    main()

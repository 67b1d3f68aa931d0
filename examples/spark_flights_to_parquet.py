# SPDX-License-Identifier: Apache-2.0
"""Flights from a topic into a Parquet table. One that cannot be parsed is delivered twice more and then becomes a dead letter; good ones
are not delayed.

    python examples/spark_flights_to_parquet.py                          # brings its own broker, with flights in it
    python examples/spark_flights_to_parquet.py --namesrv-addr 127.0.0.1:9876 --out /data/flights --follow

Each batch is a separate folder that is overwritten if Spark repeats the batch, so after a crash no flight is missing or doubled. A row that
cannot be parsed (here a cancelled flight, which has no departure time) is sent back to the broker, which delivers it again after 1 s. The
third failure makes it a dead letter of the group ``delays``, with its reason. With --follow it runs until Ctrl-C; started again with the
same --out, it continues from there.
"""

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from stage import arguments, publish_flights, stage, wait

from sprocketmq.spark import foreach_batch

FLIGHT = "time_hour string, carrier string, flight int, tailnum string, origin string, dest string, dep_time int, dep_delay int"


def judge(rows: DataFrame, batch_id: int) -> DataFrame:
    flight = f.from_json(f.col("body").cast("string"), FLIGHT)
    reason = f.when(flight.carrier.isNull(), "not a flight").when(flight.dep_time.isNull(), "no departure time")
    return rows.withColumn("flight", flight).withColumn("reason", reason).withColumn("failed", reason.isNotNull())


def run(spark: SparkSession, namesrv_addr: str, out: Path, follow: bool = False) -> StreamingQuery:
    """Write all present flights (``follow``: and future ones) to ``out/flights``, one folder for each batch."""
    mq = {"namesrvAddr": namesrv_addr}

    def write(good: DataFrame, batch_id: int) -> None:
        good.select("flight.*").write.mode("overwrite").parquet(f"{out}/flights/batch={batch_id}")

    rows = (
        spark.readStream.format("rocketmq")
        .options(**mq, topic="flights", group="delays", startingOffsets="earliest", maxOffsetsPerTrigger=100_000)
        .option("includeRetry", "true")  # rows that were sent back are delivered again in this stream
        .load()
    )
    return (
        rows.writeStream.foreachBatch(
            foreach_batch(judge, write=write, group="delays", max_reconsume=2, delay_level=1, options=mq)
        )
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(**({"processingTime": "1 second"} if follow else {"availableNow": True}))
        .start()
    )


def delays(spark: SparkSession, out: Path) -> DataFrame:
    flights = spark.read.parquet(f"{out}/flights")
    means = flights.groupBy("carrier").agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("mean_delay"))
    return means.orderBy(f.desc("flights"))


def dead_letters(spark: SparkSession, namesrv_addr: str) -> DataFrame:
    letters = spark.read.format("rocketmq").options(namesrvAddr=namesrv_addr, deadLettersOf="delays").load()
    return (
        letters.selectExpr("properties['RETRY_REASON'] AS reason", "reconsumeTimes AS tries")
        .groupBy("reason", "tries")
        .count()
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--out", help="the folder of the table and its checkpoint (one that is gone afterwards)")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    with stage(parser, lambda given: publish_flights(given.namesrv_addr, given.rows)) as (session, given):
        for _ in range(1 if given.follow else 3):  # rows that were sent back are delivered in the next run
            if not wait(run(session, given.namesrv_addr, given.out, given.follow)):
                break
            time.sleep(1.5)
        print("flights in the table, by carrier:")
        delays(session, given.out).show()
        print("dead letters:")
        dead_letters(session, given.namesrv_addr).show(truncate=False)

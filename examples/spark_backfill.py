# SPDX-License-Identifier: Apache-2.0
"""Write a span of time of a topic to Parquet again, one folder for each hour, for example after a bug.

    python examples/spark_backfill.py                                    # brings its own broker, with flights in it
    python examples/spark_backfill.py --namesrv-addr 127.0.0.1:9876 --out /data/flights \\
        --begin 2026-01-31T22:00:00+00:00 --end 2026-02-01T06:00:00+00:00

A batch read between two times requests the offsets of these times from the brokers and reads only what lies between; large queues are split
among tasks. The times are store times, in milliseconds since 1970 or with their zone. The strategy ``latest`` means that a queue without a
message since ``begin`` gives no rows. A second run replaces the folders of these hours. Begin and end at full hours, so that each folder is
complete.
"""

import argparse
import time

from pyspark.sql import DataFrame, SparkSession
from stage import arguments, publish_flights, stage


def run(spark: SparkSession, namesrv_addr: str, begin: str, end: str, out: str) -> None:
    """Write the messages that were stored at or after ``begin`` and before ``end``."""
    rows = (
        spark.read.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="flights")
        .options(startingTimestamp=begin, endingTimestamp=end, startingOffsetsByTimestampStrategy="latest")
        .option("columns", "keys,tags,body,storeTimestamp,queueId,queueOffset")
        .load()
        .selectExpr("*", "date_format(storeTimestamp, 'yyyy-MM-dd-HH') AS hour")
    )
    (
        rows.write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")  # replace the hours that were read, leave the others
        .partitionBy("hour")
        .parquet(out)
    )


def by_hour(spark: SparkSession, out: str) -> DataFrame:
    found = "count(*) AS messages", "min(storeTimestamp) AS first", "max(storeTimestamp) AS last"
    # With a schema, a span without messages is an empty table; without one, Spark could not infer it.
    spark.read.schema("storeTimestamp timestamp, hour string").parquet(out).createOrReplaceTempView("backfilled")
    return spark.sql(f"SELECT hour, {', '.join(found)} FROM backfilled GROUP BY hour ORDER BY hour")


def publish_in_three_parts(given: argparse.Namespace) -> None:
    """Store a quarter of the flights before the span, half in it, and a quarter after it."""
    quarter = max(given.rows // 4, 1)
    publish_flights(given.namesrv_addr, quarter)
    time.sleep(0.1)
    given.begin = str(time.time_ns() // 1_000_000)
    publish_flights(given.namesrv_addr, 2 * quarter)
    time.sleep(0.1)
    given.end = str(time.time_ns() // 1_000_000)
    publish_flights(given.namesrv_addr, quarter)


if __name__ == "__main__":
    parser = arguments(__doc__)
    hour_ms = 3_600_000
    this_hour = time.time_ns() // 1_000_000 // hour_ms * hour_ms
    parser.add_argument("--begin", default=str(this_hour - hour_ms), help="the first moment (the hour before this one)")
    parser.add_argument("--end", default=str(this_hour), help="the first moment after (this hour)")
    parser.add_argument("--out", help="the folder of the table (one that is gone afterwards)")
    with stage(parser, publish_in_three_parts) as (session, given):
        run(session, given.namesrv_addr, given.begin, given.end, given.out)
        print(f"stored from {given.begin} until before {given.end}:")
        by_hour(session, given.out).show(truncate=False)

"""A span of time out of a topic into Parquet, one folder for each hour: the night that a bug spoilt, done anew.

    python examples/spark_backfill.py

A batch read between two times asks the brokers for the offsets of those times and reads just that; large queues are split among tasks.
The times are those of storing, in milliseconds since 1970 or with their zone, as in 2026-01-31T08:00:00+00:00. ``latest`` as strategy
means: a queue without a message so young gives nothing. Run it twice and the folders are replaced, not doubled.

Needs no broker: it brings its own.
"""

import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ


def run(spark: SparkSession, namesrv_addr: str, begin: str, end: str, folder: Path) -> int:
    """Write the messages stored from ``begin`` until before ``end``; how many there were."""
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
        .parquet(str(folder))
    )
    return spark.read.parquet(str(folder)).count()


if __name__ == "__main__":
    with EmbeddedRocketMQ(clock="system") as mq, tempfile.TemporaryDirectory() as place:
        with mq.producer() as producer:
            producer.send_batch([rmq.Message("flights", b"before") for _ in range(100)])
            time.sleep(0.1)
            begin = time.time_ns() // 1_000_000
            producer.send_batch([rmq.Message("flights", b"that night") for _ in range(50)])
            time.sleep(0.1)
            end = time.time_ns() // 1_000_000
            producer.send_batch([rmq.Message("flights", b"after") for _ in range(100)])
        session = SparkSession.builder.master("local[2]").appName("backfill").getOrCreate()
        print(run(session, mq.namesrv_addr, str(begin), str(end), Path(place) / "flights"), "messages")
        session.stop()

"""Topic to topic: each flight gets the name of its airline on the way, in the order of its plane.

    python examples/spark_enrich.py

The stream is written with ``shardingKey``: flights of one plane go to one queue, in the order in which they were read. ``ordered`` keeps
each queue of the source in one task. At least once: after a crash a batch may be sent again; ``delivery=idempotent`` numbers the rows, so
that a reader can tell.

Needs no broker: it brings its own.
"""

import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

FLIGHT = "carrier string, tailnum string, dep_delay int"
AIRLINES = [("UA", "United Air Lines"), ("DL", "Delta Air Lines")]


def run(spark: SparkSession, namesrv_addr: str, checkpoint: str) -> None:
    """Enrich all flights that are there now; leave the trigger out to go on for ever."""
    airlines = spark.createDataFrame(AIRLINES, "carrier string, airline string")
    flights = (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="flights", startingOffsets="earliest", ordered=True)
        .load()
        .select("tags", "keys", f.from_json(f.col("body").cast("string"), FLIGHT).alias("flight"))
        .select("tags", "keys", "flight.*")
    )
    enriched = flights.join(f.broadcast(airlines), "carrier", "left").select(
        f.to_json(f.struct("carrier", "airline", "tailnum", "dep_delay")).alias("body"),
        "tags",
        "keys",
        f.col("tailnum").alias("shardingKey"),
    )
    query = (
        enriched.writeStream.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="flights-enriched", delivery="idempotent")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def publish(mq: EmbeddedRocketMQ, count: int) -> None:
    with mq.producer() as producer:
        for number in range(count):
            carrier, plane = ("UA", "N14228") if number % 3 else ("DL", "N668DN")
            body = f'{{"carrier": "{carrier}", "tailnum": "{plane}", "dep_delay": {number}}}'
            producer.send(rmq.Message("flights", body.encode(), tags=carrier, keys=plane), sharding_key=plane)


if __name__ == "__main__":
    with EmbeddedRocketMQ(clock="system") as mq, tempfile.TemporaryDirectory() as place:
        publish(mq, 9)
        session = SparkSession.builder.master("local[2]").appName("enrich").getOrCreate()
        run(session, mq.namesrv_addr, place)
        session.stop()
        for message in mq.messages("flights-enriched"):
            print(message.queue_id, message.body.decode())

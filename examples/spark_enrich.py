# SPDX-License-Identifier: Apache-2.0
"""Topic to topic, exactly once: each flight gets the name of its airline on the way, in the order of its plane.

    python examples/spark_enrich.py                                      # brings its own broker, with flights in it
    python examples/spark_enrich.py --namesrv-addr 127.0.0.1:9876 --checkpoint /data/enrich --follow

``delivery=transactional``: all rows of a batch appear in the topic exactly once, also after kills; consumers need no change. On Apache
brokers set transactionTimeOut above the time of a batch first (docs/spark/exactly-once.md). With --delivery idempotent a batch that is
repeated after a crash sends its rows again, numbered, so that readers can drop them; atLeastOnce does not number them. ``shardingKey`` and
``ordered`` keep the order of each plane. With --follow it runs until Ctrl-C; started again with the same --checkpoint, it continues from
there.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from stage import arguments, publish_flights, stage, wait

FLIGHT = "carrier string, tailnum string, flight int, dep_delay int"
AIRLINES = [
    ("AA", "American"),
    ("B6", "JetBlue"),
    ("DL", "Delta"),
    ("EV", "ExpressJet"),
    ("UA", "United"),
    ("WN", "Southwest"),
]


def run(
    spark: SparkSession, namesrv_addr: str, checkpoint: str, delivery: str = "transactional", follow: bool = False
) -> StreamingQuery:
    """Enrich all present flights (``follow``: and future ones) into the topic ``flights-enriched``."""
    mq = {"namesrvAddr": namesrv_addr}
    airlines = spark.createDataFrame(AIRLINES, "carrier string, airline string")
    flights = (
        spark.readStream.format("rocketmq")
        .options(**mq, topic="flights", startingOffsets="earliest", ordered=True)
        .option("maxOffsetsPerTrigger", 10_000)  # each row of a transaction is a separate request: use small batches
        .load()
        .select("tags", "keys", f.from_json(f.col("body").cast("string"), FLIGHT).alias("flight"))
        .select("tags", "keys", "flight.*")
    )
    enriched = flights.join(f.broadcast(airlines), "carrier", "left").select(
        f.to_json(f.struct("carrier", "airline", "flight", "tailnum", "dep_delay")).alias("body"),
        "tags",
        "keys",
        f.col("tailnum").alias("shardingKey"),
    )
    sink = {"topic": "flights-enriched", "delivery": delivery}
    if delivery == "transactional":
        sink["group"] = "flights-enricher"  # the broker sends check-backs of open transactions to this producer group
    return (
        enriched.writeStream.format("rocketmq")
        .options(**mq, **sink)
        .option("checkpointLocation", checkpoint)
        .trigger(**({"processingTime": "1 second"} if follow else {"availableNow": True}))
        .start()
    )


def enriched(spark: SparkSession, namesrv_addr: str) -> DataFrame:
    """Print what consumers see, by airline."""
    rows = spark.read.format("rocketmq").options(namesrvAddr=namesrv_addr, topic="flights-enriched").load()
    flight = f.from_json(f.col("body").cast("string"), FLIGHT + ", airline string")
    return (
        rows.select(flight.alias("flight")).groupBy("flight.carrier", "flight.airline").count().orderBy(f.desc("count"))
    )


if __name__ == "__main__":
    parser = arguments(__doc__, rows=500)
    parser.add_argument(
        "--checkpoint",
        dest="out",
        metavar="FOLDER",
        help="where the query keeps its progress (a folder that is gone afterwards)",
    )
    parser.add_argument("--delivery", choices=["transactional", "idempotent", "atLeastOnce"], default="transactional")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    with stage(parser, lambda given: publish_flights(given.namesrv_addr, given.rows)) as (session, given):
        wait(run(session, given.namesrv_addr, given.out, given.delivery, given.follow))
        print("what consumers of flights-enriched see:")
        enriched(session, given.namesrv_addr).show()

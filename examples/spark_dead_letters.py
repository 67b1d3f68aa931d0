"""Dead letters looked at, drawn, mended and sent back to where they came from.

    python examples/spark_dead_letters.py letters.png

The dead letters of a group are a table: ``topic`` is the topic each came from, ``storeTimestamp`` is when it died, the property
RETRY_REASON why (where the consumer said so: Spark's column ``reason`` does), ``reconsumeTimes`` how often it was tried. What can be mended
is mended in the column ``body`` and written with ``mode=replay``: tags, keys, properties and message id stay, its tries begin anew. The
letters themselves stay until the broker's retention takes them.

Needs no broker: it brings its own.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ


def dead_letters(spark: SparkSession, namesrv_addr: str) -> DataFrame:
    letters = spark.read.format("rocketmq").options(namesrvAddr=namesrv_addr, deadLettersOf="delays").load()
    return letters.withColumn("reason", f.coalesce(f.col("properties")["RETRY_REASON"], f.lit("(none given)")))


def draw(letters: DataFrame, picture: Path) -> None:
    """Which reasons, by topic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = letters.groupBy("topic", "reason").count().orderBy("count").collect()
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.4 * len(counts)))
    axes.barh([f"{row.topic}: {row.reason}" for row in counts], [row["count"] for row in counts])
    axes.set_xlabel("dead letters")
    figure.tight_layout()
    figure.savefig(picture)
    pyplot.close(figure)


def replay_mended(letters: DataFrame, namesrv_addr: str) -> None:
    """Only what has a known cause; the rest is for a person to look at."""
    mended = letters.where("reason = 'no departure time'").withColumn(
        "body", f.regexp_replace(f.col("body").cast("string"), "NA", "0530").cast("binary")
    )
    (
        mended.select("topic", "body", "properties")
        .write.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, mode="replay")
        .mode("append")
        .save()
    )


def give_up_some(spark: SparkSession, namesrv_addr: str) -> None:
    """What left the dead letters: a batch whose bad rows say why, by the column ``action`` of the sink."""
    rows = spark.read.format("rocketmq").options(namesrvAddr=namesrv_addr, topic="flights").load()
    judged = rows.withColumn(
        "reason",
        f.expr(
            "CASE WHEN cast(body AS string) LIKE '%NA' THEN 'no departure time' "
            "WHEN cast(body AS string) LIKE '%?' THEN 'not a flight' END"
        ),
    ).withColumn("action", f.expr("IF(reason IS NULL, 'ack', 'dlq')"))
    (
        judged.write.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, group="delays", mode="ack")
        .mode("append")
        .save()
    )


def run(spark: SparkSession, namesrv_addr: str, picture: Path) -> None:
    give_up_some(spark, namesrv_addr)
    letters = dead_letters(spark, namesrv_addr).cache()
    letters.groupBy("topic", "reason").agg(f.count("*").alias("letters"), f.min("storeTimestamp").alias("since")).show(
        truncate=False
    )
    draw(letters, picture)
    replay_mended(letters, namesrv_addr)
    letters.unpersist()


def publish(mq: EmbeddedRocketMQ) -> None:
    bodies = [b"UA 1545 0517", b"UA 1714 NA", b"AA 1141 NA", b"???"]
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", body, tags=body[:2].decode()) for body in bodies])


if __name__ == "__main__":
    with EmbeddedRocketMQ(clock="system") as mq:
        publish(mq)
        time.sleep(0.1)
        session = SparkSession.builder.master("local[2]").appName("dead letters").getOrCreate()
        run(session, mq.namesrv_addr, Path(sys.argv[1] if len(sys.argv) > 1 else "letters.png"))
        session.stop()
        print([message.body.decode() for message in mq.messages("flights")])

"""A change stream kept as a table: inserts, updates and deletes merged into a folder of Parquet, each batch once.

    python examples/spark_merge_changes.py

A message is one change: its tag says which (INSERT, UPDATE, DELETE), its sharding key is the row's key, its body the row as JSON. Changes
of one key travel through one queue, so their queue offsets are their order. Each batch writes a new version of the table and then points
``CURRENT`` at it; a batch that Spark repeats after a crash finds itself there already. (Delta Lake and Iceberg have MERGE for this.)

Needs no broker: it brings its own.
"""

import os
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

ROW = "tailnum string, airline string, seats int"


def table(spark: SparkSession, folder: Path) -> tuple[int, DataFrame]:
    """The number of the batch that was merged last, and the table as it left it."""
    if not (folder / "CURRENT").exists():
        return -1, spark.createDataFrame([], ROW)
    merged = int((folder / "CURRENT").read_text())
    return merged, spark.read.schema(ROW).parquet(str(folder / f"v{merged}"))


def merge(changes: DataFrame, batch_id: int, folder: Path) -> None:
    spark = changes.sparkSession
    merged, rows = table(spark, folder)
    if batch_id <= merged:
        return  # it was merged before the crash
    latest_first = Window.partitionBy("row.tailnum").orderBy(f.desc("queueOffset"))
    newest = (
        changes.select("tags", "queueOffset", f.from_json(f.col("body").cast("string"), ROW).alias("row"))
        .withColumn("age", f.row_number().over(latest_first))
        .where("age = 1")
        .select("tags", "row.*")
    )
    kept = rows.join(newest, "tailnum", "left_anti")
    now = kept.unionByName(newest.where("tags != 'DELETE'").drop("tags"))
    now.write.mode("overwrite").parquet(str(folder / f"v{batch_id}"))
    (folder / "CURRENT.new").write_text(str(batch_id))
    os.replace(folder / "CURRENT.new", folder / "CURRENT")


def run(spark: SparkSession, namesrv_addr: str, folder: Path) -> None:
    """Merge all changes that are there now; call it again for what came later."""
    changes = (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="planes", startingOffsets="earliest")
        .option("columns", "tags,queueOffset,body")
        .load()
    )
    query = (
        changes.writeStream.foreachBatch(lambda rows, batch_id: merge(rows, batch_id, folder))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def publish(mq: EmbeddedRocketMQ, *changes: tuple[str, str, str]) -> None:
    with mq.producer() as producer:
        for kind, tailnum, row in changes:
            producer.send(rmq.Message("planes", row.encode(), tags=kind, keys=tailnum), sharding_key=tailnum)


if __name__ == "__main__":
    with EmbeddedRocketMQ(clock="system") as mq, tempfile.TemporaryDirectory() as place:
        publish(
            mq,
            ("INSERT", "N14228", '{"tailnum": "N14228", "airline": "UA", "seats": 149}'),
            ("INSERT", "N24211", '{"tailnum": "N24211", "airline": "UA", "seats": 149}'),
            ("UPDATE", "N14228", '{"tailnum": "N14228", "airline": "UA", "seats": 150}'),
            ("DELETE", "N24211", '{"tailnum": "N24211"}'),
        )
        session = SparkSession.builder.master("local[2]").appName("merge changes").getOrCreate()
        run(session, mq.namesrv_addr, Path(place))
        table(session, Path(place))[1].show()
        session.stop()

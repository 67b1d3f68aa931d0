# SPDX-License-Identifier: Apache-2.0
"""A change stream kept as a table: inserts, updates and deletes merged into a folder of Parquet, each batch once.

    python examples/spark_merge_changes.py                               # brings its own broker, with changes in it
    python examples/spark_merge_changes.py --namesrv-addr 127.0.0.1:9876 --out /data/planes --follow

A message is one change: its tag says which (INSERT, UPDATE, DELETE), its sharding key is the row's key, its body the row as JSON. Changes
of one key are in one queue, so their queue offsets give their order, whatever the order of Spark's tasks is. Each batch writes a new
version of the table and then points ``CURRENT`` at it; a batch that Spark repeats after a crash is already there and is skipped. (With
Delta Lake or Iceberg the body of ``merge`` is their MERGE, and the log of versions is theirs.) A change that cannot be parsed becomes a
dead letter at once. It is not retried, because it would then come after newer changes of its key.
"""

import os
import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from stage import arguments, stage, wait

import sprocketmq as rmq
from sprocketmq.spark import foreach_batch

ROW = "tailnum string, airline string, seats int"
KINDS = ("INSERT", "UPDATE", "DELETE")
KEPT = 3  # versions that are kept for readers that began with an older one


def table(spark: SparkSession, folder: Path) -> tuple[int, DataFrame]:
    """The number of the batch that was merged last, and the table after it."""
    if not (folder / "CURRENT").exists():
        return -1, spark.createDataFrame([], ROW)
    merged = int((folder / "CURRENT").read_text())
    return merged, spark.read.schema(ROW).parquet(str(folder / f"v{merged}"))


def judge(changes: DataFrame, batch_id: int) -> DataFrame:
    row = f.from_json(f.col("body").cast("string"), ROW)
    reason = f.when(row.tailnum.isNull(), "no row").when(
        ~f.coalesce(f.col("tags"), f.lit("")).isin(*KINDS), "no such change"
    )
    checked = changes.withColumn("row", row).withColumn("reason", reason)
    return checked.withColumn("action", f.when(reason.isNotNull(), "dlq"))


def merge(changes: DataFrame, batch_id: int, folder: Path) -> None:
    merged, rows = table(changes.sparkSession, folder)
    if batch_id <= merged:
        return  # this batch was merged before the crash
    latest_first = Window.partitionBy("row.tailnum").orderBy(f.desc("queueOffset"))
    newest = changes.withColumn("age", f.row_number().over(latest_first)).where("age = 1").select("tags", "row.*")
    kept = rows.join(newest, "tailnum", "left_anti")
    now = kept.unionByName(newest.where("tags != 'DELETE'").drop("tags"))
    now.write.mode("overwrite").parquet(str(folder / f"v{batch_id}"))
    (folder / "CURRENT.new").write_text(str(batch_id))
    os.replace(folder / "CURRENT.new", folder / "CURRENT")
    for old in sorted(int(path.name[1:]) for path in folder.glob("v*"))[:-KEPT]:
        shutil.rmtree(folder / f"v{old}")


def run(spark: SparkSession, namesrv_addr: str, folder: Path, follow: bool = False) -> StreamingQuery:
    """Merge all present changes (``follow``: and future ones)."""
    mq = {"namesrvAddr": namesrv_addr}
    if (folder / "CURRENT").exists() and not (folder / "checkpoint").exists():
        # Without the checkpoint batches would be numbered from 0 again, and would be skipped as merged.
        raise FileNotFoundError(
            f"{folder} has a table and no checkpoint; they belong together: restore both, or begin in a new folder"
        )
    changes = spark.readStream.format("rocketmq").options(**mq, topic="planes", startingOffsets="earliest").load()

    def write(good: DataFrame, batch_id: int) -> None:
        merge(good, batch_id, folder)

    return (
        changes.writeStream.foreachBatch(foreach_batch(judge, write=write, group="planes-table", options=mq))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**({"processingTime": "1 second"} if follow else {"availableNow": True}))
        .start()
    )


def publish(namesrv_addr: str, *changes: tuple[str, str, str]) -> None:
    with rmq.Producer("planes-publisher", namesrv_addr=namesrv_addr) as producer:
        for kind, tailnum, row in changes:
            producer.send(rmq.Message("planes", row.encode(), tags=kind, keys=tailnum), sharding_key=tailnum)


CHANGES = [
    ("INSERT", "N14228", '{"tailnum": "N14228", "airline": "United", "seats": 149}'),
    ("INSERT", "N24211", '{"tailnum": "N24211", "airline": "United", "seats": 149}'),
    ("INSERT", "N668DN", '{"tailnum": "N668DN", "airline": "Delta", "seats": 178}'),
    ("UPDATE", "N14228", '{"tailnum": "N14228", "airline": "United", "seats": 150}'),
    ("UPDATE", "N668DN", "seats: 190"),
    ("DELETE", "N24211", '{"tailnum": "N24211"}'),
]

if __name__ == "__main__":
    parser = arguments(__doc__, rows=None)
    parser.add_argument("--out", help="the folder of the table and its checkpoint (one that is gone afterwards)")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    with stage(parser, lambda given: publish(given.namesrv_addr, *CHANGES)) as (session, given):
        wait(run(session, given.namesrv_addr, Path(given.out), given.follow))
        merged, planes = table(session, Path(given.out))
        print(f"the table after batch {merged}:")
        planes.orderBy("tailnum").show()
        letters = (
            session.read.format("rocketmq").options(namesrvAddr=given.namesrv_addr, deadLettersOf="planes-table").load()
        )
        print("changes that could not be read:")
        letters.selectExpr(
            "tags", "keys", "cast(body AS string) AS body", "properties['RETRY_REASON'] AS reason"
        ).show()

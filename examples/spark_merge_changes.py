# SPDX-License-Identifier: Apache-2.0
"""A table of a database kept as a table of Parquet: inserts, updates and deletes merged in order, each batch once.

    python examples/spark_merge_changes.py                               # brings its own broker, with changes in it
    python examples/spark_merge_changes.py --namesrv-addr 127.0.0.1:9876 --out /data/planes --follow

The messages are those of Canal (https://github.com/alibaba/canal), which reads the log of a MySQL and shards by primary key, so that all
changes of a row are in one queue. Each batch writes a new version of the table and then points ``CURRENT`` at it; a batch that Spark
repeats after a crash is already there and is skipped. (With Delta Lake or Iceberg the body of ``merge`` is their MERGE, and the log of
versions is theirs.) Each row keeps the position of its last change, so events that Canal repeats after its own crash change nothing.
A message that cannot be read becomes a dead letter at once. It is not retried, because it would then come after newer changes of its row.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from stage import arguments, stage, wait

import sprocketmq as rmq
from sprocketmq.spark import change_events, foreach_batch

ROW = "tailnum string, airline string, seats int"
TABLE = f"{ROW}, position array<bigint>"
KEPT = 3  # versions that are kept for readers that began with an older one


def table(spark: SparkSession, folder: Path) -> tuple[int, DataFrame]:
    """The number of the batch that was merged last, and the table after it."""
    if not (folder / "CURRENT").exists():
        return -1, spark.createDataFrame([], TABLE)
    merged = int((folder / "CURRENT").read_text())
    return merged, spark.read.schema(TABLE).parquet(str(folder / f"v{merged}"))


def judge(rows: DataFrame, batch_id: int) -> DataFrame:
    return change_events(rows, "canal-json", ROW, table="fleet.planes", keys=["tailnum"])


def merge(changes: DataFrame, batch_id: int, folder: Path) -> None:
    merged, rows = table(changes.sparkSession, folder)
    if batch_id <= merged:
        return  # this batch was merged before the crash
    changes = changes.withColumn("key", f.coalesce("after.tailnum", "before.tailnum"))
    latest_first = Window.partitionBy("key").orderBy(f.desc("position"), f.desc("queueOffset"))
    newest = changes.withColumn("age", f.row_number().over(latest_first)).where("age = 1")
    newest = newest.select("key", "after.*", f.col("position").alias("changed"), "operation").alias("newest")
    old = rows.alias("old").join(newest, f.col("old.tailnum") == f.col("key"), "full_outer")
    is_older = f.col("changed").isNull() | f.coalesce(f.col("changed") < f.col("position"), f.lit(False))
    stays = old.where(is_older).select("old.*")
    comes = old.where(~is_older & (f.col("operation") != "delete")).select(
        f.col("key").alias("tailnum"), "newest.airline", "newest.seats", f.col("changed").alias("position")
    )
    stays.unionByName(comes).write.mode("overwrite").parquet(str(folder / f"v{batch_id}"))
    (folder / "CURRENT.new").write_text(str(batch_id))
    os.replace(folder / "CURRENT.new", folder / "CURRENT")
    for path in sorted(folder.glob("v*"), key=lambda path: int(path.name[1:]))[:-KEPT]:
        shutil.rmtree(path)


def run(spark: SparkSession, namesrv_addr: str, folder: Path, follow: bool = False) -> StreamingQuery:
    """Merge all present changes (``follow``: and future ones)."""
    mq = {"namesrvAddr": namesrv_addr}
    if (folder / "CURRENT").exists() and not (folder / "checkpoint").exists():
        # Without the checkpoint batches would be numbered from 0 again, and would be skipped as merged.
        raise FileNotFoundError(
            f"{folder} has a table and no checkpoint; they belong together: restore both, or begin in a new folder"
        )
    messages = spark.readStream.format("rocketmq").options(**mq, topic="planes", startingOffsets="earliest").load()

    def write(changes: DataFrame, batch_id: int) -> None:
        merge(changes, batch_id, folder)

    into_table = foreach_batch(judge, write=write, group="planes-table", options=mq, on_error="dlq")
    return (
        messages.writeStream.foreachBatch(into_table)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**({"processingTime": "1 second"} if follow else {"availableNow": True}))
        .start()
    )


def publish(namesrv_addr: str, *statements: dict[str, Any]) -> None:
    """What Canal sends for ``statements``."""
    common = {"database": "fleet", "table": "planes", "pkNames": ["tailnum"], "isDdl": False, "sql": "", "old": None}
    with rmq.Producer("planes-publisher", namesrv_addr=namesrv_addr) as producer:
        for statement in statements:
            body = json.dumps({**common, **statement, "id": 1, "ts": statement["es"] + 10}).encode()
            producer.send(rmq.Message("planes", body), sharding_key=statement["data"][0]["tailnum"])


def plane(tailnum: str, airline: str, seats: str) -> dict[str, str]:
    return {"tailnum": tailnum, "airline": airline, "seats": seats}


BEGIN_MS = 1_735_689_600_000
CHANGES: list[dict[str, Any]] = [
    {"type": "INSERT", "es": BEGIN_MS, "data": [plane("N14228", "United", "149")]},
    {"type": "INSERT", "es": BEGIN_MS + 1, "data": [plane("N24211", "United", "149")]},
    {"type": "INSERT", "es": BEGIN_MS + 2, "data": [plane("N668DN", "Delta", "178")]},
    {"type": "UPDATE", "es": BEGIN_MS + 3, "data": [plane("N14228", "United", "150")], "old": [{"seats": "149"}]},
    {"type": "UPDATE", "es": BEGIN_MS + 4, "data": [plane("N668DN", "Delta", "many")], "old": [{"seats": "178"}]},
    {"type": "DELETE", "es": BEGIN_MS + 5, "data": [plane("N24211", "United", "149")]},
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
        letters.selectExpr("cast(body AS string) AS body", "properties['RETRY_REASON'] AS reason").show()

# SPDX-License-Identifier: Apache-2.0
"""A table of a database kept as a table of Parquet: inserts, updates and deletes merged in order, each batch once.

    python examples/spark_merge_changes.py                               # brings its own broker, with changes in it
    python examples/spark_merge_changes.py --namesrv-addr 127.0.0.1:9876 --out /data/planes --follow

The messages are those of Canal (https://github.com/alibaba/canal), which reads the log of a MySQL and shards by primary key, so that all
changes of a row are in one queue. Each batch writes a new version of the table and then points ``CURRENT`` at it; a batch that Spark
repeats after a crash is already there and is skipped. Of each key the table keeps the last change, also that it was deleted: a late or
repeated event would otherwise bring the row back. Read it ``WHERE NOT deleted``.
A message that cannot be read becomes a dead letter at once. It is not retried, because it would then come after newer changes of its row.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from stage import arguments, stage, wait

import sprocketmq as rmq
from sprocketmq.spark import change_events, foreach_batch

KEPT = 3  # versions that are kept for readers that began with an older one
REMEMBERED = "7 days"  # longer than a producer's events may be late


class Source(NamedTuple):
    """A table of a database, and the topic of its changes."""

    topic: str = "planes"
    format: Literal["canal-json", "debezium", "maxwell"] = "canal-json"
    table: str = "fleet.planes"
    columns: str = "tailnum string, airline string, seats int"
    keys: tuple[str, ...] = ("tailnum",)


PLANES = Source()


def table(spark: SparkSession, folder: Path, source: Source = PLANES) -> tuple[int, DataFrame]:
    """The number of the batch that was merged last, and the table after it."""
    schema = f"{source.columns}, position array<bigint>, deleted boolean, merged timestamp"
    if not (folder / "CURRENT").exists():
        return -1, spark.createDataFrame([], schema)
    merged = int((folder / "CURRENT").read_text())
    return merged, spark.read.schema(schema).parquet(str(folder / f"v{merged}"))


def judge(rows: DataFrame, source: Source = PLANES) -> DataFrame:
    changes = change_events(rows, source.format, source.columns, table=source.table, keys=source.keys)
    truncated = f.expr("coalesce(operation = 'truncate', false)")
    reason = f.when(truncated, "the table was emptied; begin in a new folder").otherwise(f.col("reason"))
    return changes.withColumns({"failed": f.col("failed") | truncated, "reason": reason})


def states(changes: DataFrame) -> DataFrame:
    """Each change as the row that it left in the table."""
    values = changes.withColumn("values", f.coalesce("after", "before"))
    deleted, merged = "operation = 'delete' AS deleted", "current_timestamp() AS merged"
    return values.selectExpr("values.*", "position", deleted, merged, "queueOffset", "row")


def latest(states: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Of each key the last one."""
    in_order = [f.desc(name) for name in ("position", "queueOffset", "row")]
    age = f.row_number().over(Window.partitionBy(*keys).orderBy(*in_order))
    return states.withColumn("age", age).where("age = 1").drop("age", "queueOffset", "row")


def merge(changes: DataFrame, batch_id: int, folder: Path, source: Source = PLANES) -> None:
    merged, rows = table(changes.sparkSession, folder, source)
    if batch_id <= merged:
        return  # this batch was merged before the crash
    rows = rows.withColumns({"queueOffset": f.lit(-1), "row": f.lit(0)})  # older than a change of the same position
    rows = latest(rows.unionByName(states(changes)), source.keys)
    rows = rows.where(f"NOT deleted OR merged > current_timestamp() - INTERVAL {REMEMBERED}")
    rows.write.mode("overwrite").parquet(str(folder / f"v{batch_id}"))
    (folder / "CURRENT.new").write_text(str(batch_id))
    os.replace(folder / "CURRENT.new", folder / "CURRENT")
    for path in sorted(folder.glob("v*"), key=lambda path: int(path.name[1:]))[:-KEPT]:
        shutil.rmtree(path)


def run(
    spark: SparkSession, namesrv_addr: str, folder: Path, follow: bool = False, source: Source = PLANES
) -> StreamingQuery:
    """Merge all present changes (``follow``: and future ones)."""
    mq = {"namesrvAddr": namesrv_addr}
    if (folder / "CURRENT").exists() and not (folder / "checkpoint").exists():
        # Without the checkpoint batches would be numbered from 0 again, and would be skipped as merged.
        raise FileNotFoundError(
            f"{folder} has a table and no checkpoint; they belong together: restore both, or begin in a new folder"
        )
    messages = spark.readStream.format("rocketmq").options(**mq, topic=source.topic, startingOffsets="earliest").load()
    into_table = foreach_batch(
        lambda rows, batch_id: judge(rows, source),
        write=lambda changes, batch_id: merge(changes, batch_id, folder, source),
        group=f"{source.topic}-table",
        options=mq,
        on_error="dlq",
    )
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
            row = (statement["data"] or [{"tailnum": "planes"}])[0]
            producer.send(rmq.Message("planes", body), sharding_key=row["tailnum"])


def transaction(number: int) -> dict[str, Any]:
    """Its second, and the GTIDs of all transactions so far (``canal.instance.gtidon=true``)."""
    return {"es": 1_735_689_600_000 + number // 4 * 1_000, "gtid": f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{number}"}


def plane(tailnum: str, airline: str, seats: str) -> dict[str, str]:
    return {"tailnum": tailnum, "airline": airline, "seats": seats}


CHANGES: list[dict[str, Any]] = [
    {**transaction(1), "type": "INSERT", "data": [plane("N14228", "United", "149")]},
    {**transaction(2), "type": "INSERT", "data": [plane("N24211", "United", "149")]},
    {**transaction(3), "type": "INSERT", "data": [plane("N668DN", "Delta", "178")]},
    {**transaction(4), "type": "UPDATE", "data": [plane("N14228", "United", "150")], "old": [{"seats": "149"}]},
    {**transaction(5), "type": "UPDATE", "data": [plane("N668DN", "Delta", "many")], "old": [{"seats": "178"}]},
    {**transaction(6), "type": "DELETE", "data": [plane("N24211", "United", "149")]},
]

if __name__ == "__main__":
    parser = arguments(__doc__, rows=None)
    parser.add_argument("--out", help="the folder of the table and its checkpoint (one that is gone afterwards)")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    with stage(parser, lambda given: publish(given.namesrv_addr, *CHANGES)) as (session, given):
        wait(run(session, given.namesrv_addr, Path(given.out), given.follow))
        merged, planes = table(session, Path(given.out))
        print(f"the table after batch {merged}:")
        planes.where("NOT deleted").select("tailnum", "airline", "seats").orderBy("tailnum").show()
        letters = (
            session.read.format("rocketmq").options(namesrvAddr=given.namesrv_addr, deadLettersOf="planes-table").load()
        )
        print("changes that could not be read:")
        letters.selectExpr("cast(body AS string) AS body", "properties['RETRY_REASON'] AS reason").show()

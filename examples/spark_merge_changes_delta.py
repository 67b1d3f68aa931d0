# SPDX-License-Identifier: Apache-2.0
"""A table of a database kept as a Delta table. Delta Lake 4.4 needs PySpark 4.2 or older.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 \\
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \\
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog \\
        examples/spark_merge_changes_delta.py --namesrv-addr 127.0.0.1:9876 --out /data/planes --follow

Order, repetitions and messages that cannot be read are as in ``spark_merge_changes.py``. A batch that Spark repeats changes nothing.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from spark_merge_changes import CHANGES, PLANES, judge, latest, publish, states
from stage import arguments, stage, wait

from sprocketmq.spark import foreach_batch


def merge(changes: DataFrame, batch_id: int, table: str) -> None:
    latest(states(changes), PLANES.keys).createOrReplaceTempView("newest")
    changes.sparkSession.sql(
        f"""
        MERGE INTO {table} AS t USING newest AS n ON t.tailnum = n.tailnum
        WHEN MATCHED AND n.position >= t.position THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        """
    )


def run(spark: SparkSession, namesrv_addr: str, folder: Path, follow: bool = False) -> StreamingQuery:
    """Merge all present changes (``follow``: and future ones)."""
    table = f"delta.`{folder}/table`"
    columns = f"{PLANES.columns}, position array<bigint>, deleted boolean, merged timestamp"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING delta")
    mq = {"namesrvAddr": namesrv_addr}
    messages = spark.readStream.format("rocketmq").options(**mq, topic="planes", startingOffsets="earliest").load()
    into_table = foreach_batch(
        lambda rows, batch_id: judge(rows),
        write=lambda changes, batch_id: merge(changes, batch_id, table),
        group="planes-delta",
        options=mq,
        on_error="dlq",
    )
    return (
        messages.writeStream.foreachBatch(into_table)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**({"processingTime": "1 second"} if follow else {"availableNow": True}))
        .start()
    )


if __name__ == "__main__":
    parser = arguments(__doc__, rows=None)
    parser.add_argument("--out", help="the folder of the table and its checkpoint (one that is gone afterwards)")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    with stage(parser, lambda given: publish(given.namesrv_addr, *CHANGES)) as (session, given):
        wait(run(session, given.namesrv_addr, Path(given.out), given.follow))
        planes = session.table(f"delta.`{given.out}/table`").where("NOT deleted")
        planes.select("tailnum", "airline", "seats", "position").orderBy("tailnum").show()

# SPDX-License-Identifier: Apache-2.0
"""Run by test_deploying as a process of its own, as one Python process holds either a classic session or one of Connect.

SPARK_REMOTE says where the server is, for this session as for those of the pipelines.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"


def main(namesrv_addr: str, directory: str) -> None:
    from sprocketmq.spark import body_values, foreach_batch

    mq = {"namesrvAddr": namesrv_addr}
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    rows = spark.read.format("rocketmq").options(**mq, topic="flights").load()
    spark.sql((EXAMPLES / "spark_pipeline_sql/tables.sql").read_text("utf-8"))
    spark.sql("CREATE DATABASE of_python")
    rows.select("body").write.format("rocketmq").options(**mq, topic="copy").mode("append").save()

    def write(good: DataFrame, batch_id: int) -> None:
        good.select("body").write.mode("append").parquet(directory + "/good")

    def run(action: str, checkpoint: str) -> None:
        def judge(rows: DataFrame, batch_id: int) -> DataFrame:
            return rows.selectExpr(
                "*", f"IF(cast(body AS string) = '7', '{action}', 'ack') AS action", "'seven' AS reason"
            )

        (
            spark.readStream.format("rocketmq")
            .options(**mq, topic="flights", startingOffsets="earliest", group="delays")
            .load()
            .writeStream.foreachBatch(
                foreach_batch(judge, write=write, group="delays", options=mq, checkpoint_location=checkpoint)
            )
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
            .awaitTermination(600)
        )

    run("dlq", directory + "/checkpoint")
    try:
        run("retry", directory + "/retries")
    except StreamingQueryException as error:
        refused = str(error)
    good = spark.read.parquet(directory + "/good").count()
    table = spark.sql("SELECT count(*) AS n FROM flights_topic").first()
    assert table is not None
    avro = '{"type": "record", "name": "Delay", "fields": [{"name": "n", "type": "int"}]}'
    by_arrow = body_values(rows, "avro", avro).where("NOT failed").selectExpr("sum(value.n) AS total").first()
    by_sql = body_values(rows, "json", "n int").where("failed").count()
    assert by_arrow is not None
    said = {
        "values": [by_arrow.total, by_sql],
        "session": type(spark).__module__,
        "count": rows.count(),
        "good": good,
        "table": table.n,
        "refused": refused,
    }
    run_pipeline("spark_pipeline_sql", Path(directory) / "sql", "default")
    run_pipeline("spark_pipeline", Path(directory) / "python", "of_python", HERE / "pipeline_of_bodies.py")
    print(json.dumps(said))


def run_pipeline(example: str, place: Path, database: str, *more: Path) -> None:
    """What ``spark-pipelines run`` does; it stops its session."""
    from pyspark.pipelines import cli

    shutil.copytree(EXAMPLES / example, place)
    for file in more:
        shutil.copy(file, place / "transformations")
    spec = place / "spark-pipeline.yml"
    text = re.sub(
        r"^storage: .*",
        f"storage: file://{place}/storage\ndatabase: {database}",
        spec.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    spec.write_text(text, "utf-8")
    cli.run(spec, [], False, [], False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

# SPDX-License-Identifier: Apache-2.0
"""A program with settings of Spark, each given as NAME=VALUE: it reads, streams and writes a topic, and retries a row. Says what came."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING

from spark_session import spark_session
from sprocketmq.spark import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(namesrv_addr: str, directory: str, *settings: str) -> None:
    logging.basicConfig(level=logging.INFO)
    mq = {"namesrvAddr": namesrv_addr}
    given = dict(setting.split("=", 1) for setting in settings)
    spark = spark_session("all kinds", f"{directory}/warehouse", settings=given)

    def bodies(rows: DataFrame) -> list[int]:
        return sorted(int(row.body) for row in rows.select("body").collect())

    read = bodies(spark.read.format("rocketmq").options(**mq, topic="flights").load())

    good: list[int] = []
    retry = foreach_batch(
        lambda rows, batch_id: rows.selectExpr("*", "cast(body AS string) = '3' AS failed", "'three' AS reason"),
        write=lambda rows, batch_id: good.extend(bodies(rows)),
        group="delays",
        on_error="dlq",
        options=mq,
    )
    stream = (
        spark.readStream.format("rocketmq")
        .options(**retry.source_options, topic="flights", startingOffsets="earliest")
        .load()
    )
    for name, writer in (
        ("retry", stream.writeStream.foreachBatch(retry)),
        (
            "sink",
            stream.select("body").writeStream.format("rocketmq").options(**mq, topic="copy", delivery="idempotent"),
        ),
    ):
        query = writer.option("checkpointLocation", f"{directory}/{name}").trigger(availableNow=True).start()
        query.awaitTermination(300)
    stored = spark.read.format("rocketmq").options(**mq, topic="copy").load()
    stored.select("body").write.format("rocketmq").options(**mq, topic="again").mode("append").save()
    print(json.dumps({"read": read, "good": sorted(good), "copy": bodies(stored)}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

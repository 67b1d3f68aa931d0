# SPDX-License-Identifier: Apache-2.0
"""Run by test_deploying through spark-submit, with Python processes that know our packages from the shipped zip alone."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(namesrv_addr: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    import sprocketmq
    from sprocketmq.spark import RocketMQDataSource

    spark.dataSource.register(RocketMQDataSource)
    rows = spark.read.format("rocketmq").options(namesrvAddr=namesrv_addr, topic="flights").load()
    (
        rows.select("body", "tags")
        .write.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="copy")
        .mode("append")
        .save()
    )
    print(json.dumps({"count": rows.count(), "home": sprocketmq.__file__}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

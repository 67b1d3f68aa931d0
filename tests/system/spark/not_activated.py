# SPDX-License-Identifier: Apache-2.0
"""A program that is started by the python of an environment that is not activated. It imports the package before or after its session is
made, counts a topic, and says what it found and what was logged."""

from __future__ import annotations

import json
import logging
import sys

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(namesrv_addr: str, when: str) -> None:
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("sprocketmq.spark").addHandler(handler)
    if when == "before":
        import sprocketmq.spark
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = (
        builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    )
    if when == "after":
        import sprocketmq.spark  # noqa: F401
    try:
        found = str(spark.read.format("rocketmq").options(namesrvAddr=namesrv_addr, topic="flights").load().count())
    except (PySparkException, Py4JJavaError) as error:
        found = str(error)
    spark.stop()
    print(json.dumps({"found": found, "logged": logged}))


if __name__ == "__main__":
    main(*sys.argv[1:])

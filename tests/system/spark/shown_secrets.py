# SPDX-License-Identifier: Apache-2.0
"""Run by test_secrets as a process of its own: whatever shows options is asked to show them, in a classic session or one of Connect."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HIDDEN_IN_PLANS = r'key: "(accessKey|secretKey|securityToken|tlsKeyPassword)"\s+value: "[^"]*"'


def session(kind: str, directory: Path) -> SparkSession:
    """It logs as much as it can, and its events to a file in plain text."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    (directory / "events").mkdir()
    for name, value in {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.log.level": "INFO",
        # A server of Connect writes the plans it is sent into its events, as text: docs/spark/operate.md
        **({"spark.redaction.string.regex": HIDDEN_IN_PLANS} if kind == "connect" else {}),
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def show_failure(work: Callable[[], object]) -> None:
    from pyspark.errors import PySparkException

    try:
        work()
    except PySparkException as error:
        print("failed as it should:", error, repr(error))
    else:
        raise AssertionError("it was to fail")


def main(kind: str, where: str, keys: str, namesrv_addr: str, secret: str) -> None:
    """Batches and a classic sink are given the keys themselves, streams the file ``keys``."""
    directory = Path(where)
    spark = session(kind, directory)
    direct = {"accessKey": f"key-{secret}", "secretKey": secret, "securityToken": f"token-{secret}"}
    given = {"namesrvAddr": namesrv_addr, **direct}
    in_file = {"namesrvAddr": namesrv_addr, "secretKeyFile": keys}

    rows = spark.read.format("rocketmq").options(**given, topic="flights").load()
    rows.explain(extended=True)
    rows.explain("formatted")
    print(rows, rows.schema.json(), rows.count())
    rows.select("body").write.format("rocketmq").mode("append").options(**given, topic="copy").save()

    def start(rows: Any, name: str) -> None:
        keys_of_sink = given if kind == "classic" else in_file
        writer = rows.writeStream.format("rocketmq").options(**keys_of_sink, topic="copy").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(directory / name)).start()
        query.awaitTermination(600)
        query.explain(extended=True)
        print(query.lastProgress)

    stream = (
        spark.readStream.format("rocketmq")
        .options(**in_file, topic="flights", startingOffsets="earliest", group="g")
        .load()
    )
    start(stream.select("body"), "good")
    show_failure(lambda: start(stream.selectExpr("raise_error('mine') || 'x' AS body"), "bad"))
    show_failure(lambda: spark.read.format("rocketmq").options(**given, topic="flihgts").load().count())
    show_failure(lambda: spark.read.format("rocketmq").options(**given, topic="flights", secretKei="a").load().count())
    show_failure(
        lambda: (
            rows.selectExpr("'' AS body").write.format("rocketmq").mode("append").options(**given, topic="copy").save()
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

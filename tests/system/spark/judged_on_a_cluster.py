# SPDX-License-Identifier: Apache-2.0
"""Run by test_verdict_store as a process of its own: a judge that never says the same twice, on executors that die under it.

    executors   two, each a process; both are killed when the good rows are written
    driver      JVM and driver are killed when the good rows are written, the first time
    none        nobody is killed

What ``write`` was given is noted, one file for each call.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))
from spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL = {"spark.executor.memory": "512m"}


def executors() -> Iterator[int]:
    """The processes of this application that run tasks."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                said = (entry / "cmdline").read_bytes()
                session = int((entry / "stat").read_text().rpartition(") ")[2].split()[3])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"CoarseGrainedExecutorBackend" in said and session == os.getsid(0):
                yield int(entry.name)


def main(kind: str, where: str, namesrv_addr: str) -> None:
    from pyspark.sql import functions as f

    from sprocketmq.spark import foreach_batch

    directory = Path(where)
    master = "local-cluster[2,1,600]" if kind == "executors" else "local[2,4]"
    spark = spark_session("judged", f"{where}/warehouse", master=master, settings=SMALL)
    changes_its_mind = f.udf(lambda body: random.random() < 0.5, "boolean").asNondeterministic()

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        return rows.withColumn("failed", changes_its_mind(rows.body))

    def write(good: DataFrame, batch_id: int) -> None:
        numbers = sorted(int(bytes(row.body)) for row in good.select("body").collect())
        calls = len(list(directory.glob("good-*")))
        (directory / f"good-{calls}").write_text(json.dumps(numbers))
        if kind == "executors":
            dead = list(executors())
            for pid in dead:
                os.kill(pid, signal.SIGKILL)
            assert len(dead) == 2, dead
            while not set(executors()) - set(dead):
                time.sleep(0.1)
        elif kind == "driver" and calls == 0:
            jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
            for pid in (jvm, os.getpid()):
                os.kill(pid, signal.SIGKILL)

    rows = spark.readStream.format("rocketmq").options(
        namesrvAddr=namesrv_addr, topic="flights", startingOffsets="earliest", minPartitions=4
    )
    query = (
        rows.load()
        .writeStream.foreachBatch(
            foreach_batch(judge, write=write, group="delays", namesrv_addr=namesrv_addr, check_source=False)
        )
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(600)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

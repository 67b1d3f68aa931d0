# SPDX-License-Identifier: Apache-2.0
"""The pipeline of the long stream: topic ``rows`` and its retries, judged row by row, the good ones into topic ``sink``.

``start`` runs it in a session that is there. As a script it is a driver of its own, which tells each batch in a line of JSON, its heap
after a full collection each minute, and ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.spark import LagReport, RocketMQProgressListener, foreach_batch
from sprocketmq.spark.retry.row_retry import RowRetry
from system.spark.soak_ledger import MAX_RECONSUME, verdict_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


GROUP: Final = "soak"
ROWS: Final = "rows"
SINK: Final = "sink"
RETRY: Final = f"%RETRY%{GROUP}"
DEAD: Final = f"%DLQ%{GROUP}"
_HEAP_EACH_S: Final = 60.0
_LOOK_EACH_S: Final = 2.0
# As small as a driver is, with short memories of what was: what it keeps of old jobs would else grow for half an hour.
_SMALL: Final = {
    **dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.ui.retainedTasks"), "50"),
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.ui.retainedProgressUpdates": "50",
    # The whole heap from the start: what the process grows by is then not the heap's size but something else.
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-Xms512m -XX:+AlwaysPreTouch",
}


def start(
    spark: SparkSession, namesrv_addr: str, checkpoint: str, seed: int, trigger: str
) -> tuple[StreamingQuery, RowRetry]:
    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        return rows.selectExpr("*", *verdict_columns(seed))

    def to_sink(good: DataFrame, batch_id: int) -> None:
        sink = good.selectExpr("keys AS body", "keys", "map('tries', cast(reconsumeTimes AS string)) AS properties")
        sink.write.format("rocketmq").options(namesrvAddr=namesrv_addr, topic=SINK).mode("append").save()

    retry = foreach_batch(judge, write=to_sink, group=GROUP, max_reconsume=MAX_RECONSUME, namesrv_addr=namesrv_addr)
    rows = (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic=ROWS, group=GROUP, includeRetry="true", startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", 20_000)
        .load()
    )
    query = (
        rows.writeStream.queryName("soak")
        .foreachBatch(retry)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=trigger)
        .start()
    )
    return query, retry


def say(event: str, **what: Any) -> None:
    # One write: the listener and the heap's thread both speak.
    sys.stdout.write(json.dumps({"event": event, **what}) + "\n")
    sys.stdout.flush()


def main(namesrv_addr: str, directory: str, seed: int, trigger: str) -> None:
    from spark_session import spark_session

    spark = spark_session(
        "soak", directory + "/warehouse", settings={**_SMALL, "spark.local.dir": directory + "/local"}
    )
    retries: list[RowRetry] = []

    def report(lag: LagReport) -> None:
        said = query.lastProgress
        took_ms = dict(said["durationMs"]) if said is not None and said["batchId"] == lag.batch_id else {}
        counts = {"retried": retries[0].retried, "dead": retries[0].dead_lettered}
        behind = {"behind": lag.total_offsets_behind_latest, "behind_ms": lag.max_ms_behind_latest}
        say("batch", batch=lag.batch_id, rows=lag.input_rows, took_ms=took_ms, **behind, **counts)

    query, retry = start(spark, namesrv_addr, directory + "/checkpoint", seed, trigger)
    retries.append(retry)
    spark.streams.addListener(RocketMQProgressListener(report))
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    say("started", jvm=jvm.java.lang.ProcessHandle.current().pid())
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    runtime = jvm.java.lang.Runtime.getRuntime()
    at_s = time.monotonic()
    while not over.wait(_LOOK_EACH_S):
        if (error := query.exception()) is not None:
            say("failed", why=str(error))
            return
        if time.monotonic() - at_s >= _HEAP_EACH_S:
            at_s = time.monotonic()
            jvm.java.lang.System.gc()
            say("heap", bytes=runtime.totalMemory() - runtime.freeMemory())
    say("stopping", active=query.isActive, retried=retry.retried, dead=retry.dead_lettered, dropped=retry.dropped)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])

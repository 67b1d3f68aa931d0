# SPDX-License-Identifier: Apache-2.0
"""The driver of ``bench/spark_log_drill.py``: a stream of the topic ``rows`` and its retries, judged row by row, the good ones written to
the topic ``sink``. A query that fails is started again from its checkpoint. Ends when its standard input does."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.spark import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_AGAIN_AFTER_S: Final = 5.0


def main(folder: str, namesrv_addr: str, access_key: str, secret_key: str) -> None:
    from spark_session import spark_session

    spark = spark_session("log-drill", f"{folder}/warehouse", settings={"spark.local.dir": f"{folder}/local"})
    options: dict[str, Any] = {"namesrvAddr": namesrv_addr, "accessKey": access_key, "secretKey": secret_key}

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        return rows.selectExpr("*", "body = CAST('bad' AS BINARY) AS failed", "'bad' AS reason")

    def to_sink(good: DataFrame, batch_id: int) -> None:
        good.selectExpr("body", "keys").write.format("rocketmq").options(**options, topic="sink").mode("append").save()

    def start() -> StreamingQuery:
        rows = spark.readStream.format("rocketmq").options(
            **options, topic="rows", group="drill", includeRetry="true", startingOffsets="earliest"
        )
        retry = foreach_batch(judge, write=to_sink, group="drill", max_reconsume=2, delay_level=1, options=options)
        stream = rows.load().writeStream.foreachBatch(retry).option("checkpointLocation", f"{folder}/checkpoint")
        return stream.trigger(processingTime="2 seconds").start()

    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    while not over.is_set():
        query = start()
        print("started", flush=True)
        with contextlib.suppress(Exception):
            while not over.is_set() and not query.awaitTermination(1):
                pass
        if not over.wait(_AGAIN_AFTER_S):
            print("failed", flush=True)
    with contextlib.suppress(Exception):
        query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

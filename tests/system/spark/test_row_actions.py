# SPDX-License-Identifier: Apache-2.0
"""Tries of rows that are repeated with their batch, through a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import publish, streaming
from pyspark.errors import StreamingQueryException

from sprocketmq.spark import each_try_once, foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def six_messages(mq: EmbeddedRocketMQ) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 6)


def test_each_try_comes_once_though_the_batch_before_it_was_repeated(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    tries: list[tuple[int, int]] = []
    crashed: list[int] = []

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        judged = rows.withColumn("failed", rows.body.cast("string") == "3").persist()
        tries.extend((int(row.body), row.reconsumeTimes) for row in judged.select("body", "reconsumeTimes").collect())
        return judged

    retry = foreach_batch(
        judge, write=lambda good, batch_id: good.count(), group="delays", max_reconsume=2, namesrv_addr=mq.namesrv_addr
    )

    def dies_once_its_rows_are_sent_back(rows: DataFrame, batch_id: int) -> None:
        retry(rows, batch_id)
        if retry.retried and not crashed:
            crashed.append(batch_id)  # that batch comes again, with the verdicts it was given
            raise OSError("the driver is gone")

    def start() -> StreamingQuery:
        rows = each_try_once(streaming(spark, mq, group="delays", includeRetry=True).load())
        return (
            rows.writeStream.foreachBatch(dies_once_its_rows_are_sent_back)
            .option("checkpointLocation", str(tmp_path))
            .start()
        )

    query = start()
    with pytest.raises(StreamingQueryException, match="the driver is gone"):
        query.awaitTermination(300)
    query = start()
    try:
        mq.wait_until(lambda: len(mq.messages("%DLQ%delays")) >= 1, 300_000)
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(mq.messages("%RETRY%delays")) == 3  # one too many: the first try was sent back by both runs of its batch
    assert sorted(tries) == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (4, 0), (5, 0)]
    assert [letter.body for letter in mq.messages("%DLQ%delays")] == [b"3"]

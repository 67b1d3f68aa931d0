# SPDX-License-Identifier: Apache-2.0
"""Verdicts by row through a real Spark: reasons, replays, repeats; and secrets, which nothing shows."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import publish, reading, streaming
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


def test_the_ack_sink_gives_reasons_and_replay_undoes_it(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    judged = reading(spark, mq).selectExpr(
        "*",
        "CASE cast(body AS string) WHEN '1' THEN 'retry' WHEN '2' THEN 'DLQ' WHEN '3' THEN 'drop' END AS action",
        "concat('because of ', cast(body AS string)) AS reason",
        "1 AS delayLevel",
    )
    sink = judged.unionByName(judged).write.format("rocketmq").mode("append")  # two bad rows of each bad message
    sink.options(namesrvAddr=mq.namesrv_addr, group="delays", mode="ack").save()
    mq.wait_until(lambda: mq.messages("%RETRY%delays"))
    (copy,) = mq.messages("%RETRY%delays")
    assert (copy.body, copy.properties["RETRY_REASON"], copy.reconsume_times) == (b"1", "because of 1", 1)
    letters = spark.read.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, deadLettersOf="delays").load()
    (letter,) = letters.collect()
    assert (bytes(letter.body), letter.topic, letter.properties["RETRY_REASON"]) == (b"2", "flights", "because of 2")
    replay = letters.write.format("rocketmq").mode("append")
    replay.options(namesrvAddr=mq.namesrv_addr, mode="replay").save()
    stored = mq.messages("flights")
    assert [message.body for message in stored[6:]] == [b"2"]
    assert (stored[6].message_id, stored[6].tags, stored[6].reconsume_times) == (stored[2].message_id, "UA", 0)


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


def test_secrets_are_in_no_plan(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    secret = "sesame-open-77"
    rows = reading(spark, mq, accessKey="Spark-key-777", secretKey=secret)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        rows.explain(extended=True)
        rows.explain("formatted")
        print(rows.schema.json(), rows)
    assert "rocketmq" in shown.getvalue()
    assert secret not in shown.getvalue()
    assert rows.count() == 6  # a broker without access control does not mind a signature

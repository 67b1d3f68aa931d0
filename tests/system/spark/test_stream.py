# SPDX-License-Identifier: Apache-2.0
"""Streams through a real Spark: AvailableNow, continuous reading, row retry, losses, progress on the broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import Numbers, publish, run_available_now, streaming
from pyspark.errors import StreamingQueryException

from sprocketmq.spark import RocketMQProgressListener, foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sprocketmq.spark.observe.progress_listener import LagReport

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def lag(mq: EmbeddedRocketMQ, group: str, topic: str = "flights") -> int:
    committed = mq.consumer_offset(group, topic)
    stored: dict[int, int] = {}
    for message in mq.messages(topic):
        stored[message.queue_id] = max(stored.get(message.queue_id, 0), message.queue_offset + 1)
    return sum(upto - committed.get(queue_id, 0) for queue_id, upto in stored.items())


@pytest.mark.smoke("P4", "P7", "P8")
def test_available_now_reads_all_in_limited_batches_and_leaves_no_lag(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 500)
    reports: list[LagReport] = []
    listener = RocketMQProgressListener(reports.append)
    spark.streams.addListener(listener)
    numbers = Numbers()
    rows = streaming(spark, mq, group="delays", maxOffsetsPerTrigger=200).load()
    run_available_now(rows, numbers, tmp_path)
    assert sorted(numbers.seen) == list(range(500))
    assert numbers.batches == 3
    assert lag(mq, "delays") == 0
    mq.wait_until(lambda: len(reports) == 3)
    spark.streams.removeListener(listener)
    assert [report.total_offsets_behind_latest for report in reports] == [300, 100, 0]

    publish(mq, 500, 600)
    run_available_now(rows, numbers, tmp_path)
    assert sorted(numbers.seen) == list(range(600))
    assert lag(mq, "delays") == 0


@pytest.mark.parametrize("then", ["waits", "ends"])
def test_the_progress_of_a_query_with_a_listener_is_that_of_its_last_batch_long_before_the_next_trigger(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path, then: str
) -> None:
    publish(mq, 0, 50)
    listener = RocketMQProgressListener()
    spark.streams.addListener(listener)
    query = (
        streaming(spark, mq, group="delays")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 hour")
        .start()
    )
    try:
        mq.wait_until(lambda: query.lastProgress is not None, 180_000)
        if then == "ends":
            query.stop()
        mq.wait_until(lambda: lag(mq, "delays") == 0, 60_000)
    finally:
        query.stop()
        spark.streams.removeListener(listener)


@pytest.mark.smoke("P1")
def test_a_running_stream_sees_new_messages_new_queues_and_a_restarted_broker(
    spark: SparkSession, tmp_path: Path
) -> None:
    with EmbeddedRocketMQ(clock="system", store_dir=tmp_path / "store") as mq:
        mq.create_topic("flights", queues=1)
        numbers = Numbers()
        query = (
            streaming(spark, mq, group="delays", startingOffsets="latest")
            .load()
            .writeStream.foreachBatch(numbers)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            mq.wait_until(lambda: numbers.batches, 60_000)  # the empty first batch: from here on nothing may be missed
            publish(mq, 0, 50)
            mq.wait_until(lambda: len(numbers.seen) == 50, 180_000)
            mq.create_topic("flights", queues=6)
            for at in range(50, 100, 5):
                publish(mq, at, at + 5)
            mq.wait_until(lambda: len(numbers.seen) == 100, 180_000)
            mq.restart_broker()
            publish(mq, 100, 120)
            mq.wait_until(lambda: len(numbers.seen) == 120, 180_000)
            mq.wait_until(lambda: lag(mq, "delays") == 0, 180_000)
            assert query.isActive
        finally:
            query.stop()
        assert sorted(numbers.seen) == list(range(120))


@pytest.mark.smoke("P12")
def test_a_bad_row_is_retried_alone_and_ends_in_the_dead_letters(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 20)
    good = Numbers()
    tries: list[tuple[int, int, str]] = []

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        judged = rows.withColumn("failed", rows.body.cast("string").isin("7", "13"))
        tries.extend(
            (int(row.body), row.reconsumeTimes, row.topic)
            for row in judged.where("failed").select("body", "reconsumeTimes", "topic").collect()
        )
        return judged

    retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr, max_reconsume=2)
    query = (
        streaming(spark, mq, group="delays", includeRetry=True)
        .load()
        .writeStream.foreachBatch(retry)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        mq.wait_until(lambda: len(mq.messages("%DLQ%delays")) == 2, 240_000)
        mq.wait_until(lambda: lag(mq, "delays") + lag(mq, "delays", "%RETRY%delays") == 0, 180_000)
    finally:
        query.stop()
    assert sorted(good.seen) == [at for at in range(20) if at not in (7, 13)]
    assert sorted(tries) == [(number, times, "flights") for number in (7, 13) for times in (0, 1, 2)]
    dead = mq.messages("%DLQ%delays")
    assert sorted(int(message.body) for message in dead) == [7, 13]
    origin = {message.message_id for message in mq.messages("flights") if message.body in (b"7", b"13")}
    assert {message.message_id for message in dead} == origin
    assert (retry.retried, retry.dead_lettered, retry.dropped) == (4, 2, 0)


@pytest.mark.smoke("P9")
def test_lost_messages_stop_the_stream_and_say_which(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 20)
    run_available_now(streaming(spark, mq).load(), Numbers(), tmp_path / "checkpoint")
    mq.restart_broker()  # its memory is gone: the topic begins anew
    mq.create_topic("flights", queues=1)
    publish(mq, 100, 105)
    with pytest.raises(StreamingQueryException) as error:
        run_available_now(streaming(spark, mq).load(), Numbers(), tmp_path / "checkpoint")
    assert "flights/broker-a/0: offset 20 is not there, the broker holds 0 to 5" in str(error.value)
    numbers = Numbers()
    run_available_now(streaming(spark, mq, failOnDataLoss="false").load(), numbers, tmp_path / "checkpoint")
    assert sorted(numbers.seen) == list(range(100, 105))

# SPDX-License-Identifier: Apache-2.0
"""Streams through a real Spark: AvailableNow, continuous reading, crash in the first batch, sink, row retry, progress on the broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import run_available_now
from pyspark.errors import StreamingQueryException

from sprocketmq.spark import RocketMQProgressListener, foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamReader

    from sprocketmq.spark.observe.progress_listener import LagReport

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def publish(mq: EmbeddedRocketMQ, start: int, end: int, topic: str = "flights") -> None:
    with mq.producer() as producer:
        producer.send_batch([Message(topic, b"%d" % at, tags="UA" if at % 2 else "DL") for at in range(start, end)])


def streaming(spark: SparkSession, mq: EmbeddedRocketMQ, **options: object) -> DataStreamReader:
    return spark.readStream.format("rocketmq").options(namesrvAddr=mq.namesrv_addr, topic="flights", **options)


def lag(mq: EmbeddedRocketMQ, group: str, topic: str = "flights") -> int:
    committed = mq.consumer_offset(group, topic)
    stored: dict[int, int] = {}
    for message in mq.messages(topic):
        stored[message.queue_id] = max(stored.get(message.queue_id, 0), message.queue_offset + 1)
    return sum(upto - committed.get(queue_id, 0) for queue_id, upto in stored.items())


class Collected:
    """A foreachBatch function that keeps what it saw."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.batches.append(sorted(int(row.body) for row in rows.select("body").collect()))

    @property
    def numbers(self) -> list[int]:
        return sorted(number for batch in self.batches for number in batch)


@pytest.mark.smoke("P4", "P7", "P8")
def test_available_now_reads_all_in_limited_batches_and_leaves_no_lag(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 500)
    reports: list[LagReport] = []
    listener = RocketMQProgressListener(reports.append)
    spark.streams.addListener(listener)
    collected = Collected()
    rows = streaming(spark, mq, startingOffsets="earliest", group="delays", maxOffsetsPerTrigger=200).load()
    run_available_now(rows, collected, tmp_path)
    assert collected.numbers == list(range(500))
    assert len(collected.batches) == 3
    assert lag(mq, "delays") == 0
    mq.wait_until(lambda: len(reports) == 3)
    spark.streams.removeListener(listener)
    assert [report.total_offsets_behind_latest for report in reports] == [300, 100, 0]

    publish(mq, 500, 600)
    run_available_now(rows, collected, tmp_path)
    assert collected.numbers == list(range(600))
    assert lag(mq, "delays") == 0


@pytest.mark.smoke("P1")
def test_a_running_stream_sees_new_messages_new_queues_and_a_restarted_broker(
    spark: SparkSession, tmp_path: Path
) -> None:
    with EmbeddedRocketMQ(clock="system", store_dir=tmp_path / "store") as mq:
        mq.create_topic("flights", queues=1)
        collected = Collected()
        query = (
            streaming(spark, mq, group="delays")
            .load()
            .writeStream.foreachBatch(collected)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            mq.wait_until(
                lambda: collected.batches, 60_000
            )  # the empty first batch: from here on nothing may be missed
            publish(mq, 0, 50)
            mq.wait_until(lambda: len(collected.numbers) == 50, 180_000)
            mq.create_topic("flights", queues=6)
            for at in range(50, 100, 5):
                publish(mq, at, at + 5)
            mq.wait_until(lambda: len(collected.numbers) == 100, 180_000)
            mq.restart_broker()
            publish(mq, 100, 120)
            mq.wait_until(lambda: len(collected.numbers) == 120, 180_000)
            mq.wait_until(lambda: lag(mq, "delays") == 0, 180_000)
            assert query.isActive
        finally:
            query.stop()
        assert collected.numbers == list(range(120))


def test_a_stream_killed_in_its_first_batch_loses_nothing_after_its_restart(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """startingOffsets=latest, resolved anew after the crash, would skip what arrived before it."""
    publish(mq, 0, 10)
    script = Path(__file__).with_name("killed_stream.py")
    process = subprocess.Popen(
        [sys.executable, str(script), mq.namesrv_addr, str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # The start is journaled once the first offset is: from then on every message belongs to the stream.
        mq.wait_until(lambda: (tmp_path / "checkpoint/offsets/0").exists(), 240_000)
        publish(mq, 10, 30)
        mq.wait_until((tmp_path / "in-first-batch").exists, 180_000)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    publish(mq, 30, 40)
    collected = Collected()
    run_available_now(streaming(spark, mq, group="delays").load(), collected, tmp_path / "checkpoint")
    assert collected.numbers == list(range(10, 40))


@pytest.mark.smoke("P12")
def test_a_bad_row_is_retried_alone_and_ends_in_the_dead_letters(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 20)
    good = Collected()
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
        streaming(spark, mq, startingOffsets="earliest", group="delays", includeRetry=True)
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
    assert good.numbers == [at for at in range(20) if at not in (7, 13)]
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
    run_available_now(streaming(spark, mq, startingOffsets="earliest").load(), Collected(), tmp_path / "checkpoint")
    mq.restart_broker()  # its memory is gone: the topic begins anew
    mq.create_topic("flights", queues=1)
    publish(mq, 100, 105)
    with pytest.raises(StreamingQueryException) as error:
        run_available_now(streaming(spark, mq).load(), Collected(), tmp_path / "checkpoint")
    assert "flights/broker-a/0: offset 20 is not there, the broker holds 0 to 5" in str(error.value)
    collected = Collected()
    run_available_now(streaming(spark, mq, failOnDataLoss="false").load(), collected, tmp_path / "checkpoint")
    assert collected.numbers == list(range(100, 105))

# SPDX-License-Identifier: Apache-2.0
"""The pages about reading and operating: their snippets run, and a real Spark tells what was lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_pages import flights, names, run_page

from sprocketmq.spark import LossReport, RocketMQProgressListener
from sprocketmq.spark.losses import Loss
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message, MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sprocketmq.spark.read.lag import LagReport

__all__ = ["flights", "names"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ONE = MessageQueue("trains", "broker-a", 0)


def test_the_page_about_reading_is_true(names: dict[str, Any], flights: EmbeddedRocketMQ) -> None:
    found = {**names, "spark_address": flights.namesrv_addr}
    run_page("read.md", found)
    assert found["morning"].count() == 1
    assert len(found["query"].recentProgress) == 2
    assert [loss.start for loss in found["report"].losses] == [1000]


def test_the_page_about_operating_is_true(
    names: dict[str, Any], flights: EmbeddedRocketMQ, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {**names, "spark_address": flights.namesrv_addr}
    run_page("operate.md", found)
    assert (found["report"].query_name, found["report"].total_offsets_behind_latest) == ("delays", 0)
    printed = capsys.readouterr().out
    assert [line.split(" {")[0] for line in printed.splitlines() if " {MessageQueue" in line][::2] == ["2", "0"]


def test_what_planning_and_tasks_lose_is_reported_to_the_driver_once(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("trains", queues=1)
    with mq.producer() as producer:
        producer.send_batch([Message("trains", b"%d" % number) for number in range(6)])
    report = LossReport(spark)
    start = json.dumps({"trains": {"broker-a": {"0": 9}}})
    common = {"namesrvAddr": mq.namesrv_addr, "topic": "trains", "failOnDataLoss": "false", **report.options}
    rows = spark.read.format(report.format).options(**common, startingOffsets=start).load()
    assert (rows.count(), rows.count()) == (6, 6)
    assert report.losses == [Loss(ONE, 9, None, "went back")]

    lags: list[LagReport] = []
    listener = RocketMQProgressListener(lags.append)
    spark.streams.addListener(listener)

    def run() -> int:
        query = (
            spark.readStream.format(report.format)
            .options(**common, startingOffsets="earliest")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        return sum(progress.numInputRows for progress in query.recentProgress)

    try:
        assert run() == 6
        with mq.admin() as admin:
            admin.delete_topic("trains")
        mq.create_topic("trains", queues=1)
        with mq.producer() as producer:
            producer.send(Message("trains", b"7"))
        assert run() == 1
        mq.wait_until(lambda: any(lag.losses for lag in lags))
    finally:
        spark.streams.removeListener(listener)
    assert [lag.losses for lag in lags if lag.losses] == [(Loss(ONE, 6, None, "went back"),)]
    assert report.losses == [Loss(ONE, 6, None, "went back")]  # one open range: it holds what begins at 9, too

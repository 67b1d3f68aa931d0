# SPDX-License-Identifier: Apache-2.0
"""Messages that retention deletes under a read that is planned already, through a real Spark: named, counted, and the rest is read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sprocketmq.spark import LossReport
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import Message, MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ONE = MessageQueue("trains", "broker-a", 0)
COUNT = 4_000
# More than the sockets between Spark's processes hold.
_BODY = b" " * 16_000


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[EmbeddedRocketMQ]:
    """A log of sixteen files."""
    with EmbeddedRocketMQ(
        clock="system", store_dir=tmp_path / "store", mappedFileSizeCommitLog=4 << 20, mappedFileSizeConsumeQueue=2_000
    ) as mq:
        mq.create_topic("trains", queues=1)
        with mq.producer() as producer:
            for start in range(0, COUNT, 100):
                producer.send_batch([Message("trains", b"%d" % at + _BODY) for at in range(start, start + 100)])
        yield mq


def retention(mq: EmbeddedRocketMQ) -> int:
    """All goes that can go, by hand: the smallest offset that is left."""
    with mq.admin() as admin:
        admin.update_broker_config({"fileReservedTime": "0"}, broker="broker-a")
        low, before = 0, -1
        while low != before:  # each round deletes ten files at most
            admin.delete_expired_commit_logs()
            low, before = admin.min_offset(ONE), low
    assert 0 < low < COUNT
    return low


def options(mq: EmbeddedRocketMQ, **more: str) -> dict[str, str]:
    return {"namesrvAddr": mq.namesrv_addr, "topic": "trains", "maxPartitions": "1", "columns": "body", **more}


def test_what_is_deleted_in_the_middle_of_a_task_is_counted_by_the_driver(
    spark: SparkSession, stored: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """The task's rows go to a second Python process, which takes one, and no more until the broker has deleted the rest."""
    began, go_on = tmp_path / "began", tmp_path / "go-on"

    def slowly(rows: Iterator[Row]) -> Iterator[int]:
        for row in rows:
            began.touch()
            while not go_on.exists():
                time.sleep(0.01)
            yield int(row.body)

    report = LossReport(spark)
    small_pulls = {"pullBatchSize": "1", "pullPipelining": "1", "failOnDataLoss": "false"}
    rows = spark.read.format(report.format).options(**options(stored, **small_pulls), **report.options).load().rdd
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows.mapPartitions(slowly).collect)
        stored.wait_until(lambda: began.exists() or reading.done(), 300_000)
        low = retention(stored)
        go_on.touch()
        numbers = reading.result()
    (loss,) = report.losses
    assert (loss.reason, loss.end) == ("deleted", low)
    assert 0 < loss.start < low
    assert sorted(numbers) == [*range(loss.start), *range(low, COUNT)]

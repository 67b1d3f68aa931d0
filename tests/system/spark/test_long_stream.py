# SPDX-License-Identifier: Apache-2.0
"""A stream at a steady rate whose rows fail at random: `make spark-soak` for an hour, a few seconds of it here, and its judge itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from sprocketmq.testing import EmbeddedRocketMQ
from system.spark.soak_traffic import SoakTraffic
from system.spark.soaked_stream import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = float(os.environ.get("SPROCKETMQ_STREAM_SECONDS", "6"))
SEED = int(os.environ.get("SPROCKETMQ_STORM_SEED", "3"))
LEVELS = "1s 1s 2s 1s 1s 1s"

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]


def jobs_kept(spark: SparkSession) -> int:
    """Of queries that are over; Spark 4.3 may keep them for ever (see spark.retry.fetched_rows), Spark 4.2 notes no such thing."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    try:
        return int(scheduler.activeQueryToJobs().size())
    except Py4JError:
        return 0


def test_rows_that_fail_at_random_come_as_often_as_recorded_and_nothing_is_left_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    with (
        EmbeddedRocketMQ(clock="system", messageDelayLevel=LEVELS) as mq,
        SoakTraffic(mq.namesrv_addr, SEED, rate=200) as traffic,
    ):
        kept = jobs_kept(spark)
        query, retry = start(spark, mq.namesrv_addr, str(tmp_path), SEED, "1 second")
        try:
            traffic.send_for(SECONDS)
            mq.wait_until(traffic.settled, 300_000)
        finally:
            query.stop()
        assert traffic.ledger.verdict(traffic.retry_messages(), retry.retried, retry.dead_lettered) == []
        mq.wait_until(lambda: jobs_kept(spark) <= kept, 60_000)
        assert traffic.ledger.retries > 0
        assert traffic.ledger.dead > 0

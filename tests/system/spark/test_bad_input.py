# SPDX-License-Identifier: Apache-2.0
"""Bad input through a real Spark: the sentence is the last thing that a user reads, and no task has begun where it could be known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import Numbers, last_words, publish, reading, run_available_now, streaming
from pyspark.errors import PySparkException, StreamingQueryException

from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def no_task(spark: SparkSession) -> Callable[[], None]:
    """Call it later: no job has run since."""
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))

    def check() -> None:
        assert len(tracker.getJobIdsForGroup(None)) == before

    return check


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sql92": "a >"}, "ConfigurationError: sql92 is 'a >', which broker broker-a refuses: "),
        (
            {"subscribe": "flights"},
            "ConfigurationError: option 'subscribe' is unknown to the rocketmq data source; did you mean topic?",
        ),
    ],
)
def test_an_invalid_read_fails_with_one_sentence_before_any_task(
    spark: SparkSession, mq: EmbeddedRocketMQ, options: dict[str, object], sentence: str
) -> None:
    publish(mq, 0, 2)
    unharmed = no_task(spark)
    with pytest.raises(PySparkException) as error:
        reading(spark, mq, **options).collect()
    assert sentence in last_words(error.value)
    assert "\tat " not in str(error.value)  # none of Java's stack
    unharmed()


def test_an_invalid_write_fails_with_one_sentence_before_any_task(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    unharmed = no_task(spark)
    rows = spark.range(1).selectExpr("id AS body")
    with pytest.raises(PySparkException) as error:
        rows.write.format("rocketmq").mode("append").options(namesrvAddr=mq.namesrv_addr, topic="t").save()
    assert "column 'body' is bigint; binary or string is allowed; cast it" in last_words(error.value)
    unharmed()


def test_a_row_without_body_is_told_in_the_last_line(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    rows = spark.range(2).selectExpr("IF(id = 0, 'x', NULL) AS body", "'one' AS topic").coalesce(1)
    with pytest.raises(PySparkException) as error:
        rows.write.format("rocketmq").mode("append").option("namesrvAddr", mq.namesrv_addr).save()
    assert "a row for topic 'one' has no body, which RocketMQ does not store; filter it out" in last_words(error.value)


def test_a_checkpoint_of_another_version_is_refused_and_stays_good(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 10)
    numbers = Numbers()
    run_available_now(streaming(spark, mq).load(), numbers, tmp_path)
    journal = tmp_path / "offsets/0"
    kept, crc = journal.read_text(), tmp_path / "offsets/.0.crc"
    crc.unlink(missing_ok=True)
    offset = json.loads(kept.splitlines()[-1])
    before = {**offset, "v": 0}
    journal.write_text(kept.replace(kept.splitlines()[-1], json.dumps(before)))
    with pytest.raises(StreamingQueryException) as error:
        run_available_now(streaming(spark, mq).load(), numbers, tmp_path)
    assert (
        "an offset of version 0, version 1 of the rocketmq source is allowed; use the SprocketMQ version that wrote it"
        in last_words(error.value)
    )

    journal.write_text(kept)
    publish(mq, 10, 15)
    run_available_now(streaming(spark, mq).load(), numbers, tmp_path)
    assert sorted(numbers.seen) == list(range(15))


def test_real_time_mode_is_refused_by_spark(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    """docs/spark/index.md says so: when this fails, Spark takes Python sources, and the source may learn it."""
    rows = streaming(spark, mq).load().writeStream.format("console").outputMode("update")
    query = rows.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds").start()
    with pytest.raises(StreamingQueryException, match="STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"):
        query.awaitTermination(300)

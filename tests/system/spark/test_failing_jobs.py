# SPDX-License-Identifier: Apache-2.0
"""What fails under a job of a real Spark, a broker or the user's own function: it is told in its own words, and nothing is lost, as who
mends the cause and starts again has every row. And what neither other queries nor other triggers may change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import Numbers, last_words, publish, reading, run_available_now, streaming
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from sprocketmq.spark import foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def three_fails(rows: DataFrame, batch_id: int) -> DataFrame:
    return rows.withColumn("failed", rows.body.cast("string") == "3")


def test_a_function_of_the_user_that_raises_stops_the_stream_with_its_words_and_loses_nothing(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 10)
    good = Numbers()

    def raises(rows: DataFrame, batch_id: int) -> DataFrame:
        raise OSError("my table is away")

    def raises_in_a_task(rows: DataFrame, batch_id: int) -> DataFrame:
        return rows.withColumn("failed", f.udf(lambda body: 1 // (int(body) - 3) > 99, "boolean")("body"))

    def run_with(judge: Callable[[DataFrame, int], DataFrame]) -> None:
        retry = foreach_batch(judge, write=good, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
        run_available_now(streaming(spark, mq, group="delays").load(), retry, tmp_path)

    for broken, words in (
        (raises, "OSError: my table is away"),
        (raises_in_a_task, "ZeroDivisionError: integer division or modulo by zero"),
    ):
        with pytest.raises(StreamingQueryException) as error:
            run_with(broken)
        assert words in last_words(error.value), f"{broken.__name__}: {error.value}"
        assert not good.seen
        assert not mq.messages("%RETRY%delays")
    assert not any(mq.consumer_offset("delays", "flights").values()), "beyond where it began"
    run_with(three_fails)
    assert sorted(good.seen) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    mq.wait_until(lambda: mq.messages("%RETRY%delays"))
    assert [message.body for message in mq.messages("%RETRY%delays")] == [b"3"]


def test_rows_that_nobody_would_read_again_are_not_sent_back(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 5)
    good = Numbers()
    retry = foreach_batch(three_fails, write=good, group="delays", max_reconsume=1, namesrv_addr=mq.namesrv_addr)
    with pytest.raises(StreamingQueryException) as error:
        run_available_now(streaming(spark, mq, group="other", includeRetry=True).load(), retry, tmp_path)
    assert "the query's source has group 'other' and includeRetry true" in last_words(error.value)
    waiting = ("SCHEDULE_TOPIC_XXXX", "%RETRY%delays", "%DLQ%delays")
    assert (good.seen, [message for topic in waiting for message in mq.messages(topic)]) == ([], [])

    # the planned batch, with a source that was corrected
    rows = spark.readStream.format("rocketmq").options(**retry.source_options, topic="flights")
    query = rows.load().writeStream.foreachBatch(retry).option("checkpointLocation", str(tmp_path)).start()
    try:
        mq.wait_until(lambda: mq.messages("%DLQ%delays"), 300_000)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(good.seen) == [0, 1, 2, 4]
    assert len(mq.messages("%RETRY%delays")) == 1


def test_a_filter_of_one_query_does_not_apply_to_the_next(spark: SparkSession, mq: EmbeddedRocketMQ) -> None:
    """Spark 4.3.0 keeps a filter that a source took, and applies it to the next query of the same DataFrame."""
    publish(mq, 0, 10)
    rows = reading(spark, mq, columns="body,queueOffset,topic")
    assert (rows.where("topic = 'none'").count(), rows.count()) == (0, 10)

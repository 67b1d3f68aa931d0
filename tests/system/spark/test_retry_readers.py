# SPDX-License-Identifier: Apache-2.0
"""What is sent back is read again: by the query's own source, which foreach_batch checks before it stores a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jobs import Numbers, last_words, publish, run_available_now, streaming
from pyspark.errors import StreamingQueryException

from sprocketmq.spark import foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def three_fails(rows: DataFrame, batch_id: int) -> DataFrame:
    return rows.withColumn("failed", rows.body.cast("string") == "3")


def on_the_way_back(mq: EmbeddedRocketMQ) -> int:
    return sum(len(mq.messages(topic)) for topic in ("SCHEDULE_TOPIC_XXXX", "%RETRY%delays", "%DLQ%delays"))


def test_rows_that_nobody_would_read_again_are_not_sent_back(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 5)
    good = Numbers()
    retry = foreach_batch(three_fails, write=good, group="delays", max_reconsume=1, options=options_of(mq))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "the query's source has no group and includeRetry false"),
        ({"group": "delays"}, "has group 'delays' and includeRetry false"),
        ({"group": "other", "includeRetry": True}, "has group 'other' and includeRetry true"),
    ]
    for options, words in wrong:
        with pytest.raises(StreamingQueryException) as error:
            run_available_now(streaming(spark, mq, **options).load(), retry, tmp_path)
        assert words in last_words(error.value)
        assert (good.seen, on_the_way_back(mq)) == ([], 0)
    spark.sql(
        f"CREATE TABLE flights_without_retries USING rocketmq OPTIONS (namesrvAddr '{mq.namesrv_addr}', topic 'flights', group 'delays', "
        "startingOffsets 'earliest')"
    )
    with pytest.raises(StreamingQueryException, match="group 'delays' and includeRetry false"):
        run_available_now(spark.readStream.table("flights_without_retries"), retry, tmp_path / "of a table")
    spark.sql("DROP TABLE flights_without_retries")

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


def options_of(mq: EmbeddedRocketMQ) -> dict[str, str]:
    return {"namesrvAddr": mq.namesrv_addr}

# SPDX-License-Identifier: Apache-2.0
"""Bad rows whose stored copies the broker deletes while the batch runs: they are sent back with their own bodies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import publish, streaming

from sprocketmq.spark import foreach_batch
from sprocketmq.spark.retry.row_retry import RowRetry
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Judge = Callable[["DataFrame", int], "DataFrame"]


@pytest.fixture
def rows(spark: SparkSession, mq: EmbeddedRocketMQ) -> DataFrame:
    mq.create_topic("flights", queues=1)
    publish(mq, 0, 6)
    return streaming(spark, mq).load()


def run_once(rows: DataFrame, retry: RowRetry, checkpoint: Path) -> None:
    """One batch, and no question after it: the broker knows nothing any more."""
    writer = rows.writeStream.foreachBatch(retry).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(once=True).start().awaitTermination(300)


def loses_its_messages(mq: EmbeddedRocketMQ, *columns: str) -> Judge:
    """A judge during whose work the broker forgets everything: 1 and 4 are to be retried, 2 is a dead letter."""

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        rows = rows.persist()
        rows.count()
        mq.restart_broker()
        judged = rows.selectExpr(
            *(columns or ("*",)),
            "CASE WHEN cast(body AS string) IN ('1', '4') THEN 'retry' WHEN cast(body AS string) = '2' THEN 'dlq' END AS action",
        )
        return judged.persist()

    return judge


def test_lost_bad_rows_come_back_and_the_hopeless_one_is_a_dead_letter(
    rows: DataFrame, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    ids = {message.body: message.message_id for message in mq.messages("flights")}
    good: list[int] = []
    retry = foreach_batch(
        loses_its_messages(mq),
        write=lambda rows, batch_id: good.extend(int(bytes(row.body)) for row in rows.collect()),
        group="delays",
        namesrv_addr=mq.namesrv_addr,
        check_source=False,
    )
    run_once(rows, retry, tmp_path)
    assert sorted(good) == [0, 3, 5]
    mq.wait_until(lambda: len(mq.messages("%RETRY%delays")) == 2, 60_000)
    copies = mq.messages("%RETRY%delays")
    assert {copy.body: copy.message_id for copy in copies} == {body: ids[body] for body in (b"1", b"4")}
    assert {(copy.reconsume_times, copy.tags, copy.properties["RETRY_TOPIC"]) for copy in copies} == {
        (1, "UA", "flights")
    }
    assert [(dead.body, dead.message_id) for dead in mq.messages("%DLQ%delays")] == [(b"2", ids[b"2"])]
    assert (retry.retried, retry.dead_lettered) == (2, 1)

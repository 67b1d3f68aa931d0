# SPDX-License-Identifier: Apache-2.0
"""What row retry promises of one batch: good rows first, each row judged once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import run_available_now, streaming
from pyspark.errors import StreamingQueryException

import sprocketmq as rmq
from sprocketmq.spark import foreach_batch
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark: SparkSession, mq: EmbeddedRocketMQ) -> DataFrame:
    mq.create_topic("flights", queues=1)
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", str(number).encode()) for number in range(10)])
    return streaming(spark, mq).load()


def _sent_back(mq: EmbeddedRocketMQ) -> int:
    return len(mq.messages("SCHEDULE_TOPIC_XXXX"))


def test_nothing_is_sent_back_before_the_good_rows_are_written(
    rows: DataFrame, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        return rows.withColumn("failed", rows.body.cast("string").isin("7"))

    def fail(rows: DataFrame, batch_id: int) -> None:
        raise OSError("the lake is closed")

    retry = foreach_batch(judge, write=fail, group="delays", namesrv_addr=mq.namesrv_addr, check_source=False)
    with pytest.raises(StreamingQueryException, match="the lake is closed"):
        run_available_now(rows, retry, tmp_path)
    assert _sent_back(mq) == 0  # the batch is replayed whole: a copy now would be one too many


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")  # Spark looks at pandas for any UDF
def test_each_row_is_judged_once(rows: DataFrame, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    journal = str(tmp_path / "judged")

    def changes_its_mind(body):  # type: ignore[no-untyped-def] # Spark reads a UDF's type hints, and has no use for these
        with open(journal, "a+") as file:
            file.seek(0)
            seen = file.read().split()
            file.write(f"{bytes(body).decode()}\n")
        return bytes(body) == b"7" and "7" not in seen

    verdict: Callable[..., object] = f.udf(changes_its_mind, "boolean").asNondeterministic()
    good: list[int] = []
    retry = foreach_batch(
        lambda rows, batch_id: rows.withColumn("failed", verdict(rows.body)),
        write=lambda rows, batch_id: good.extend(int(bytes(row.body)) for row in rows.select("body").collect()),
        group="delays",
        namesrv_addr=mq.namesrv_addr,
        check_source=False,
    )
    run_available_now(rows, retry, tmp_path / "checkpoint")
    assert sorted(good) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert (_sent_back(mq), retry.retried) == (1, 1)

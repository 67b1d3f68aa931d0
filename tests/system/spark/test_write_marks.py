"""What a sink wrote again after a crash (delivery=idempotent) is read once, through a real Spark, by streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobs import publish, run_available_now, streaming

from sprocketmq.spark import each_write_once
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class Once:
    """A function for foreachBatch: the numbers that came, and the names of their properties."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.names: set[str] = set()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        for row in rows.select("body", "properties").collect():
            self.numbers.append(int(row.body))
            self.names |= row.properties.keys()


def copy(spark: SparkSession, mq: EmbeddedRocketMQ, checkpoint: Path) -> None:
    """All of ``flights`` into ``copy``, in batches of 20 rows."""
    query = (
        streaming(spark, mq, maxOffsetsPerTrigger=20)
        .load()
        .selectExpr("body", "map('carrier', 'UA') AS properties")
        .writeStream.format("rocketmq")
        .options(namesrvAddr=mq.namesrv_addr, topic="copy", delivery="idempotent", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)


def test_a_stream_reads_once_what_a_sink_wrote_again_after_a_crash(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    publish(mq, 0, 40)
    copies = each_write_once(streaming(spark, mq, topic="copy").load())
    reading, writing = tmp_path / "reading", tmp_path / "writing"
    copy(spark, mq, writing)
    once = Once()
    run_available_now(copies, once, reading)
    assert sorted(once.numbers) == list(range(40))

    for commit in (writing / "commits").glob("*1*"):
        commit.unlink()  # as after a driver that died before Spark wrote that the second batch is done
    copy(spark, mq, writing)
    assert len(mq.messages("copy")) == 60
    with mq.producer() as producer:
        producer.send_batch([Message("copy", b"100"), Message("copy", b"100")])  # another's, alike and without marks
    run_available_now(copies, once, reading)  # repeats of what an earlier run, and an earlier batch, has read
    assert sorted(once.numbers) == [*range(40), 100, 100]
    assert "carrier" in once.names
    assert not [name for name in once.names if name.startswith("SPARK_")]

    at_once = Once()
    run_available_now(copies, at_once, tmp_path / "from-the-start")  # repeats within one batch
    assert sorted(at_once.numbers) == [*range(40), 100, 100]

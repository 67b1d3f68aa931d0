# SPDX-License-Identifier: Apache-2.0
"""The transactional sink through a real Spark, whose driver is killed and restarted from its checkpoint."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from system.spark.killed_pipelines import Pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2000)]

ROWS = 150


@pytest.fixture
def exact_mq() -> Iterator[EmbeddedRocketMQ]:
    """Asks after 5 s, so that both ways of ending a half are taken; and goes on asking, as a query may take long to start again."""
    given = {"transactionTimeOut": 5_000, "transactionCheckInterval": 1_000, "transactionCheckMax": 1_000}
    with EmbeddedRocketMQ(clock="system", **given) as mq:
        mq.create_topic("raw", queues=2)
        mq.create_topic("exact", queues=2)
        mq.create_topic("flights", queues=2)
        yield mq


def publish(mq: EmbeddedRocketMQ, numbers: range, topic: str) -> None:
    with mq.producer() as producer:
        producer.send_batch([rmq.Message(topic, b"%d" % at, keys=f"k{at}") for at in numbers])


def open_halves(mq: EmbeddedRocketMQ) -> int:
    """Half messages that nobody has ended."""
    return mq._on_loop(lambda: mq.broker.transactions.open_count)


def consumed(mq: EmbeddedRocketMQ) -> Counter[int]:
    """What an ordinary consumer gets of the topic, when nothing is open any more."""
    mq.wait_until(lambda: open_halves(mq) == 0, 300_000)
    stored = len(mq.messages("exact"))
    found: Counter[int] = Counter()
    with mq.pull_consumer("reader", consume_from_where="CONSUME_FROM_FIRST_OFFSET") as consumer:
        consumer.subscribe("exact")
        mq.wait_until(
            lambda: found.update(int(m.body) for m in consumer.poll(timeout_ms=500)) or found.total() >= stored, 60_000
        )
    return found


def test_each_row_appears_once_though_the_driver_is_killed(
    spark: SparkSession, exact_mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """In the second batch, once seven ends came through; test_kill_moments has the other points, by chance."""

    def read_all() -> None:
        query = Pipelines(spark, exact_mq.namesrv_addr, tmp_path, 0, "rocketmq").start("exact")
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    publish(exact_mq, range(60), "raw")
    read_all()
    publish(exact_mq, range(60, ROWS), "raw")
    (tmp_path / "kill-at").write_text("1 mid-ends driver 7")
    script = Path(__file__).with_name("killed_pipelines.py")
    path = os.pathsep.join([str(script.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    killed = subprocess.run(
        [sys.executable, str(script), exact_mq.namesrv_addr, str(tmp_path), "0", "exact"],
        env={**os.environ, "PYTHONPATH": path, "KILL_IN": str(tmp_path)},
        timeout=800,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "killed-1").exists()
    read_all()
    assert consumed(exact_mq) == Counter(range(ROWS))


def test_the_page_does_what_it_says(spark: SparkSession, exact_mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    names = {"spark": spark, "mq": {"namesrvAddr": exact_mq.namesrv_addr}, "checkpoint": str(tmp_path / "checkpoint")}
    exact_mq.create_topic("departures", queues=2)
    publish(exact_mq, range(8), "flights")
    page = Path(__file__).parents[3] / "docs/spark/exactly-once.md"
    for snippet in re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(snippet, str(page), "exec"), names)  # noqa: S102 - it is ours
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
    exact_mq.wait_until(lambda: open_halves(exact_mq) == 0, 300_000)
    assert Counter(int(message.body) for message in exact_mq.messages("departures")) == Counter([*range(8), *range(8)])


@pytest.mark.smoke("P11")
def test_a_batch_write_appears_as_a_whole_or_not_at_all(spark: SparkSession, exact_mq: EmbeddedRocketMQ) -> None:
    numbers = spark.range(0, 40, 1, 2).selectExpr("CAST(id AS STRING) AS body")
    broken = spark.range(0, 40, 1, 2).selectExpr("IF(id = 39, NULL, CAST(id AS STRING)) AS body")

    def write(rows: object) -> None:
        rows.write.format("rocketmq").mode("append").options(  # type: ignore[attr-defined]
            namesrvAddr=exact_mq.namesrv_addr, topic="flights", group="exact", delivery="transactional"
        ).save()

    with pytest.raises(Exception, match="no body"):
        write(broken)
    assert exact_mq.messages("flights") == []
    write(numbers)
    assert Counter(int(message.body) for message in exact_mq.messages("flights")) == Counter(range(40))

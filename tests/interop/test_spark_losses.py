"""P9, and a broker that is away, through a real Spark at Apache's brokers, both generations: what is gone is named, or counted.

The brokers of this module keep their log in files of 64 KB, so that Apache itself deletes messages when it is told to
(`mqadmin deleteExpiredCommitLog`). Its cleaning begins a minute after a broker's start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from interop.apache_cluster import ApacheCluster
from interop.java_peers import VERSIONS
from interop.mqadmin_session import MqadminSession
from interop.spark_flow import Flow
from sprocketmq.spark import LagReport, RocketMQProgressListener
from sprocketmq.spark.losses import Loss
from sprocketmq.wire.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FORGETFUL = {
    "mappedFileSizeCommitLog": 65_536,
    "cleanResourceInterval": 200,
    "deleteCommitLogFilesInterval": 1,
    "deleteFileBatchMax": 100,
    "deleteWhen": "99",  # never by itself
    "enablePropertyFilter": False,
}
LARGE = 10_000
Tools = Callable[[str], MqadminSession]


@pytest.fixture(scope="module")
def forgetful(java_peers: None) -> Iterator[dict[str, ApacheCluster]]:
    """Both at once, so that the first minute of one is that of the other."""
    with contextlib.ExitStack() as running:
        yield {version: running.enter_context(ApacheCluster(version, **FORGETFUL)) for version in VERSIONS}


@pytest.fixture(params=VERSIONS)
def flow(
    request: pytest.FixtureRequest, spark: SparkSession, forgetful: dict[str, ApacheCluster], tmp_path: Path
) -> Iterator[Flow]:
    with Flow(spark, forgetful[request.param], tmp_path) as started:
        yield started


@pytest.fixture
def reports(spark: SparkSession) -> Iterator[list[LagReport]]:
    """What the progress listener says of every stream of the test."""
    found: list[LagReport] = []
    listener = RocketMQProgressListener(found.append)
    spark.streams.addListener(listener)
    yield found
    spark.streams.removeListener(listener)


def losses(reports: list[LagReport], topic: str) -> list[Loss]:
    return [loss for report in list(reports) for loss in report.losses if loss.queue.topic == topic]


def test_a_topic_deleted_by_mqadmin_is_a_loss_and_made_anew_is_new(
    flow: Flow, tools: Tools, reports: list[LagReport]
) -> None:
    topic = flow.topic()
    flow.send(topic, range(5))
    with flow.stream(topic, checkpoint="lenient", startingOffsets="earliest", failOnDataLoss="false") as lenient:
        lenient.until_read(range(5))
        flow.bounded(topic, checkpoint="strict", startingOffsets="earliest").until_over()
        tools(flow.apache.version).run("deleteTopic", "-n", flow.namesrv_addr, "-c", "DefaultCluster", "-t", topic)
        lenient.until(lambda: losses(reports, topic), "the loss is told")
        assert losses(reports, topic) == [Loss(MessageQueue(topic, "broker-a", 0), 5, 5, "topic gone")]
        said = flow.bounded(topic, checkpoint="strict").failure()
        assert f"{topic}/broker-a/0" in said
        assert "the topic is gone from the broker" in said
        flow.topic(1, topic)
        flow.send(topic, range(50, 53))
        lenient.until_read([*range(5), 50, 51, 52])


def test_sql_filters_that_a_broker_does_not_take_are_said_so(flow: Flow) -> None:
    topic = flow.topic()
    flow.send(topic, range(3))
    with pytest.raises(PySparkException, match=r"(?i)filter"):
        flow.numbers(topic, sql92="n > 1")

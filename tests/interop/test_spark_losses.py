# SPDX-License-Identifier: Apache-2.0
"""P9, and a broker that is away, through a real Spark at Apache's brokers, both generations: what is gone is named, or counted.

The brokers of this module keep their log in files of 64 KB, so that Apache itself deletes messages when it is told to
(`mqadmin deleteExpiredCommitLog`). Its cleaning begins a minute after a broker's start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import sprocketmq as rmq
from interop.apache_cluster import ApacheCluster
from interop.child import poll_until
from interop.java_peers import APACHE_4, VERSIONS
from interop.spark_flow import Flow, Kept, offsets
from sprocketmq.spark import LagReport, LossReport, RocketMQProgressListener
from sprocketmq.spark.losses import Loss
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

FORGETFUL = {
    "mappedFileSizeCommitLog": 65_536,
    "cleanResourceInterval": 200,
    "deleteCommitLogFilesInterval": 1,
    "deleteFileBatchMax": 100,
    "deleteWhen": "99",  # never by itself
    "enablePropertyFilter": False,
}
LARGE = 10_000


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


def expire(flow: Flow, topic: str, upto: int) -> None:
    """Apache deletes what queue 0 holds below `upto`, which is all that it holds, and nothing that is sent from now on."""
    queue = MessageQueue(topic, "broker-a", 0)
    flow.send(flow.topic(), range(20), size=LARGE)  # the last file is never deleted
    flow.admin.update_broker_config({"fileReservedTime": 0}, cluster="DefaultCluster")
    flow.admin.delete_expired_commit_logs()

    def is_gone() -> bool:
        held = flow.admin.topic_stats(topic)[queue]
        # 4.9 lets an empty queue begin where it did.
        return held.last_update_timestamp < 0 if flow.apache.version == APACHE_4 else held.min_offset == upto

    poll_until(is_gone, "Apache has deleted the messages")
    flow.admin.update_broker_config({"fileReservedTime": 72}, cluster="DefaultCluster")


def test_what_expired_before_a_batch_is_named_or_counted(flow):
    topic = flow.topic()
    flow.send(topic, range(10), size=LARGE)
    expire(flow, topic, 10)
    assert flow.numbers(topic) == [], "nothing was lost of what was never asked for"
    flow.send(topic, range(10, 15))
    queue = MessageQueue(topic, "broker-a", 0)
    assert flow.admin.min_offset(queue) == (0 if flow.apache.version == APACHE_4 else 10), "what the broker says itself"
    assert flow.numbers(topic) == list(range(10, 15))
    from_2 = {"startingOffsets": offsets(topic, [2])}
    with pytest.raises(PySparkException) as failure:
        flow.numbers(topic, **from_2)
    assert (
        f"{topic}/broker-a/0: offsets 2 to 10 (8 messages) are missing, the broker holds 10 to 15 (deleted by retention)"
    ) in str(failure.value)
    report = LossReport(flow.spark)
    left = flow.numbers(topic, **from_2, format=report.format, failOnDataLoss="false", **report.options)
    assert left == list(range(10, 15))
    assert report.losses == [Loss(queue, 2, 10, "deleted")]


def test_what_expires_under_a_running_read_is_named_or_counted(flow):
    """The batch is journaled, its tasks have not begun. At 4.9 the queue still claims to begin at 0: no answer says "moved" there."""
    topic = flow.topic()
    flow.send(topic, range(10), size=LARGE)
    queue = MessageQueue(topic, "broker-a", 0)

    def delete(batch_id: int) -> None:
        if flow.admin.topic_stats(topic)[queue].last_update_timestamp > 0:
            expire(flow, topic, 10)

    strict = flow.bounded(topic, checkpoint="strict", startingOffsets="earliest", kept=Kept(delete))
    said = strict.failure()
    assert f"{topic}/broker-a/0: offsets 0 to 10 (10 messages) are missing" in said
    assert "(deleted by retention)" in said
    if flow.apache.version == APACHE_4:
        assert flow.admin.min_offset(queue) == 0

    report = LossReport(flow.spark)
    with_report = {"format": report.format, "failOnDataLoss": "false", **report.options}
    # The journal of the failed batch: the very same range.
    lenient = flow.bounded(topic, checkpoint="strict", **with_report)
    lenient.until_over()
    assert lenient.kept.numbers == []
    assert report.losses == [Loss(queue, 0, 10, "deleted")]


def test_a_stream_waits_for_an_unreachable_broker_instead_of_assuming_no_progress(flow):
    topic, group = flow.topic(), flow.name()
    flow.send(topic, range(5))
    flow.admin.create_group(group)
    flow.admin.set_consumer_offset(group, rmq.MessageQueue(topic, "broker-a", 0), 3)
    at_group = {"startingOffsets": "group", "group": group}
    with flow.stream(topic, **at_group, commitOffsets="off") as stream:
        stream.until_read([3, 4])
        flow.apache.kill()
        try:
            with pytest.raises(PySparkException) as failure:
                flow.numbers(topic, **at_group, groupOffsetsFallback="latest", retryTimeoutMs=500)
        finally:
            flow.apache.start_broker()
        said = str(failure.value)
        assert "committed nothing" not in said
        # A name server forgets a broker when its connection breaks.
        assert any(why in said for why in ("is unknown to the name server", "ConnectFailed", "ConnectionLost")), said
        poll_until(lambda: flow.stored(topic) == 5, "the broker is back")
        flow.send(topic, range(5, 8))
        stream.until_read(range(3, 8))

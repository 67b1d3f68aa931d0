# SPDX-License-Identifier: Apache-2.0
"""A real Spark through Apache's proxy, whose address is name server and every broker at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import sprocketmq as rmq
from interop.apache_cluster import ApacheCluster
from interop.apache_proxy import ApacheProxy
from interop.child import poll_until
from interop.peers import APACHE_5
from interop.shared_servers import FAST
from interop.spark_flow import Flow, Kept, offsets
from sprocketmq.cli.main import app
from sprocketmq.spark import LagReport, RocketMQProgressListener, foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A: Final = "broker-a"
B: Final = "broker-b"


class ProxyFlow(Flow):
    """Spark and a proxy. Topics are made at the brokers, as in a console of a service."""

    def __init__(self, spark: SparkSession, proxy: ApacheProxy, scratch: Path) -> None:
        super().__init__(spark, proxy, scratch)  # type: ignore[arg-type]
        self.proxy = proxy

    def typed_topic(self, message_type: str, queues: int = 1) -> str:
        name = self.name()
        self.proxy.create_topic(name, queues, message_type)
        return name

    def topic(self, queues: int = 1, name: str | None = None) -> str:
        return self.typed_topic("NORMAL", queues)

    def send_to(self, broker_name: str, topic: str, *numbers: int, queue: int = 0) -> None:
        for number in numbers:
            message = rmq.Message(topic, str(number).encode())
            self.producer.send(message, queue=rmq.MessageQueue(topic, broker_name, queue))

    def sink(self, rows: DataFrame, **options: Any) -> Any:
        """A batch write in one task, as order is that of a task."""
        writer = rows.coalesce(1).write.format("rocketmq").mode("append")
        return writer.options(namesrvAddr=self.namesrv_addr, **options)


@pytest.fixture
def flow(spark: SparkSession, proxy: ApacheProxy, tmp_path: Path) -> Iterator[ProxyFlow]:
    with ProxyFlow(spark, proxy, tmp_path) as started:
        yield started


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(Exception, match="sprocketmq.errors") as raised:
        act()
    return str(raised.value)


# -- reading ------------------------------------------------------------------------------------------------------------------------------


def test_batches_from_every_start_and_with_every_filter(flow):
    topic = flow.topic(2)
    flow.send(topic, range(10), 0, tag=lambda number: "UA" if number % 2 else "DL")
    flow.send(topic, range(10, 20), 1, tag=lambda number: "UA")
    since_ms = flow.moment_ms()
    flow.send(topic, range(20, 25), 0)
    flow.send(topic, range(25, 30), 1)
    with rmq.Admin(namesrv_addr=flow.proxy.clusters[0].namesrv_addr) as admin:
        admin.create_group(group := flow.name())
        admin.set_consumer_offset(group, rmq.MessageQueue(topic, A, 0), 14)
    found = flow.several(
        {
            "all": {"topic": topic},
            "tag": {"topic": topic, "tags": "DL"},
            "sql92": {"topic": topic, "sql92": "n IN ('1', '3', '5', '7', '9', '12')"},
            "time": {"topic": topic, "startingTimestamp": since_ms},
            "offsets": {"topic": topic, "startingOffsets": offsets(topic, [8, -1]), "endingOffsets": offsets(topic, [12, -1])},
            "group": {
                "topic": topic, "group": group, "startingOffsets": "group", "groupOffsetsFallback": "latest",
            },
        }
    )  # fmt: skip
    assert found == {
        "all": list(range(30)),
        "tag": [0, 2, 4, 6, 8],
        "sql92": [1, 3, 5, 7, 9, 12],
        "time": list(range(20, 30)),
        "offsets": [8, 9, 20, 21],
        "group": [24],
    }


def test_a_stream_of_a_group_reads_commits_and_goes_on_where_it_stopped(flow):
    topic, group = flow.topic(2), flow.name()
    flow.send(topic, range(10), 0)
    how = {"topic": topic, "group": group, "startingOffsets": "earliest"}
    with flow.bounded(**how) as run:
        run.until_over()
        assert run.kept.numbers == list(range(10))
    flow.send(topic, range(10, 20), 1)
    kept = Kept()
    with flow.stream(kept=kept, **how) as stream:
        stream.until_read(range(10, 20))
        flow.send(topic, range(20, 30), 0)
        stream.until_read(range(10, 30))
        with rmq.Admin(namesrv_addr=flow.proxy.clusters[0].namesrv_addr) as admin:
            queues = [rmq.MessageQueue(topic, A, number) for number in (0, 1)]
            stream.until(lambda: [admin.consumer_offset(group, one) for one in queues] == [20, 10], "the progress")
            with rmq.Admin(namesrv_addr=flow.namesrv_addr) as at_proxy:
                assert at_proxy.lag(group) == 0
                assert len(at_proxy.consumer_ids(group)) == 1
        printed = CliRunner().invoke(
            app,
            ["spark-checkpoint", "rewind", str(flow.scratch / "checkpoint"), f"{topic}/{A}/0", "0", "--group", group,
             "-n", flow.namesrv_addr],
        )  # fmt: skip
        assert f"a query of group {group} is running" in str(printed.exception)


def test_the_lag_in_time_of_what_is_left(flow):
    topic = flow.topic(1)
    flow.send(topic, range(5))
    flow.moment_ms()
    flow.send(topic, range(5, 10))
    queue = rmq.MessageQueue(topic, A, 0)
    stored = {at: found.store_timestamp_ms for at in (4, 9) if (found := flow.admin.message_at(queue, at))}
    reports: list[LagReport] = []
    listener = RocketMQProgressListener(reports.append)
    flow.spark.streams.addListener(listener)
    try:
        with flow.stream(topic, startingOffsets="earliest", maxOffsetsPerTrigger=4) as stream:
            stream.until_read(range(10))
            stream.until(lambda: len(reports) >= 3, "what Spark says of each batch")
    finally:
        flow.spark.streams.removeListener(listener)
    first = next(report for report in reports if report.batch_id == 0)
    assert (first.by_queue, first.ms_by_queue) == ({queue: 6}, {queue: stored[9] - stored[4]})
    assert first.oldest_unread_timestamp_ms == stored[4]


def test_what_a_proxy_cannot_tell_is_one_sentence(flow):
    at, topic = flow.namesrv_addr, flow.topic(1)
    assert (
        f"topicsPattern is 'spark-.*', and the proxy at {at} lists no topics; name them in the option topics"
        in refusal(lambda: flow.read(topicsPattern="spark-.*").count())
    )
    assert f"topic 'nowhere' is unknown to the proxy {at}" in refusal(lambda: flow.read("nowhere").count())
    assert "sql92 is 'n ='" in refusal(lambda: flow.read(topic, sql92="n =").count())
    with flow.stream(topicsPattern="spark-.*", startingOffsets="earliest") as stream:
        assert f"the proxy at {at} lists no topics" in stream.failure()


# -- writing ------------------------------------------------------------------------------------------------------------------------------


def test_the_sink_sends_to_topics_of_each_type(flow):
    spark, plain = flow.spark, flow.topic(4)
    flow.sink(spark.range(1_000).selectExpr("cast(id AS string) AS body"), topic=plain).save()
    assert flow.numbers(plain) == list(range(1_000))

    keyed = ["cast(id AS string) AS body", "concat('N', id % 3) AS shardingKey"]
    for message_type in ("FIFO", "NORMAL"):
        topic = flow.typed_topic(message_type, 4)
        flow.sink(spark.range(60).selectExpr(*keyed), topic=topic).save()
        flow.sink(spark.range(60, 61).selectExpr(*keyed), topic=topic).save()
        rows = flow.read(topic).collect()
        assert sorted(int(row.body) for row in rows) == list(range(61))
        for key in range(3):
            mine = sorted((row.queueId, row.queueOffset, int(row.body)) for row in rows if int(row.body) % 3 == key)
            assert len({queue for queue, _, _ in mine}) == 1
            assert [number for _, _, number in mine] == list(range(key, 61, 3)), "the order within a key is the task's"

    later = flow.typed_topic("DELAY")
    flow.sink(spark.range(3).selectExpr("cast(id AS string) AS body", "1 AS delayLevel"), topic=later).save()
    poll_until(lambda: flow.stored(later) == 3, "they are over their delay")
    body = spark.range(20).selectExpr("cast(id AS string) AS body")
    assert "the topic takes DELAY messages (its attribute message.type), and this one is NORMAL" in refusal(
        flow.sink(body, topic=later).save
    )
    odd = spark.sql("SELECT 'good' AS body UNION ALL SELECT NULL")
    flow.sink(odd, topic=plain, onError="dlq", group=(group := flow.name())).save()
    letters = spark.read.format("rocketmq").options(namesrvAddr=flow.namesrv_addr, deadLettersOf=group).load()
    assert [(row.topic, bytes(row.body)) for row in letters.collect()] == [(plain, b" ")]


def test_a_transactional_write_is_refused_before_a_message_is_sent(flow):
    topic, group = flow.typed_topic("TRANSACTION"), flow.name()
    sentence = f"delivery is transactional, and {flow.namesrv_addr} is a proxy, which commits half messages only when a broker checks"
    rows = flow.spark.range(5).selectExpr("cast(id AS string) AS body")
    assert sentence in refusal(flow.sink(rows, topic=topic, delivery="transactional", group=group).save)
    source = flow.spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS body")
    sink = source.writeStream.format("rocketmq").option("checkpointLocation", str(flow.scratch / "exact"))
    query = sink.options(namesrvAddr=flow.namesrv_addr, topic=topic, delivery="transactional", group=group).start()
    try:
        poll_until(lambda: query.exception() is not None, "the refusal")
    finally:
        query.stop()
    assert sentence in str(query.exception())
    told = CliRunner().invoke(app, ["settle", "--group", group, "--topic", topic, "-n", flow.namesrv_addr])
    assert sentence in str(told.exception)
    with rmq.Admin(namesrv_addr=flow.proxy.clusters[0].namesrv_addr) as admin:
        assert admin.max_offset(rmq.MessageQueue(topic, A, 0)) == 0
        assert not [name for name in admin.topics() if group in name]


# -- retries ------------------------------------------------------------------------------------------------------------------------------


def judged_stream(flow: ProxyFlow, topic: str, group: str, tries: list[tuple[int, int]]) -> Any:
    """A stream whose row 3 is always bad; and 5 once, with a reason."""

    def judge(rows: DataFrame, batch_id: int) -> DataFrame:
        judged = rows.selectExpr(
            "*",
            "CASE cast(body AS string) WHEN '3' THEN 'retry' WHEN '5' THEN if(reconsumeTimes = 0, 'retry', 'ack') END AS action",
            "1 AS delayLevel",
            "CASE cast(body AS string) WHEN '5' THEN 'not yet' END AS reason",
        ).persist()
        tries.extend((int(row.body), row.reconsumeTimes) for row in judged.collect())
        return judged

    retry = foreach_batch(
        judge, write=lambda good, batch_id: None, group=group, max_reconsume=2, namesrv_addr=flow.namesrv_addr
    )
    source = flow.spark.readStream.format("rocketmq").options(
        namesrvAddr=flow.namesrv_addr, topic=topic, group=group, includeRetry=True, startingOffsets="earliest"
    )
    checkpoint = str(flow.scratch / "retry")
    return retry, source.load().writeStream.foreachBatch(retry).option("checkpointLocation", checkpoint).start()


def until_retried(flow: ProxyFlow, topic: str, group: str, numbers: range) -> None:
    tries: list[tuple[int, int]] = []
    retry, query = judged_stream(flow, topic, group, tries)
    expected = [(number, 0) for number in numbers] + [(3, 1), (3, 2), (5, 1)]
    try:

        def is_over() -> bool:
            if (failure := query.exception()) is not None:
                raise failure
            return len(tries) >= len(expected) and retry.dead_lettered >= 1

        poll_until(is_over, "all tries")
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(tries) == sorted(expected)
    letters = flow.spark.read.format("rocketmq").options(namesrvAddr=flow.namesrv_addr, deadLettersOf=group).load()
    assert [(int(row.body), row.topic, row.reconsumeTimes) for row in letters.collect()] == [(3, topic, 3)]


# -- two brokers behind one address -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brokers(java_peers: None) -> Iterator[tuple[ApacheCluster, ApacheCluster, ApacheProxy]]:
    with (
        ApacheCluster(APACHE_5, **FAST) as first,
        ApacheCluster(APACHE_5, namesrv_addr=first.namesrv_addr, brokerName=B, **FAST) as second,
        ApacheProxy(first, second) as proxy,
    ):
        yield first, second, proxy


@pytest.fixture
def two(
    spark: SparkSession, brokers: tuple[ApacheCluster, ApacheCluster, ApacheProxy], tmp_path: Path
) -> Iterator[ProxyFlow]:
    with ProxyFlow(spark, brokers[2], tmp_path) as started:
        yield started


@pytest.mark.nightly
def test_all_queues_of_two_brokers_are_read_once_and_written(two):
    topic, copy, group = two.topic(2), two.topic(2), two.name()
    for broker_name, first in ((A, 0), (B, 10)):
        two.send_to(broker_name, topic, *range(first, first + 5), queue=0)
        two.send_to(broker_name, topic, *range(first + 5, first + 10), queue=1)
    found = two.read(topic).select("brokerName", "body").collect()
    assert {(row.brokerName, int(row.body)) for row in found} == {(A if n < 10 else B, n) for n in range(20)}
    with two.stream(topic, group=group, startingOffsets="earliest") as stream:
        stream.until_read(range(20))
        queues = [rmq.MessageQueue(topic, name, number) for name in (A, B) for number in (0, 1)]
        with rmq.Admin(namesrv_addr=two.proxy.clusters[0].namesrv_addr) as admin:
            stream.until(lambda: [admin.consumer_offset(group, one) for one in queues] == [5] * 4, "the progress")
    two.sink(two.read(topic).select("body"), topic=copy).save()
    assert two.numbers(copy) == list(range(20))


@pytest.mark.nightly
def test_bad_rows_go_back_to_the_broker_of_each(two):
    topic, group = two.topic(1), two.name()
    two.send_to(A, topic, 0, 1, 2, 5)
    two.send_to(B, topic, 3, 4)
    until_retried(two, topic, group, range(6))
    with rmq.Admin(namesrv_addr=two.proxy.clusters[0].namesrv_addr) as admin:
        ends = [admin.max_offset(rmq.MessageQueue(f"%RETRY%{group}", name, 0)) for name in (A, B)]
    assert ends == [1, 2]


@pytest.mark.nightly
def test_a_stream_waits_for_a_broker_behind_the_proxy_that_is_away(brokers, two):
    topic = two.topic(1)
    two.send_to(A, topic, 0)
    two.send_to(B, topic, 1)
    with two.stream(topic, group=two.name(), startingOffsets="earliest", retryTimeoutMs="5s") as stream:
        stream.until_read(range(2))
        brokers[1].kill()
        two.send_to(A, topic, 2)
        stream.until_read(range(3))
        brokers[1].start_broker()
        poll_until(lambda: two.proxy.has_route(B), "the proxy knows the broker again")
        two.send_to(B, topic, 3)
        stream.until_read(range(4))

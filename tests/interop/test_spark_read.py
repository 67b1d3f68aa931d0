# SPDX-License-Identifier: Apache-2.0
"""The Spark source against Apache's own servers, both generations, called as Spark calls it: starts by time, loss, a deleted topic."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

import sprocketmq as rmq
from interop.child import poll_until
from interop.peers import ApacheCluster
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import DataLoss, Loss
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.read import broker_poller
from sprocketmq.spark.read.offset_search import sample_queues, search_by_time
from sprocketmq.spark.read.queue_bounds import gone_queues, queue_bounds
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.wire.records.message import MessageQueue


def reader(apache: ApacheCluster, topic: str, **options: str) -> StreamReader:
    source = RocketMQDataSource({"namesrvaddr": apache.namesrv_addr, "topic": topic, **options})
    return source.streamReader(source.schema())


def ask(stream: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def read(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = [batch for partition in stream.partitions(start, end) for batch in stream.read(partition)]
    return sorted(int(body) for batch in batches for body in batch.column("body").to_pylist())


def test_a_time_is_found_to_the_message(apache):
    topic = f"timed-{time.time_ns()}"
    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(topic, queues=1)
        (queue,) = admin.queues(topic)
        producer.send_batch([rmq.Message(topic, b"%d" % number) for number in range(20)])
        time.sleep(0.05)  # other store times
        producer.send_batch([rmq.Message(topic, b"%d" % number) for number in range(20, 40)])
        cluster = Cluster.at(apache.namesrv_addr)
        poll_until(lambda: queue_bounds(cluster, [queue])[queue].max == 40, "forty messages")
    looks = [sample_queues(cluster, {queue: at}, "ours", 1)[queue].stored_ms for at in range(40)]
    bounds = queue_bounds(cluster, [queue])
    assert bounds[queue].newest_ms == looks[-1]
    for time_ms in sorted({looks[0] - 1, looks[0], looks[19], looks[20] - 1, looks[20], looks[39]}):
        expected = next(at for at, stored_ms in enumerate(looks) if stored_ms >= time_ms)
        assert cluster.run(partial(search_by_time, cluster, bounds, {queue: time_ms}, "ours")) == {queue: expected}
    assert cluster.run(lambda: search_by_time(cluster, bounds, {queue: looks[39] + 1}, "ours")) == {}


def test_a_topic_deleted_under_a_stream_is_a_loss_and_made_anew_is_new(apache):
    topic = f"doomed-{time.time_ns()}"
    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        admin.create_topic(topic, queues=1)
        (queue,) = admin.queues(topic)
        for number in range(5):
            producer.send(rmq.Message(topic, b"%d" % number))
        poll_until(lambda: admin.max_offset(queue) == 5, "the queue's entries")  # Apache builds them a moment behind
        stream = reader(apache, topic, startingoffsets="earliest", failondataloss="false", maxbytespertrigger="1000000")
        start = stream.initialOffset()
        end = found = ask(stream, start)
        assert read(stream, start, end) == [0, 1, 2, 3, 4]
        admin.delete_topic(topic)

        def moved() -> bool:
            nonlocal found
            found = ask(stream, end)
            return found != end

        poll_until(moved, "the loss")
        assert StreamOffset.from_json(found).lost == (Loss(queue, 5, 5, "topic gone"),)
        with pytest.raises(DataLoss, match="the topic is gone from the broker"):
            ask(reader(apache, topic), end)


def test_a_queue_that_never_existed_is_gone_and_one_of_an_unknown_broker_is_not(apache):
    topic = f"there-{time.time_ns()}"
    with rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin:
        admin.create_topic(topic, queues=1)
        (queue,) = admin.queues(topic)
    cluster = Cluster.at(apache.namesrv_addr)
    beyond = MessageQueue(topic, queue.broker_name, 7)
    elsewhere = MessageQueue(topic, "nowhere", 0)
    poll_until(lambda: gone_queues(cluster, [queue], "spark") == {}, "the queue")
    assert gone_queues(cluster, [queue, beyond, elsewhere], "spark") == {beyond: "queue gone"}


def test_one_question_tells_which_of_many_topics_have_no_new_message(
    apache: ApacheCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stream with a group; topics in which nothing was ever stored count, too."""
    stem = f"many-{time.time_ns()}"
    topics = [f"{stem}-{number}" for number in range(10)]
    with (
        rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin,
        rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer,
    ):
        for topic in topics:
            admin.create_topic(topic, queues=2)
        for number, topic in enumerate(topics[:5]):
            producer.send(rmq.Message(topic, b"%d" % number))
        stream = reader(apache, ",".join(topics), group=stem, startingoffsets="earliest")
        end, found = stream.initialOffset(), list[int]()

        def read_on() -> bool:
            nonlocal end, found
            after = ask(stream, end)
            found += read(stream, end, after)
            end = after
            return len(found) >= 5

        poll_until(read_on, "five messages")
        poller = stream._planner.poller
        asked: list[MessageQueue] = []
        real = broker_poller.queue_bounds
        monkeypatch.setattr(
            broker_poller,
            "queue_bounds",
            lambda cluster, queues, **how: asked.extend(queues) or real(cluster, queues, **how),
        )

        def has_news() -> bool:
            asked.clear()
            poller.bounds()
            return bool(asked)

        poll_until(lambda: not has_news(), "no news")
        producer.send(rmq.Message(topics[7], b"7"))
        poll_until(has_news, "news")
        assert {queue.topic for queue in asked} == {topics[7]}

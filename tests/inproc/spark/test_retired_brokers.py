# SPDX-License-Identifier: Apache-2.0
"""A broker that is taken from the cluster, drained or not: what a stream says, and how it goes on without it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from inproc.spark.as_spark import Readers, ask, first_batch, next_batch, read, send
from inproc.spark.second_broker import SecondBroker
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.read.group_progress import GroupProgress
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue

GONE = MessageQueue("flights", "broker-b", 0)


@pytest.fixture
def other(mq: EmbeddedRocketMQ, tmp_path: Path) -> Iterator[SecondBroker]:
    broker = SecondBroker(mq, tmp_path / "other")
    broker.start()
    with mq.admin() as admin:
        admin.create_topic("flights", queues=1, broker=broker.address)
    broker.send(100, 101)
    yield broker
    broker.stop()


def test_a_bounded_run_ends_without_a_broker_that_is_retired(
    mq: EmbeddedRocketMQ, readers: Readers, other: SecondBroker, caplog: pytest.LogCaptureFixture
) -> None:
    end, numbers = first_batch(readers(startingoffsets="earliest"))
    assert numbers == [100, 101]
    other.stop()
    send(mq, 1)
    waiting = readers(retrytimeoutms="300")
    waiting.prepareForTriggerAvailableNow()
    after, numbers = next_batch(waiting, end)
    assert numbers == [1]
    with pytest.raises(NetworkError, match=r"1 queues .* the first is flights/broker-b/0; .* retiredBrokers"):
        ask(waiting, after)
    run = readers(retiredbrokers="broker-c, broker-b", retrytimeoutms="300")
    run.prepareForTriggerAvailableNow()
    with caplog.at_level(logging.WARNING, "sprocketmq.spark"):
        last = ask(run, after)
    assert [(loss.queue, loss.start, loss.reason) for loss in StreamOffset.from_json(last).lost] == [
        (GONE, 2, "broker retired")
    ]
    assert "flights/broker-b/0: from offset 2 on" in caplog.text or "offset 2 is not there" in caplog.text
    assert read(run, after, last) == []
    assert ask(run, last) == last
    following = readers(retrytimeoutms="300")
    following.prepareForTriggerAvailableNow()
    assert ask(following, last) == last, "it is not in the checkpoint any more"


def test_naming_a_registered_broker_as_retired_is_an_error(
    mq: EmbeddedRocketMQ, readers: Readers, other: SecondBroker
) -> None:
    end, _ = first_batch(readers(startingoffsets="earliest"))
    with pytest.raises(ConfigurationError, match="retiredBrokers names broker-b, which is registered and has queues"):
        ask(readers(retiredbrokers="broker-b"), end)


def test_a_list_of_retired_brokers_with_an_empty_name_is_refused(readers: Readers) -> None:
    with pytest.raises(ConfigurationError, match="retiredBrokers is 'broker-b,,'; allowed is names of brokers"):
        readers(retiredbrokers="broker-b,,")


def test_progress_is_shown_to_the_brokers_that_are_there_and_the_others_are_left_alone(
    mq: EmbeddedRocketMQ, readers: Readers, other: SecondBroker
) -> None:
    send(mq, *range(6))
    end, _ = first_batch(readers(startingoffsets="earliest", group="delays"))
    read_here = {int(queue): at for queue, at in end["q"]["flights"]["broker-a"].items()}
    assert min(read_here.values()) > 0
    other.stop()
    reader = readers(group="delays")
    asked: list[int] = []

    def note(command: Command) -> bool:
        asked.append(command.code)
        return False

    mq.faults.drop((RequestCode.GET_BROKER_CLUSTER_INFO,), times=None, when=note)
    assert ask(reader, end) == end
    assert mq.consumer_offset("delays", "flights") == read_here
    first = len(asked)
    reader._progress.commit(Cluster.at(mq.namesrv_addr), {GONE: 2}, 0.0)
    assert len(asked) == first, "it was asked about just now"
    other.start()
    reader._progress.commit(Cluster.at(mq.namesrv_addr), {GONE: 2}, float("inf"))
    assert reader._progress.offsets[GONE] == 2


def test_a_living_broker_that_is_named_is_not_left_while_the_name_server_does_not_answer(
    mq: EmbeddedRocketMQ, readers: Readers, other: SecondBroker
) -> None:
    end, _ = first_batch(readers(startingoffsets="earliest"))
    reader = readers(retiredbrokers="broker-b")
    Cluster.at(mq.namesrv_addr).routes.forget()
    mq.faults.fail(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, times=None)
    assert ask(reader, end) == end, "nobody knows whether it is there"
    mq.faults.clear()
    with pytest.raises(ConfigurationError, match="retiredBrokers names broker-b, which is registered"):
        ask(reader, end)


def test_refused_progress_is_told_again_at_once_and_then_each_ten_seconds(
    mq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, progress = Cluster.at(mq.namesrv_addr), GroupProgress("delays")
    cluster.queues(["flights"])
    tries: list[Command] = []

    def note(command: Command) -> bool:
        tries.append(command)
        return True

    mq.faults.fail(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, times=None, when=note)
    with caplog.at_level(logging.WARNING, "sprocketmq.spark"):
        for now_s in range(25):
            progress.commit(cluster, {MessageQueue("flights", "broker-a", 0): 2}, 100.0 + now_s)
    assert len(tries) == 4, "at 0, 1, 11 and 21 seconds"
    assert caplog.text.count("is not on broker broker-a yet") == 1
    assert cluster.routes._read["flights"][0], "the broker that refuses is where it was"
    mq.faults.clear()
    with mq.admin() as admin:
        admin.create_group("delays")
    progress.commit(cluster, {MessageQueue("flights", "broker-a", 0): 2}, 200.0)
    assert progress.offsets == {MessageQueue("flights", "broker-a", 0): 2}


def test_progress_in_topics_that_are_not_read_any_more_is_not_shown(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("trains", queues=1)
    send(mq, 1, topic="trains")
    send(mq, 2)
    end, _ = first_batch(readers(topics="flights,trains", startingoffsets="earliest"))
    reader = readers(group="delays")
    assert ask(reader, end) == end
    assert {queue.topic for queue in reader._progress.offsets} == {"flights"}

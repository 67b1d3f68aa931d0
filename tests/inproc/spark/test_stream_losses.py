# SPDX-License-Identifier: Apache-2.0
"""What a stream and a batch say of messages that are gone: before the read, while planning and in the middle of a task."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import Readers, ask, ask_until_news, first_batch, next_batch, read, send
from sprocketmq.client.consume import queue_reader
from sprocketmq.client.results import PullResult
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.errors import ConfigurationError, NetworkError
from sprocketmq.net.connection import Connection
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import DataLoss, Loss
from sprocketmq.spark.offsets import QueueRange, StreamOffset
from sprocketmq.spark.read import offset_search, parked_pulls, queue_bounds
from sprocketmq.spark.read.group_progress import commit_offsets
from sprocketmq.spark.read.partitions import TaskPartition
from sprocketmq.spark.read.reader import BatchReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import TopicStatsTable
from sprocketmq.wire.codes import RequestCode, ResponseCode, Version
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue

ONE = MessageQueue("trains", "broker-a", 0)
STATS = RequestCode.GET_TOPIC_STATS_INFO


@pytest.fixture
def trains(mq: EmbeddedRocketMQ) -> EmbeddedRocketMQ:
    """A topic of one queue beside ``flights``."""
    mq.create_topic("trains", queues=1)
    return mq


def made_anew(mq: EmbeddedRocketMQ, *numbers: int) -> None:
    """The topic with all its messages is deleted and made anew."""
    with mq.admin() as admin:
        admin.delete_topic("trains")
    mq.create_topic("trains", queues=1)
    send(mq, *numbers, topic="trains")


def lost(offset: dict[str, Any]) -> list[tuple[MessageQueue, str, int, int | None]]:
    return [(loss.queue, loss.reason, loss.start, loss.end) for loss in StreamOffset.from_json(offset).lost]


# -- a stream ------------------------------------------------------------------------------------------------------------------


def test_a_stream_that_may_lose_goes_on_without_a_deleted_topic_and_journals_what_is_missing(
    trains: EmbeddedRocketMQ, readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    send(trains, 1, 2, topic="trains")
    reader = readers(topics="flights,trains", startingoffsets="earliest", failondataloss="false")
    end, numbers = first_batch(reader)
    assert numbers == [1, 2]
    with trains.admin() as admin:
        admin.delete_topic("trains")
    with caplog.at_level(logging.WARNING, "sprocketmq.spark"):
        after = ask_until_news(trains, reader, end)
    assert lost(after) == [(ONE, "topic gone", 2, 2)]
    assert "trains/broker-a/0: from offset 2 on, nothing unread was known" in caplog.text
    assert "trains" not in after["q"]
    send(trains, 3)
    last = ask_until_news(trains, reader, after)
    assert (read(reader, after, last), lost(last)) == ([3], [])
    trains.create_topic("trains", queues=1)
    send(trains, 4, topic="trains")
    back = ask_until_news(trains, reader, last)
    assert read(reader, last, back) == [4]


def test_a_topic_made_anew_under_an_old_checkpoint_is_read_from_its_beginning_and_said_so(
    trains: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(trains, *range(5), topic="trains")
    end, _ = first_batch(readers(topics="trains", startingoffsets="earliest"))
    made_anew(trains, 7, 8)
    with pytest.raises(DataLoss, match="trains/broker-a/0: offset 5 is not there, the broker holds 0 to 2"):
        ask(readers(topics="trains"), end)
    after, numbers = next_batch(readers(topics="trains", failondataloss="false"), end)
    assert numbers == [7, 8]
    assert lost(after) == [(ONE, "went back", 5, None)]


def test_a_group_that_is_beyond_a_topic_made_anew_is_a_loss_in_the_first_batch(
    trains: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(trains, *range(5), topic="trains")
    options = {"topics": "trains", "startingoffsets": "group", "group": "delays"}
    reader = readers(**options)
    ask(reader, first_batch(reader)[0])  # commits 5
    made_anew(trains, 7)  # which forgets the group's progress; a restored broker does not
    commit_offsets(Cluster.at(trains.namesrv_addr), "delays", {ONE: 5})
    with pytest.raises(DataLoss, match="offset 5 is not there"):
        first_batch(readers(**options))
    end, numbers = first_batch(readers(**options, failondataloss="false"))
    assert (numbers, lost(end)) == ([7], [(ONE, "went back", 5, None)])


def test_an_unreachable_broker_is_not_a_loss(trains: EmbeddedRocketMQ, readers: Readers) -> None:
    send(trains, 1, topic="trains")
    reader = readers(topics="trains", startingoffsets="earliest", retrytimeoutms="100")
    end, _ = first_batch(reader)
    with trains.faults.fail(STATS, ResponseCode.SYSTEM_BUSY, "no", times=None):
        assert ask(reader, end) == end
    send(trains, 2, topic="trains")
    assert read(reader, end, ask_until_news(trains, reader, end)) == [2]


def test_a_broker_that_is_away_fails_the_stream_when_the_user_says_so(
    trains: EmbeddedRocketMQ, readers: Readers
) -> None:
    reader = readers(topics="trains", startingoffsets="earliest", retrytimeoutms="100", brokerunavailable="fail")
    end, _ = first_batch(reader)
    with trains.faults.fail(STATS, ResponseCode.SYSTEM_BUSY, "no", times=None), pytest.raises(Exception, match="no"):
        ask(reader, end)


def test_a_checkpoint_of_another_topic_is_refused_and_one_with_a_topic_less_is_not(
    trains: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(trains, 1, topic="trains")
    send(trains, 2)
    end, _ = first_batch(readers(topics="flights,trains", startingoffsets="earliest"))
    fewer = readers(topics="trains")
    fewer.prepareForTriggerAvailableNow()
    assert ask(fewer, end) == end
    trains.create_topic("boats", queues=1)
    with pytest.raises(
        ConfigurationError, match="the checkpoint is of topic flights, trains and the query reads boats; use a new"
    ):
        ask(readers(topics="boats"), end)


# -- AvailableNow --------------------------------------------------------------------------------------------------------------


def test_a_bounded_run_does_not_end_before_a_broker_that_was_away_is_read(
    trains: EmbeddedRocketMQ, readers: Readers
) -> None:
    """The topic is gone from the name server, as after a broker's stop: that is no reason to call the run done."""
    send(trains, 1, topic="trains")
    end, _ = first_batch(readers(topics="trains", startingoffsets="earliest"))
    send(trains, 2, topic="trains")
    reader = readers(topics="trains", retrytimeoutms="300")
    Cluster.at(trains.namesrv_addr).routes.forget()  # as old as they are after a while
    route = trains.faults.fail(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST, "no", times=None)
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(NetworkError, match=r"1 queues .* the first is trains/broker-a/0; start their brokers"):
        ask(reader, end)
    route.remove()
    Cluster.at(trains.namesrv_addr).routes.forget()
    after = ask_until_news(trains, reader, end)
    assert read(reader, end, after) == [2]
    send(trains, 3, topic="trains")
    assert ask(reader, after) == after


def test_a_bounded_run_ends_at_what_is_left_of_a_topic_made_anew(trains: EmbeddedRocketMQ, readers: Readers) -> None:
    send(trains, *range(6), topic="trains")
    reader = readers(topics="trains", startingoffsets="earliest", maxoffsetspertrigger="4", failondataloss="false")
    reader.prepareForTriggerAvailableNow()
    end, numbers = first_batch(reader)
    assert numbers == [0, 1, 2, 3]
    made_anew(trains, 7)
    after, numbers = next_batch(reader, end)
    assert numbers == [7]
    assert lost(after) == [(ONE, "went back", 4, None)]
    assert ask(reader, after) == after


def test_a_bounded_run_ends_without_a_topic_that_was_deleted_under_it(
    trains: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(trains, *range(6), topic="trains")
    reader = readers(topics="trains", startingoffsets="earliest", maxoffsetspertrigger="4", failondataloss="false")
    reader.prepareForTriggerAvailableNow()
    end, _ = first_batch(reader)
    with trains.admin() as admin:
        admin.delete_topic("trains")
    after = ask_until_news(trains, reader, end)
    assert lost(after) == [(ONE, "topic gone", 4, 6)]
    assert ask(reader, after) == after


# -- in a task -----------------------------------------------------------------------------------------------------------------


def batch_reader(mq: EmbeddedRocketMQ, **options: str) -> BatchReader:
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topics": "flights,trains", **options})
    return source.reader(source.schema())


def numbers_of(reader: BatchReader, partition: TaskPartition) -> list[int]:
    return sorted(int(body) for batch in reader.read(partition) for body in batch.column("body").to_pylist())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Loss]:
    """What tasks tell the driver."""
    found: list[Loss] = []
    monkeypatch.setattr("sprocketmq.spark.read.reader.add_losses", lambda report, losses: found.extend(losses))
    return found


def test_a_topic_deleted_under_a_task_is_named_and_the_rest_is_read(trains: EmbeddedRocketMQ, told: list[Loss]) -> None:
    send(trains, 1, 2, topic="trains")
    send(trains, 10, 11, 12, 13)
    options = {"maxpartitions": "1"}
    (partition,) = batch_reader(trains, **options).partitions()
    assert isinstance(partition, TaskPartition)
    with trains.admin() as admin:
        admin.delete_topic("trains")
    with pytest.raises(
        DataLoss, match=r"trains/broker-a/0: offsets 0 to 2 \(2 messages\) are missing \(the topic is gone"
    ):
        numbers_of(batch_reader(trains, **options), partition)
    assert numbers_of(batch_reader(trains, **options, failondataloss="false"), partition) == [10, 11, 12, 13]
    assert told == [Loss(ONE, 0, 2, "topic gone")]


def test_offsets_that_went_back_under_a_task_are_named_to_the_end_of_its_range(
    trains: EmbeddedRocketMQ, told: list[Loss]
) -> None:
    send(trains, *range(6), topic="trains")
    options = {"maxpartitions": "1", "retrytimeoutms": "100"}
    (partition,) = batch_reader(trains, **options).partitions()
    assert isinstance(partition, TaskPartition)
    made_anew(trains, 7, 8)
    with pytest.raises(DataLoss, match="offset"):
        numbers_of(batch_reader(trains, **options), partition)
    assert numbers_of(batch_reader(trains, **options, failondataloss="false"), partition) == [7, 8]
    assert told == [Loss(ONE, 2, 6, "went back")]


def test_what_retention_deletes_under_a_task_is_named_and_the_rest_is_read(tmp_path: Path, told: list[Loss]) -> None:
    sizes = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2_000}
    with EmbeddedRocketMQ(clock="system", store_dir=tmp_path, **sizes) as mq, mq.admin() as admin:
        mq.create_topic("trains", queues=1)
        with mq.producer() as producer:
            for number in range(40):
                producer.send(rmq.Message("trains", b"%d" % number + b" " * 4_000))
        (partition,) = batch_of(mq, maxpartitions="1").partitions()
        assert isinstance(partition, TaskPartition)
        admin.update_broker_config({"fileReservedTime": "0"}, broker="broker-a")
        admin.delete_expired_commit_logs()
        mq.wait_until(lambda: admin.min_offset(ONE) > 0)
        low = admin.min_offset(ONE)
        assert low < 40
        assert numbers_of(batch_of(mq, failondataloss="false"), partition) == list(range(low, 40))
    assert told == [Loss(ONE, 0, low, "deleted")]


def test_the_first_task_of_a_batch_reports_messages_lost_before_its_begin(
    trains: EmbeddedRocketMQ, told: list[Loss]
) -> None:
    send(trains, 1, 2, topic="trains")
    start = {"startingoffsets": json.dumps({"trains": {"broker-a": {"0": 9}}})}
    with pytest.raises(DataLoss, match="trains/broker-a/0: offset 9 is not there, the broker holds 0 to 2"):
        batch_reader(trains, **start).partitions()
    reader = batch_reader(trains, **start, failondataloss="false")
    partitions = reader.partitions()
    assert [number for partition in partitions for number in numbers_of(reader, partition)] == [1, 2]  # type: ignore[arg-type]
    assert told == [Loss(ONE, 9, None, "went back")]


# -- a queue whose messages are all gone, though it claims to begin where it did (Apache 4.9) --------------------------------------


@pytest.fixture
def apache_4(trains: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> EmbeddedRocketMQ:
    """A broker that says it is Apache's 4.9."""
    asked = Connection.invoke

    async def invoke(self: Connection, command: Command, *more: Any) -> Command:
        answer = await asked(self, command, *more)
        answer.version, answer.language = Version.V4_9_8, "JAVA"
        return answer

    monkeypatch.setattr(Connection, "invoke", invoke)
    return trains


@pytest.fixture
def ten_gone(apache_4: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first ten messages of a queue are gone, and it says that it begins at 0. Filled with the offsets that are asked for."""
    pulls = queue_reader.read_queue
    asked: list[int] = []

    async def read_queue(
        cluster: Any, address: str, group: str, queue: MessageQueue, offset: int, count: int, **how: Any
    ) -> PullResult:
        asked.append(offset)
        return await pulls(cluster, address, group, queue, max(offset, 10), count, **how)

    for module in (queue_reader, offset_search, parked_pulls, queue_bounds):
        monkeypatch.setattr(module, "read_queue", read_queue)
    return asked


@pytest.fixture
def emptied(apache_4: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> EmbeddedRocketMQ:
    """The five messages of `trains` are gone as a 4.9 broker tells it."""
    send(apache_4, *range(5), topic="trains")
    asked, pulls = Connection.invoke, queue_reader.read_queue

    async def invoke(self: Connection, command: Command, *more: Any) -> Command:
        answer = await asked(self, command, *more)
        if command.code == STATS:
            table = TopicStatsTable.decode(answer.body)
            for offsets in table.offset_table.values():
                offsets.last_update_timestamp = -1
            answer.body = table.encode()
        return answer

    async def read_queue(
        cluster: Any, address: str, group: str, queue: MessageQueue, offset: int, count: int, **how: Any
    ) -> PullResult:
        answer = await pulls(cluster, address, group, queue, offset, count, **how)
        if not answer.body:
            return answer
        return PullResult(PullStatus.NO_MATCHED_MSG, answer.next_begin_offset, 0, answer.max_offset, 0, b"")

    monkeypatch.setattr(Connection, "invoke", invoke)
    for module in (queue_reader, offset_search, parked_pulls, queue_bounds):
        monkeypatch.setattr(module, "read_queue", read_queue)
    return apache_4


def batch_of(mq: EmbeddedRocketMQ, **options: str) -> BatchReader:
    source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "trains", **options})
    return source.reader(source.schema())


def test_a_queue_without_messages_is_empty_at_a_start_and_a_loss_when_a_reader_continues(
    emptied: EmbeddedRocketMQ,
) -> None:
    assert batch_of(emptied).partitions() == []
    with pytest.raises(DataLoss, match=r"offsets 2 to 5 \(3 messages\) are missing, the broker holds 5 to 5 \(deleted"):
        batch_of(emptied, startingoffsets='{"trains":{"broker-a":{"0":2}}}').partitions()


def test_a_queue_of_4_9_begins_at_its_first_message_that_is_there(
    trains: EmbeddedRocketMQ, ten_gone: list[int]
) -> None:
    """New messages have come after all were deleted: the broker says that it holds 0 to 12."""
    send(trains, *range(12), topic="trains")
    assert [entry.ranges for entry in batch_of(trains).partitions()] == [(QueueRange(ONE, 10, 12),)]
    assert len(ten_gone) <= 6, "it is halved"
    with pytest.raises(DataLoss, match=r"offsets 2 to 10 \(8 messages\) are missing, the broker holds 10 to 12"):
        batch_of(trains, startingoffsets='{"trains":{"broker-a":{"0":2}}}').partitions()


def test_a_stream_that_was_away_meanwhile_knows_it_when_it_comes_back(
    trains: EmbeddedRocketMQ, readers: Readers, request: pytest.FixtureRequest
) -> None:
    send(trains, *range(3), topic="trains")
    options = {"topics": "trains", "startingoffsets": "earliest"}
    end, _ = first_batch(readers(**options))
    send(trains, *range(3, 12), topic="trains")
    request.getfixturevalue("ten_gone")
    after = ask(readers(**options, failondataloss="false"), end)
    assert lost(after) == [(ONE, "deleted", 3, 10)]
    assert after["q"] == {"trains": {"broker-a": {"0": 12}}}


def test_a_queue_that_is_emptied_under_a_running_stream_is_a_loss_before_a_task_misses_it(
    trains: EmbeddedRocketMQ, readers: Readers, request: pytest.FixtureRequest
) -> None:
    send(trains, *range(3), topic="trains")
    reader = readers(topics="trains", startingoffsets="earliest", failondataloss="false")
    end, _ = first_batch(reader)
    assert ask(reader, end) == end
    request.getfixturevalue("emptied")  # of these and five more
    assert lost(ask(reader, end)) == [(ONE, "deleted", 3, 8)]


def test_what_a_task_does_not_receive_is_a_loss_even_without_an_answer_that_reports_it(
    emptied: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    planned = TaskPartition((QueueRange(ONE, 1, 5),))
    with pytest.raises(DataLoss, match=r"trains/broker-a/0: offsets 1 to 5 \(4 messages\) are missing"):
        list(batch_of(emptied).read(planned))
    with caplog.at_level(logging.WARNING, "sprocketmq.spark"):
        assert [batch.num_rows for batch in batch_of(emptied, failondataloss="false").read(planned)] == []
    assert "offsets 1 to 5 (4 messages) are missing" in caplog.text

# SPDX-License-Identifier: Apache-2.0
"""The stream reader against a real broker, called as Spark calls it, without a Spark session: what is read and what is committed when."""

from __future__ import annotations

from pathlib import Path

import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import Readers, ask, read, send
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode


def committed(mq: EmbeddedRocketMQ) -> int:
    return sum(mq.consumer_offset("delays", "flights").values())


def test_a_query_that_dies_before_its_first_batch_is_done_reads_the_same_again(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1)
    first = readers(startingoffsets="latest")
    start = first.initialOffset()
    journaled = ask(first, start)
    send(mq, 2, 3)  # between the two attempts: asking for "latest" anew would skip these
    again = readers(startingoffsets="latest")
    assert again.initialOffset() == start
    assert read(again, again.initialOffset(), journaled) == []
    end = ask(again, journaled)
    assert read(again, journaled, end) == [2, 3]


def test_a_batch_is_committed_when_the_next_one_is_asked_for_and_not_before(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays")
    end = ask(reader, reader.initialOffset())
    assert committed(mq) == 0  # the batch may still fail
    assert ask(reader, end) == end
    assert committed(mq) == 3  # with no new batch to follow: lag is 0
    reader.commit(end)
    assert committed(mq) == 3


@pytest.mark.parametrize(("start", "when"), [("latest", "eager"), ("earliest", "lagged")])
def test_the_lag_of_a_stream_whose_first_batch_is_not_done_counts_from_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, when: str
) -> None:
    with EmbeddedRocketMQ(clock="system", store_dir=tmp_path) as mq:
        monkeypatch.setattr("sprocketmq.broker.observe.group_positions.has_first_message", lambda *_: False)
        mq.create_topic("flights", queues=2)
        send(mq, 0, 1)
        source = RocketMQDataSource(
            {
                "namesrvaddr": mq.namesrv_addr,
                "topic": "flights",
                "group": "delays",
                "startingoffsets": start,
                "commitoffsets": when,
            }
        )
        reader = source.streamReader(source.schema())
        begin = reader.initialOffset()
        reader.partitions(begin, ask(reader, begin))
        send(mq, 2, 3, 4)
        waiting = 3 if start == "latest" else 5
        assert lag(mq) == waiting  # and not what was there before the stream began
        assert reader._membership is not None
        reader._membership.stop()
        mq.restart_broker()
        assert lag(mq) == waiting


@pytest.mark.parametrize(("start", "when"), [("latest", "eager"), ("earliest", "lagged")])
def test_a_stream_leaves_the_progress_of_its_group_alone_until_its_first_batch_is_done(
    mq: EmbeddedRocketMQ, readers: Readers, start: str, when: str
) -> None:
    send(mq, *range(6))
    queues = [rmq.MessageQueue("flights", "broker-a", number) for number in (0, 1)]
    with mq.admin() as admin:
        admin.create_group("delays")
        admin.set_consumer_offset("delays", queues[0], 2)  # of an earlier query; the other queue was added later
    given = {"startingoffsets": start, "group": "delays", "commitoffsets": when}
    first = readers(**given)
    end = ask(first, first.initialOffset())
    begin = 3 if start == "latest" else 0
    first.partitions(first.initialOffset(), end)
    with mq.admin() as admin:
        assert [admin.consumer_offset("delays", queue) for queue in queues] == [2, begin]
        admin.set_consumer_offset("delays", queues[1], 1)
        again = readers(**given)
        again.partitions(again.initialOffset(), end)
        assert [admin.consumer_offset("delays", queue) for queue in queues] == [2, 1]
        ask(again, end)
        again.commit(end)
        assert [admin.consumer_offset("delays", queue) for queue in queues] == [3, 3]


def test_a_batch_runs_again_though_the_progress_of_its_group_is_not_told(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1)
    first = readers(startingoffsets="earliest", group="delays")
    journaled = ask(first, first.initialOffset())
    again = readers(startingoffsets="earliest", group="delays")
    with mq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, "not now", times=None):
        assert read(again, again.initialOffset(), journaled) == [0, 1]


def test_the_group_of_a_batch_that_runs_again_is_online(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1)
    first = readers(startingoffsets="earliest", group="delays")
    journaled = ask(first, first.initialOffset())
    assert first._membership is not None
    first._membership.stop()
    again = readers(startingoffsets="earliest", group="delays")
    again.partitions(again.initialOffset(), journaled)  # Spark does not ask for the latest offset before that
    assert again._membership is not None


def lag(mq: EmbeddedRocketMQ) -> int:
    with mq.admin() as admin:
        return admin.lag("delays")


def test_lagged_commits_wait_for_sparks_commit(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays", commitoffsets="lagged")
    end = ask(reader, reader.initialOffset())
    assert ask(reader, end) == end
    assert committed(mq) == 0
    reader.commit(end)
    assert committed(mq) == 3


def test_without_commits_nothing_is_committed_and_nobody_joins_the_group(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays", commitoffsets="off")
    end = ask(reader, reader.initialOffset())
    assert ask(reader, end) == end
    reader.commit(end)
    assert committed(mq) == 0
    with mq.admin() as admin:
        connection = admin.consumer_connection("delays")
    assert connection is None or connection.connection_set == []


@pytest.mark.parametrize("when", ["eager", "lagged"])
def test_a_commit_that_the_broker_refuses_harms_no_batch_and_is_made_up_for(
    mq: EmbeddedRocketMQ, readers: Readers, when: str
) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays", commitoffsets=when)
    end = ask(reader, reader.initialOffset())
    with mq.faults.fail(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, "no", times=None) as refused:
        assert ask(reader, end) == end
        reader.commit(end)
        assert refused.hits
        assert committed(mq) == 0  # asked in here: a refusal does not wait for the other queues' requests to be refused
    ask(reader, end)
    reader.commit(end)
    assert committed(mq) == 3


def test_a_stream_answers_tools_with_its_running_info(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays", tags="UA")
    end = ask(reader, reader.initialOffset())
    ask(reader, end)  # which says that the batch is done
    with mq.admin() as admin:
        (info,) = admin.running_infos("delays").values()
    assert {(entry.topic, entry.sub_string) for entry in info.subscription_set} == {
        ("flights", "UA"),
        ("%RETRY%delays", "*"),
    }
    assert sum(queue.commit_offset for queue in info.mq_table.values()) == 3
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"


def test_a_batch_that_runs_again_is_cut_into_tasks_as_it_was(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, *range(20))
    reader = readers(startingoffsets="earliest", minpartitions="2")
    start = reader.initialOffset()
    end = ask(reader, start)
    planned = list(map(repr, reader.partitions(start, end)))
    assert len(planned) == 2
    for options in ({"minpartitions": "5"}, {"maxpartitions": "1"}, {"ordered": "true", "minpartitions": "2"}):
        again = readers(startingoffsets="earliest", **options)
        assert list(map(repr, again.partitions(start, end))) == planned
    older = {name: value for name, value in end.items() if name != "tasks"}  # as journaled before this was
    assert len(readers(minpartitions="5").partitions(start, older)) == 5


def test_a_stream_that_reads_retries_does_not_begin_beside_another_member_of_its_group(
    mq: EmbeddedRocketMQ, readers: Readers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(mq, 0)
    monkeypatch.setattr("sprocketmq.spark.cluster.membership._LEAVES_S", 0.2)
    given = {"startingoffsets": "earliest", "group": "delays", "retrytimeoutms": "1s"}
    with rmq.PullConsumer("delays", namesrv_addr=mq.namesrv_addr) as other:
        other.subscribe("flights")
        mq.wait_until(lambda: members(mq))
        reader = readers(**given, includeretry="true", commitoffsets="off")
        with pytest.raises(ConfigurationError, match="group 'delays' has another member, .*includeRetry is true"):
            ask(reader, reader.initialOffset())
        assert "the query waits for" in caplog.text
        reader = readers(**given)
        ask(reader, reader.initialOffset())
        assert "group delays has another member" in caplog.text
    reader = readers(**given, includeretry="true", commitoffsets="off")
    ask(reader, reader.initialOffset())
    assert any("@spark-" in name for name in members(mq))


def members(mq: EmbeddedRocketMQ) -> list[str]:
    with mq.admin() as admin:
        return list(admin.running_infos("delays"))

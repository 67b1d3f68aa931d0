# SPDX-License-Identifier: Apache-2.0
"""A broker that is away when a query begins, and returns: its queues begin where they would have begun had it been there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from inproc.spark.as_spark import Readers, ask, first_batch, read, send
from inproc.spark.second_broker import SecondBroker
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read.group_progress import commit_offsets
from sprocketmq.spark.read.new_queues import _CLOCKS_MS
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue

pytestmark = pytest.mark.slow

LATE = MessageQueue("flights", "broker-b", 0)


@pytest.fixture
def late(mq: EmbeddedRocketMQ, tmp_path: Path) -> Iterator[SecondBroker]:
    broker = SecondBroker(mq, tmp_path / "late")
    broker.start()
    with mq.admin() as admin:
        admin.create_topic("flights", queues=1, broker=broker.address)
    broker.send(*range(100, 110))
    stored_ms = mq.clock.now_ms()
    broker.stop()
    mq.wait_until(lambda: mq.clock.now_ms() > stored_ms + _CLOCKS_MS)
    yield broker
    broker.stop()


def all_read(mq: EmbeddedRocketMQ, reader: StreamReader, end: dict[str, object], count: int) -> list[int]:
    """What the batches after ``end`` read, until it is so many."""
    found: list[int] = []

    def enough() -> bool:
        nonlocal end
        after = ask(reader, end)
        found.extend(read(reader, end, after))
        end = after
        return len(found) >= count

    mq.wait_until(enough)
    assert ask(reader, end) == end
    return found


@pytest.mark.parametrize(("which", "is_restarted"), [({}, False), ({"topicspattern": "fl.*"}, True)])
def test_a_stream_that_began_at_the_latest_reads_nothing_old(
    mq: EmbeddedRocketMQ, readers: Readers, late: SecondBroker, which: dict[str, str], is_restarted: bool
) -> None:
    reader = readers(**which)
    end, numbers = first_batch(reader)
    assert numbers == []
    late.start()
    if is_restarted:
        reader = readers(**which)
    assert ask(reader, end) == end
    late.send(1, 2)
    assert all_read(mq, reader, end, 2) == [1, 2]


def test_a_stream_that_began_at_a_time_goes_on_with_the_time(
    mq: EmbeddedRocketMQ, readers: Readers, late: SecondBroker
) -> None:
    options = {"startingtimestamp": str(mq.clock.now_ms()), "startingoffsetsbytimestampstrategy": "latest"}
    end, _ = first_batch(readers(**options))
    late.start()
    late.send(1)
    assert all_read(mq, readers(**options), end, 1) == [1]


@pytest.mark.parametrize(
    ("fallback", "committed", "wanted"),
    [
        ("latest", 7, [107, 108, 109]),
        ("latest", None, []),
        ("error", None, None),
    ],
)
def test_a_stream_that_began_where_its_group_was_asks_for_its_progress(
    mq: EmbeddedRocketMQ,
    readers: Readers,
    late: SecondBroker,
    fallback: str,
    committed: int | None,
    wanted: list[int] | None,
) -> None:
    late.start()
    with mq.admin() as admin:
        admin.create_group("delays")
    cluster = Cluster.at(mq.namesrv_addr)
    here = {MessageQueue("flights", "broker-a", number): 0 for number in (0, 1)}
    commit_offsets(cluster, "delays", {**here, **({LATE: committed} if committed is not None else {})})
    late.stop()
    reader = readers(startingoffsets="group", group="delays", groupoffsetsfallback=fallback)
    end, _ = first_batch(reader)
    late.start()
    late.send(1)
    if wanted is None:
        with pytest.raises(
            ConfigurationError, match="has committed nothing for flights/broker-b/0, whose broker appeared"
        ):
            all_read(mq, reader, end, 1)
    else:
        assert all_read(mq, reader, end, len(wanted) + 1) == sorted([1, *wanted])


def test_a_bounded_run_ends_though_nothing_of_a_late_queue_is_read(
    mq: EmbeddedRocketMQ, readers: Readers, late: SecondBroker
) -> None:
    end, _ = first_batch(readers())
    late.start()
    run = readers(retrytimeoutms="300")
    run.prepareForTriggerAvailableNow()
    assert ask(run, end) == end


def test_a_topic_that_is_added_to_a_query_begins_at_its_first_message(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("trains", queues=1)
    send(mq, 1, 2, topic="trains")
    stored_ms = mq.clock.now_ms()
    mq.wait_until(lambda: mq.clock.now_ms() > stored_ms + _CLOCKS_MS)
    end, _ = first_batch(readers())
    assert all_read(mq, readers(topics="flights,trains"), end, 2) == [1, 2]


@pytest.fixture
def clock_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's clock is a minute ahead of the brokers'."""
    ahead = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep, time=lambda: time.time() + 60)
    monkeypatch.setattr("sprocketmq.spark.read.stream_planner.time", ahead)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_new_topic_of_a_broker_that_was_there_is_read_from_its_first_message_whatever_the_clocks_say(
    mq: EmbeddedRocketMQ, readers: Readers, clock_ahead: None, is_restarted: bool
) -> None:
    options = {"topicspattern": "fleet.*"}
    reader = readers(**options)
    end, _ = first_batch(reader)
    mq.create_topic("fleets", queues=1)
    send(mq, 1, 2, 3, topic="fleets")
    if is_restarted:
        reader = readers(**options)
    assert all_read(mq, reader, end, 3) == [1, 2, 3]


def test_a_topic_that_gets_more_queues_does_not_end_a_stream_that_began_at_its_group(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    with mq.admin() as admin:
        admin.create_group("delays")
        options = {"startingoffsets": "group", "group": "delays", "groupoffsetsfallback": "error"}
        commit_offsets(
            Cluster.at(mq.namesrv_addr), "delays", {MessageQueue("flights", "broker-a", number): 0 for number in (0, 1)}
        )
        reader = readers(**options)
        end, _ = first_batch(reader)
        admin.create_topic("flights", queues=4)
    Cluster.at(mq.namesrv_addr).routes.forget()
    send(mq, *range(8))
    assert sorted(all_read(mq, reader, end, 8)) == list(range(8))


def retry_topic(mq: EmbeddedRocketMQ, *, queues: int) -> None:
    mq.create_topic("%RETRY%delays", queues=queues)
    Cluster.at(mq.namesrv_addr).routes.forget()


def test_a_queue_without_a_commit_is_requested_once(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    retry_topic(mq, queues=1)
    reader = readers(group="delays", includeretry="true")
    end, _ = first_batch(reader)
    asked: Counter[str] = Counter()

    def note(command: Command) -> bool:
        asked[command.ext_fields["topic"]] += 1
        return False

    mq.faults.drop(RequestCode.QUERY_CONSUMER_OFFSET, times=None, when=note)
    retry_topic(mq, queues=6)
    mq.wait_until(lambda: ask(reader, end) == end and bool(asked))
    for _ in range(3):
        assert ask(reader, end) == end
    assert asked == {"%RETRY%delays": 5}
    send(mq, 1, topic="%RETRY%delays")
    assert all_read(mq, reader, end, 1) == [1]


def test_a_broker_that_does_not_report_new_queues_delays_no_other(
    mq: EmbeddedRocketMQ, readers: Readers, late: SecondBroker
) -> None:
    retry_topic(mq, queues=1)
    reader = readers(group="delays", includeretry="true", retrytimeoutms="10s")
    end, _ = first_batch(reader)
    tries: list[Command] = []

    def note(command: Command) -> bool:
        tries.append(command)
        return True

    mq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY, times=None, when=note)
    retry_topic(mq, queues=2)
    send(mq, 1, topic="%RETRY%delays", queue=MessageQueue("%RETRY%delays", "broker-a", 1))
    late.start()
    late.send(2)
    end = ask(reader, end)
    assert "broker-b" in end["q"]["flights"], "its queue is read"
    assert list(end["q"]["%RETRY%delays"]["broker-a"]) == ["0"]
    assert 0 < len(tries) <= 6, "a second of patience, in growing pauses"
    mq.faults.clear()
    assert all_read(mq, reader, end, 1) == [1]

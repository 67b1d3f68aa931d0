# SPDX-License-Identifier: Apache-2.0
"""How often a stream asks its brokers, and what it learns on the way: sizes for ``maxBytesPerTrigger``, times for the lag."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import Readers, ask, first_batch, lag_at, next_batch, read, send
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read import broker_poller, parked_pulls, stream_planner
from sprocketmq.spark.read.offset_search import search_by_time
from sprocketmq.spark.read.queue_bounds import queue_bounds
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import SearchOffsetResponseHeader
from sprocketmq.wire.records.message import MessageQueue

ASKED = (
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.PULL_MESSAGE,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.QUERY_CORRECTION_OFFSET,
)


@pytest.fixture
def asked(mq: EmbeddedRocketMQ) -> Counter[int]:
    """Requests by code, as broker and name server see them."""
    seen: Counter[int] = Counter()

    def note(command: Command) -> bool:
        seen[command.code] += 1
        return False

    mq.faults.drop(ASKED, times=None, when=note)
    return seen


@pytest.fixture
def fast_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock for stream readers that moves when they sleep."""
    now = SimpleNamespace(s=1000.0)

    def sleep(seconds: float) -> None:
        now.s += seconds

    clock = SimpleNamespace(monotonic=lambda: now.s, sleep=sleep, time=lambda: now.s)
    monkeypatch.setattr("sprocketmq.spark.read.stream_planner.time", clock)
    monkeypatch.setattr("sprocketmq.spark.read.broker_poller.time", clock)
    monkeypatch.setattr("sprocketmq.spark.read.unchanged_topics.time", clock)
    monkeypatch.setattr(
        stream_planner.StreamPlanner, "_park", lambda reader, bounds: None
    )  # brokers have another clock
    return sleep


def test_a_source_beside_others_answers_soon_that_it_has_nothing(
    mq: EmbeddedRocketMQ, readers: Readers, fast_forward: Callable[[float], None]
) -> None:
    """Spark asks one after the other, and a message of one source does not end the wait of another."""
    limit = readers().getDefaultReadLimit()
    sources = {source: source.latestOffset(source.initialOffset(), limit) for source in (readers() for _ in range(6))}

    def turn() -> list[bool]:
        """Which sources have news."""
        fast_forward(0.011)
        return [source.latestOffset(end, limit) != end for source, end in sources.items()]

    turn()
    began_s = stream_planner.time.monotonic()
    for _ in range(20):
        assert not any(turn())
    assert stream_planner.time.monotonic() - began_s < 20 * 0.09  # on the test's own clock
    send(mq, 7)
    found = [False] * len(sources)
    while not all(found):
        found = [known or is_new for known, is_new in zip(found, turn(), strict=True)]


def test_a_source_that_is_alone_asks_its_broker_before_it_answers_that_it_has_nothing(
    mq: EmbeddedRocketMQ, readers: Readers, asked: Counter[int], fast_forward: Callable[[float], None]
) -> None:
    """So processAllAvailable sees what was sent before, on a busy machine, too."""
    reader = readers()
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    for turn in range(20):
        fast_forward(0.03 if turn == 10 else 0.011)  # the machine is busy
        before = asked[RequestCode.GET_TOPIC_STATS_INFO]
        assert reader.latestOffset(end, limit) == end
        assert asked[RequestCode.GET_TOPIC_STATS_INFO] > before or turn < 3  # it does not know yet


@pytest.mark.parametrize(("options", "numbers"), [({}, []), ({"waitforretries": "15s"}, [[100], [101]])])
def test_an_available_now_run_waits_for_retries_if_it_is_told_to(
    mq: EmbeddedRocketMQ,
    readers: Readers,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    numbers: list[list[int]],
) -> None:
    """The second comes 10 s after the first, the third too late."""
    now = SimpleNamespace(s=1000.0)
    due = {1010.0: 100, 1020.0: 101, 1040.0: 102}

    def sleep(seconds: float) -> None:
        now.s += seconds
        for at in [at for at in due if at <= now.s]:
            send(mq, due.pop(at), topic="%RETRY%delays")

    clock = SimpleNamespace(monotonic=lambda: now.s, sleep=sleep, time=time.time)
    monkeypatch.setattr("sprocketmq.spark.read.stream_planner.time", clock)
    send(mq, 1)
    reader = readers(startingoffsets="earliest", group="delays", includeretry="true", **options)
    reader.prepareForTriggerAvailableNow()
    end, first = first_batch(reader)
    assert first == [1]
    found = []
    while (after := ask(reader, end)) != end:
        found.append(read(reader, end, after))
        end = after
    assert [batch for batch in found if batch] == numbers


def test_a_message_ends_the_wait_of_an_idle_stream(
    mq: EmbeddedRocketMQ, readers: Readers, asked: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = readers(startingoffsets="earliest")
    end, _ = first_batch(reader)
    for name in ("_IDLE_WAIT_S", "_LONGEST_WAIT_S"):
        monkeypatch.setattr(stream_planner, name, 600.0)
    monkeypatch.setattr(broker_poller, "_FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(broker_poller, "_LONGEST_PAUSE_S", 600.0)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(next_batch, reader, end)
        mq.wait_until(lambda: asked[RequestCode.PULL_MESSAGE] >= 2)  # parked, one for each queue
        send(mq, 7)
        assert found.result(60)[1] == [7]


def test_a_message_that_no_batch_takes_does_not_wake_its_stream_again(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked_pulls, "_UNREAD_S", 600.0)
    send(mq, 7)
    (stored,) = mq.messages("flights")
    ends = {MessageQueue("flights", stored.broker_name, stored.queue_id): 0}
    pulls = parked_pulls.ParkedPulls(Cluster.at(mq.namesrv_addr), "delays")
    pulls.park(ends)
    assert pulls.wait(60)
    pulls.park(ends)
    assert not pulls._parked
    pulls.planned()
    pulls.park(ends)
    assert pulls.wait(60)


def test_a_large_stream_and_one_whose_broker_refuses_only_poll(mq: EmbeddedRocketMQ) -> None:
    pulls = parked_pulls.ParkedPulls(Cluster.at(mq.namesrv_addr), "delays")
    ends = {MessageQueue("flights", "broker-a", queue_id): 0 for queue_id in range(65)}
    pulls.park(ends)
    assert not pulls._parked
    one = dict([*ends.items()][:1])
    with mq.faults.fail(RequestCode.PULL_MESSAGE, ResponseCode.SYSTEM_ERROR, times=None):
        pulls.park(one)
        mq.wait_until(lambda: not pulls._parked)
        pulls.park(one)
        assert not pulls._parked


@pytest.mark.parametrize("which", [{}, {"topicspattern": "fl.*"}])
def test_an_idle_stream_asks_its_brokers_a_few_times_a_second_however_often_spark_asks_it(
    mq: EmbeddedRocketMQ,
    readers: Readers,
    asked: Counter[int],
    fast_forward: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    which: dict[str, str],
) -> None:
    reader = readers(**which)
    end, _ = first_batch(reader)
    asked.clear()
    clock_s = stream_planner.time.monotonic
    begun_s = clock_s()
    while clock_s() < begun_s + 20:
        assert ask(reader, end) == end
        fast_forward(0.011)  # as soon as Spark asks again
    stats, names = asked[RequestCode.GET_TOPIC_STATS_INFO], asked[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER]
    assert stats <= 20 / (0.25 * 0.75) + 5
    assert names <= 20 / (2 * 0.8) + 1
    send(mq, 1)
    assert next_batch(reader, end)[1] == [1]


@pytest.mark.parametrize(
    ("options", "most"),
    [({"group": "delays"}, 12), ({}, 60), ({"group": "delays", "commitoffsets": "off"}, 60)],
    ids=["group", "no group", "no progress"],
)
def test_an_idle_stream_of_many_topics_asks_its_broker_one_question_for_all(
    mq: EmbeddedRocketMQ,
    readers: Readers,
    asked: Counter[int],
    fast_forward: Callable[[float], None],
    options: dict[str, str],
    most: int,
) -> None:
    """With a group that commits its progress; without, the questions are spread."""
    names = [f"many-{number}" for number in range(120)]
    for name in names:
        mq.create_topic(name, queues=1)
    reader = readers(startingoffsets="earliest", topics=",".join(names), **options)
    end, _ = first_batch(reader)
    clock_s = stream_planner.time.monotonic
    begun_s = clock_s()
    while clock_s() < begun_s + 10:  # the pauses grow
        assert ask(reader, end) == end
    asked.clear()
    begun_s = clock_s()
    while clock_s() < begun_s + 20:
        assert ask(reader, end) == end
    at_broker = sum(asked.values()) - asked[RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert 0 < at_broker / 20 < most
    # A topic that gets a message is found by the next poll, and it alone is asked about.
    asked.clear()
    send(mq, 7, topic="many-77")
    reader._planner.poller.interval.due_s = 0.0
    assert next_batch(reader, end)[1] == [7]
    if most == 12:
        assert (asked[RequestCode.GET_CONSUME_STATS], asked[RequestCode.GET_TOPIC_STATS_INFO]) == (1, 1)


def test_a_broker_that_does_not_say_what_is_unchanged_is_asked_topic_by_topic(
    mq: EmbeddedRocketMQ, readers: Readers, asked: Counter[int], fast_forward: Callable[[float], None]
) -> None:
    names = [f"many-{number}" for number in range(9)]
    for name in names:
        mq.create_topic(name, queues=1)
    reader = readers(startingoffsets="earliest", topics=",".join(names), group="delays")
    end, _ = first_batch(reader)
    with mq.faults.fail(RequestCode.GET_CONSUME_STATS, ResponseCode.NO_PERMISSION, times=None) as refused:
        for _ in range(20):
            assert ask(reader, end) == end
        assert refused.hits == 1
        send(mq, 7, topic="many-7")
        assert next_batch(reader, end)[1] == [7]


def test_a_queue_that_is_not_begun_is_told_with_where_it_begins(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    reader = readers(startingoffsets="earliest", topicspattern="flights.*")
    send(mq, 0)
    reader.prepareForTriggerAvailableNow()
    end, _ = first_batch(reader)
    mq.create_topic("flights-later", queues=1)
    send(mq, 1, 2, topic="flights-later")
    reader._planner.poller._topics_until_s = 0.0
    assert ask(reader, end) == end  # a bounded run does not begin it
    said = reader.reportLatestOffset()
    assert said is not None
    assert list(said["begins"]) == ["flights-later"]
    assert sum(lag_at(reader, end).by_queue.values()) == 2


def test_old_routes_of_other_topics_are_not_used(mq: EmbeddedRocketMQ) -> None:
    cluster = Cluster.at(mq.namesrv_addr)
    now = cluster.run(lambda: cluster.routes.recent("flights"))
    assert now is not None
    (broker,) = now.broker_datas
    moved = msgspec.structs.replace(broker, broker_addrs={0: "127.0.0.1:1"})
    cluster.routes.forget()
    cluster.routes.table.update("away", msgspec.structs.replace(now, broker_datas=[moved]))
    for topic in ("flights", None):
        found = cluster.run(lambda topic=topic: cluster.master(broker.broker_name, topic))  # type: ignore[misc]
        assert found == mq.broker_addr


def test_a_batch_holds_about_as_many_bytes_as_it_may(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("flights", queues=1)
    with mq.producer() as producer:
        for _ in range(40):
            producer.send(rmq.Message("flights", b"7" * 1000))
    reader = readers(startingoffsets="earliest", maxbytespertrigger="12000")
    end, numbers = first_batch(reader)
    assert 8 <= len(numbers) <= 12
    while (after := ask(reader, end)) != end:
        batch = read(reader, end, after)
        assert 1 <= len(batch) <= 12
        numbers += batch
        end = after
    assert len(numbers) == 40


def test_the_minimum_of_a_trigger_waits_and_its_maximum_still_applies(
    mq: EmbeddedRocketMQ, readers: Readers, fast_forward: Callable[[float], None]
) -> None:
    reader = readers(
        startingoffsets="earliest", minoffsetspertrigger="6", maxoffsetspertrigger="8", maxtriggerdelay="30s"
    )
    end, _ = first_batch(reader)
    send(mq, *range(5))
    assert ask(reader, end) == end
    assert sum(lag_at(reader, end).by_queue.values()) == 5  # lag is told while messages wait
    send(mq, *range(5, 15))
    end, numbers = next_batch(reader, end)
    assert len(numbers) == 8
    end, more = next_batch(reader, end)
    assert sorted(numbers + more) == list(range(15))
    send(mq, 99)
    assert ask(reader, end) == end
    fast_forward(31)
    assert next_batch(reader, end)[1] == [99]


def test_lag_in_time_is_the_age_of_what_a_batch_leaves(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    mq.create_topic("flights", queues=1)
    send(mq, 0, 1)
    cut_ms = mq.messages("flights")[-1].store_timestamp_ms + 20
    mq.wait_until(lambda: mq.clock.now_ms() >= cut_ms)
    send(mq, 2)
    stored = [message.store_timestamp_ms for message in mq.messages("flights")]
    reader = readers(startingoffsets="earliest", maxoffsetspertrigger="1")
    end, _ = first_batch(reader)
    lag = lag_at(reader, end)
    queue = MessageQueue("flights", "broker-a", 0)
    assert (lag.by_queue, lag.ms_by_queue) == ({queue: 2}, {queue: stored[2] - stored[1]})
    assert lag.oldest_unread_ms == stored[1]
    end = ask(reader, end)
    end = ask(reader, end)
    lag = lag_at(reader, end)
    assert (lag.by_queue, lag.ms_by_queue, lag.oldest_unread_ms) == ({queue: 0}, {}, None)


# -- starts by time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["exact", "before", "after", "first", "last", "beyond"])
def test_a_time_is_found_exactly_whatever_message_near_it_the_broker_names(
    mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """A 4.9 broker names the nearest message, or any of the same millisecond."""
    mq.create_topic("flights", queues=1)
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(50)])
        cut_ms = mq.messages("flights")[-1].store_timestamp_ms + 5
        mq.wait_until(lambda: mq.clock.now_ms() >= cut_ms)
        producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(50, 100)])
    stored = [message.store_timestamp_ms for message in mq.messages("flights")]
    queue = MessageQueue("flights", "broker-a", 0)
    cluster = Cluster.at(mq.namesrv_addr)
    real = cluster.ask_queue
    bounds = queue_bounds(cluster, [queue])

    async def near(asked: Any, queue: MessageQueue, *, at: str | None = None, timestamp: int) -> Any:
        exact = (await real(asked, queue, at=at, timestamp=timestamp)).offset
        shifted = {"exact": exact, "before": exact - 40, "after": exact + 40, "first": 0, "last": 99, "beyond": 100}[
            answer
        ]
        return SearchOffsetResponseHeader(offset=min(max(shifted, -1), 101))

    monkeypatch.setattr(cluster, "ask_queue", near)
    for time_ms in sorted({stored[0] - 1, stored[0], stored[50] - 1, stored[50], stored[99]}):
        expected = next(offset for offset, stored_ms in enumerate(stored) if stored_ms >= time_ms)
        assert cluster.run(partial(search_by_time, cluster, bounds, {queue: time_ms}, "delays")) == {queue: expected}
    assert cluster.run(lambda: search_by_time(cluster, bounds, {queue: stored[99] + 1}, "delays")) == {}
    assert asking_an_empty_queue(cluster, mq) == {}


def asking_an_empty_queue(cluster: Cluster, mq: EmbeddedRocketMQ) -> dict[MessageQueue, int]:
    mq.create_topic("empty", queues=1)
    queue = MessageQueue("empty", "broker-a", 0)
    bounds = queue_bounds(cluster, [queue])
    return cluster.run(lambda: search_by_time(cluster, bounds, {queue: 1}, "delays"))


def test_each_queue_starts_at_its_own_time(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, *range(6))
    messages = mq.messages("flights")
    first = min(messages, key=lambda message: message.store_timestamp_ms)
    late_ms = max(message.store_timestamp_ms for message in messages) + 1
    other = 1 - first.queue_id
    times = f'{{"flights":{{"broker-a":{{"{first.queue_id}":{first.store_timestamp_ms},"{other}":{late_ms}}}}}}}'
    reader = readers(startingoffsetsbytimestamp=times, startingoffsetsbytimestampstrategy="latest")
    wanted = sorted(int(message.body) for message in messages if message.queue_id == first.queue_id)
    assert first_batch(reader)[1] == wanted


def test_a_lookup_that_is_not_due_does_not_block(
    mq: EmbeddedRocketMQ, readers: Readers, asked: Counter[int], fast_forward: Callable[[float], None]
) -> None:
    """With four hundred topics looks are two seconds apart, and the query's other sources want to be asked in between."""
    reader = readers()
    end, _ = first_batch(reader)
    clock_s, interval = stream_planner.time.monotonic, reader._planner.poller.interval
    interval.lengthen(clock_s(), 1.0, 2.0)
    interval.due_s = clock_s() + 2.0
    asked.clear()
    begun_s = clock_s()
    assert ask(reader, end) == end
    assert 0.15 < clock_s() - begun_s < 0.25, "on the test's own clock"
    assert asked[RequestCode.GET_TOPIC_STATS_INFO] == 0
    send(mq, 1)
    for _ in range(12):
        after = ask(reader, end)
        if after != end:
            break
    assert read(reader, end, after) == [1]

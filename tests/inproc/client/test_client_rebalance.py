# SPDX-License-Identifier: Apache-2.0
"""Members of a group share the queues: no overlap, none left, take-over when one leaves or dies; progress and where it begins."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from recorder import QUEUE, Held, Recorder, noted, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.client.consume import rebalancer
from sprocketmq.client.consume.rebalancer import Rebalancer
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.core.consume.consume_progress import OFFSET_UNKNOWN
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import PULLS, EmbeddedRocketMQ
from sprocketmq.wire import bodies
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers import UpdateConsumerOffsetRequestHeader

LAST = rmq.ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


def _queues(consumer: rmq.PushConsumer, topic: str = "flights") -> list[int]:
    return [queue.queue_id for queue in consumer.assigned_queues if queue.topic == topic]


def _shared(members: list[rmq.PushConsumer], count: int) -> bool:
    parts = [_queues(member) for member in members]
    return sorted(itertools.chain(*parts)) == list(range(count)) and all(parts)


def test_a_member_that_leaves_is_replaced_at_once(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=4)
    first, second = Recorder(), Recorder()
    one, two = consumers(first), consumers(second)
    rocketmq.advance_until(lambda: _shared([one, two], 4))
    send_all(producer, [str(n) for n in range(40)])
    rocketmq.wait_until(lambda: len(first) + len(second) == 40)
    one.shutdown()
    # The broker says so (NOTIFY_CONSUMER_IDS_CHANGED): no 20 s go by.
    rocketmq.advance_until(lambda: _queues(two) == [0, 1, 2, 3], limit_ms=15_000, patience_ms=100)
    send_all(producer, [str(n) for n in range(40, 80)])
    rocketmq.wait_until(lambda: len(first) + len(second) == 80)
    assert sorted(first.bodies + second.bodies, key=int) == [
        str(n) for n in range(80)
    ]  # nothing twice: progress was written


def test_new_queues_are_found_and_new_topics_waited_for(rocketmq, admin, producer, consumers):
    recorder = Recorder()
    consumer = consumers(recorder, topic="weather")  # the topic does not exist yet
    assert _queues(consumer, "weather") == []
    rocketmq.create_topic("weather", queues=2)
    # Looked for each second; the broker first hears of us by this topic's route, before the next heartbeat is due.
    rocketmq.advance_until(lambda: _queues(consumer, "weather") == [0, 1], limit_ms=15_000, patience_ms=100)
    admin.create_topic("weather", queues=4)
    rocketmq.advance_until(lambda: _queues(consumer, "weather") == [0, 1, 2, 3])
    send_all(producer, [str(n) for n in range(8)], topic="weather")
    rocketmq.wait_until(lambda: len(recorder) == 8)


def test_unsubscribing_gives_the_queues_up_and_subscribing_takes_them(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    rocketmq.create_topic("weather", queues=1)
    recorder = Recorder()
    consumer = consumers(recorder)
    consumer.subscribe("weather")
    rocketmq.advance_until(lambda: any(queue.topic == "weather" for queue in consumer.assigned_queues), patience_ms=200)
    producer.send(rmq.Message("weather", b"rain"))
    rocketmq.wait_until(lambda: recorder.bodies == ["rain"])
    consumer.unsubscribe("flights")
    rocketmq.advance_until(lambda: _queues(consumer) == [], patience_ms=200)


def test_progress_is_persisted_every_5_s_and_never_goes_back(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    recorder = Recorder()
    consumer = consumers(recorder)
    first, second = (rmq.MessageQueue("flights", "broker-a", queue_id) for queue_id in range(2))
    written: dict[int, list[int]] = {0: [], 1: []}

    def look(command: Command) -> bool:
        header = command.header(UpdateConsumerOffsetRequestHeader)
        if header.topic == "flights":
            written[header.queue_id].append(header.commit_offset)
        return False

    def all_ended(count: int) -> bool:
        held = consumer.process_queues
        return len(recorder) == count and held[first].count == held[second].count == 0

    rocketmq.faults.drop(RequestCode.UPDATE_CONSUMER_OFFSET, times=None, when=look)
    send_all(producer, [str(n) for n in range(5)], queue=first)
    send_all(producer, ["of the second"], queue=second)
    rocketmq.wait_until(lambda: all_ended(6))
    rocketmq.advance(10_000)
    rocketmq.wait_until(lambda: rocketmq.consumer_offset("delays", "flights") == {0: 5, 1: 1})
    for n in range(5, 10):
        send_all(producer, [str(n)], queue=first)
        send_all(producer, [str(n)], queue=second)
        rocketmq.wait_until(lambda n=n: all_ended(2 * n - 2))
        rocketmq.advance(5_000)
        rocketmq.wait_until(lambda n=n: rocketmq.consumer_offset("delays", "flights") == {0: n + 1, 1: n - 3})
    assert written == {0: [*range(5, 11)], 1: [*range(1, 7)]}, "once each 5 s, not with each message"


def test_a_pull_commits_what_is_finished_and_not_what_was_pulled(rocketmq, producer, consumers):
    recorder = Held(b"runs")
    consumer = consumers(recorder)
    send_all(producer, ["done"])
    rocketmq.wait_until(lambda: len(recorder) == 1 and consumer.process_queues[QUEUE].commit_offset == 1)
    send_all(producer, ["runs"])
    rocketmq.wait_until(lambda: len(recorder) == 2)
    pulls = noted(
        rocketmq,
        PULLS,
        lambda command: (command.ext_fields["queueOffset"], command.ext_fields["commitOffset"]),
        topic="flights",
    )
    send_all(producer, ["last"])
    rocketmq.wait_until(lambda: pulls and pulls[-1] == ("3", "1"))
    recorder.release.set()


def test_a_restarted_group_goes_on_where_it_stopped(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    first, second = Recorder(), Recorder()
    one = consumers(first)
    send_all(producer, [str(n) for n in range(10, 17)], queue=rmq.MessageQueue("flights", "broker-a", 0))
    send_all(producer, [str(n) for n in range(17, 30)], queue=rmq.MessageQueue("flights", "broker-a", 1))
    rocketmq.wait_until(lambda: len(first) == 20)
    one.shutdown()
    assert rocketmq.consumer_offset("delays", "flights") == {0: 7, 1: 13}
    send_all(producer, [str(n) for n in range(30, 40)])
    consumers(second)
    rocketmq.wait_until(lambda: len(second) == 10)
    assert sorted(second.bodies) == [str(n) for n in range(30, 40)]
    other = Recorder()
    consumers(other, group="other")
    rocketmq.wait_until(lambda: len(other) == 30)  # another group has progress of its own


def _old_topic(rocketmq: EmbeddedRocketMQ, producer: rmq.Producer) -> None:
    """A topic whose first message is older than the last hour, so that no broker takes it for young."""
    send_all(producer, ["old"])
    rocketmq.advance(3_600_000)
    send_all(producer, ["newer"])


@pytest.mark.parametrize(
    ("where", "given_s", "expected"),
    [
        ("FIRST_OFFSET", None, ["old", "newer", "29 minutes old", "now"]),
        ("TIMESTAMP", None, ["29 minutes old", "now"]),  # half an hour ago
        ("TIMESTAMP", 32 * 60, ["newer", "29 minutes old", "now"]),
    ],
)
def test_a_new_group_begins_where_it_is_told(rocketmq, producer, consumers, where, given_s, expected):
    _old_topic(rocketmq, producer)
    rocketmq.advance(2 * 60_000)
    send_all(producer, ["29 minutes old"])
    rocketmq.advance(29 * 60_000)
    # The broker itself answers 0 for a queue that begins at 0 and is still in memory; here it says "not found".
    rocketmq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, 22, times=None)
    options: dict[str, Any] = {"consume_from_where": f"CONSUME_FROM_{where}"}
    if given_s is not None:
        at = datetime.fromtimestamp(rocketmq.clock.now_ms() // 1000 - given_s, tz=UTC).astimezone()
        options["consume_timestamp"] = at.strftime("%Y%m%d%H%M%S")
    recorder = Recorder()
    consumers(recorder, **options)
    send_all(producer, ["now"])
    rocketmq.wait_until(lambda: recorder.bodies == expected)


def test_from_last_offset_skips_what_is_there_and_nothing_that_comes(rocketmq, producer, consumers):
    _old_topic(rocketmq, producer)
    fault = rocketmq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, 22, times=None)
    first, second = Recorder(), Recorder()
    one = consumers(first, consume_from_where=LAST)
    assert _queues(one) == [0]
    one.shutdown()
    fault.remove()
    # It consumed nothing, but its start was recorded: the next member does not compute a later one.
    send_all(producer, ["between"])
    consumers(second, consume_from_where=LAST)
    send_all(producer, ["now"])
    rocketmq.wait_until(lambda: second.bodies == ["between", "now"])
    assert first.bodies == []


def test_an_unknown_stored_offset_is_waited_for_not_guessed(rocketmq, producer, consumers):
    first, second = Recorder(), Recorder()
    one = consumers(first)
    send_all(producer, ["0", "1"])
    rocketmq.wait_until(lambda: len(first) == 2)
    one.shutdown()
    fault = rocketmq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, 1, times=None)
    two = consumers(second)
    assert _queues(two) == []
    fault.remove()
    running = parts_of(two)
    nowhere = rmq.MessageQueue("flights", "broker-x", 0)  # no route names its broker: that says nothing about progress
    assert Engine.shared().run(running.offset_store.read(nowhere)) == OFFSET_UNKNOWN
    send_all(producer, ["2"])
    rocketmq.advance_until(lambda: len(second) == 1)
    assert second.bodies == ["2"]


def test_a_start_that_cannot_be_computed_is_waited_for_not_guessed(rocketmq, producer, consumers):
    _old_topic(rocketmq, producer)
    rocketmq.faults.fail(RequestCode.QUERY_CONSUMER_OFFSET, 22, times=None)
    fault = rocketmq.faults.fail(RequestCode.GET_MAX_OFFSET, 1, times=None)
    recorder = Recorder()
    consumer = consumers(recorder, consume_from_where=LAST)
    assert _queues(consumer) == []
    assert fault.hits
    fault.remove()
    rocketmq.advance_until(lambda: _queues(consumer) == [0])
    send_all(producer, ["now"])
    rocketmq.wait_until(lambda: recorder.bodies == ["now"])


def test_broadcasting_gives_every_member_everything_and_keeps_progress_in_a_file(
    rocketmq, producer, consumers, tmp_path
):
    rocketmq.create_topic("flights", queues=2)
    options: dict[str, Any] = {
        "message_model": rmq.MessageModel.BROADCASTING,
        "local_offset_store_dir": str(tmp_path),
    }
    first, second = Recorder(), Recorder()
    one = consumers(first, instance_name="one", **options)
    consumers(second, instance_name="two", **options)
    send_all(producer, [str(n) for n in range(10)])
    rocketmq.wait_until(lambda: len(first) == len(second) == 10)
    one.shutdown()

    (file,) = tmp_path.glob("*@one/delays/offsets.json")
    offsets = bodies.OffsetSerializeWrapper.decode(file.read_bytes()).offset_table
    assert sum(offsets.values()) == 10
    assert rocketmq.consumer_offset("delays", "flights") == {}


def test_retries_that_wait_are_not_skipped_by_a_group_that_begins_at_the_end(producer, consumers, rocketmq):
    failing = consumers(Recorder(lambda message: 1 / 0), consume_from_where=LAST)
    rocketmq.advance_until(lambda: len(failing.assigned_queues) == 2)
    send_all(producer, ["a0"])
    rocketmq.wait_until(lambda: len(rocketmq.messages("SCHEDULE_TOPIC_XXXX")) == 1)
    failing.shutdown()
    rocketmq.advance_until(lambda: len(rocketmq.messages("%RETRY%delays")) == 1)  # while nobody is there
    # Nothing is known of the retry topic: the messages in it belong to this very group all the same.
    rocketmq.faults.fail(
        RequestCode.QUERY_CONSUMER_OFFSET,
        22,
        times=None,
        when=lambda command: command.ext_fields["topic"] == "%RETRY%delays",
    )
    recorder = Recorder()
    consumers(recorder, consume_from_where=LAST)
    rocketmq.advance_until(lambda: recorder.bodies == ["a0"])
    assert recorder.times == [1]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, ["old", "newer", "now"]),
        (LAST, ["now"]),
        (rmq.ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, ["newer", "now"]),
    ],
)
def test_broadcasting_begins_where_it_is_told_and_goes_on_from_its_file(
    rocketmq, producer, consumers, tmp_path, where, expected
):
    send_all(producer, ["old"])
    rocketmq.advance(40 * 60_000)
    send_all(producer, ["newer"])
    options = {
        "message_model": rmq.MessageModel.BROADCASTING,
        "local_offset_store_dir": str(tmp_path),
        "instance_name": "one",
        "consume_from_where": where,
    }
    recorder = Recorder()
    consumer = consumers(recorder, **options)
    rocketmq.advance_until(lambda: len(consumer.assigned_queues) == 1)
    send_all(producer, ["now"])
    rocketmq.wait_until(lambda: recorder.bodies == expected)
    consumer.shutdown()
    send_all(producer, ["between"])
    again = Recorder()
    consumers(again, **options)
    rocketmq.wait_until(lambda: again.bodies == ["between"])


def test_a_consumer_that_cannot_reach_a_name_server_says_which_and_leaves_nothing(rocketmq):
    engine, before = Engine("client-under-test"), set(ClientInstance._instances)
    consumer = rmq.PushConsumer("delays", namesrv_addr="127.0.0.1:1", engine=engine)
    consumer.subscribe("flights")
    consumer.on_message(print)
    with pytest.raises(rmq.ConnectFailed, match="127.0.0.1:1"):
        consumer.start()

    async def tasks() -> list[str]:
        await asyncio.sleep(0)
        return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert engine.run(tasks()) == []
    assert set(ClientInstance._instances) == before
    engine.close()


@pytest.mark.parametrize("limit", [None, 1], ids=["few topics", "more topics than are taken up at a time"])
def test_a_topic_that_cannot_be_rebalanced_keeps_no_other_from_it(rocketmq, consumers, monkeypatch, limit):
    if limit is not None:
        monkeypatch.setattr("sprocketmq.client.consume.rebalancer._TOPICS_AT_ONCE", limit)
    for topic in ("arrivals", "flights", "weather"):
        rocketmq.create_topic(topic, queues=1)
    consumer = consumers(Recorder())
    running = parts_of(consumer)
    allocate, at_once, most_at_once = running.rebalancer._allocate, 0, 0

    async def counted(topic: str) -> Any:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        try:
            return await allocate(topic)
        finally:
            at_once -= 1

    running.rebalancer._allocate = counted  # type: ignore[method-assign]
    fault = rocketmq.faults.fail(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        1,
        times=None,
        when=lambda command: command.ext_fields.get("topic") == "arrivals",
    )
    consumer.subscribe("arrivals")
    consumer.subscribe("weather")

    def topics() -> set[str]:
        return {queue.topic for queue in consumer.assigned_queues if not queue.topic.startswith("%RETRY%")}

    rocketmq.advance_until(lambda: topics() == {"flights", "weather"})
    assert fault.hits
    fault.remove()
    rocketmq.advance_until(lambda: topics() == {"arrivals", "flights", "weather"})
    if limit is None:
        assert 1 < most_at_once <= 16, "several topics at a time"
    else:
        assert most_at_once == limit


def test_a_member_that_the_broker_does_not_list_keeps_its_queues_and_takes_no_others(rocketmq, consumers, monkeypatch):
    rocketmq.create_topic("flights", queues=4)
    rocketmq.create_topic("weather", queues=4)
    consumer = consumers(Recorder())
    running = parts_of(consumer)
    asked: list[str] = []

    async def others(cluster: object, address: str, group: str) -> list[str]:
        asked.append(group)
        return ["10.0.0.1@somebody"]

    heartbeat = running.instance.heartbeats.send_to

    async def told(address: str) -> None:
        asked.append("heartbeat")
        await heartbeat(address)

    running.instance.heartbeats.send_to = told
    monkeypatch.setattr(rebalancer, "consumer_ids", others)
    consumer.subscribe("weather")
    consumer.rebalance_now()
    assert asked[:3] == ["delays", "heartbeat", "delays"], "twice in a round: it says who it is in between"
    assert {queue.topic for queue in consumer.assigned_queues} - {"%RETRY%delays"} == {"flights"}
    assert _queues(consumer) == [0, 1, 2, 3]
    monkeypatch.undo()
    consumer.rebalance_now()
    assert len([queue for queue in consumer.assigned_queues if queue.topic == "weather"]) == 4


def test_a_strategy_that_fails_takes_nothing_away_and_is_asked_again(rocketmq, producer, consumers, caplog):
    rocketmq.create_topic("flights", queues=4)
    answers: dict[str, Any] = {"fails": None}

    def even(group: str, client_id: str, queues: Any, client_ids: Any) -> Any:
        if answers["fails"] is not None:
            raise answers["fails"]
        return [queue for queue in queues if queue.queue_id in answers["wanted"]]

    answers["wanted"] = {0, 2}
    recorder = Recorder()
    consumer = consumers(recorder, allocate_strategy=even)
    assert _queues(consumer) == [0, 2]
    answers["fails"] = ZeroDivisionError("no members to divide by")
    for _ in range(3):
        consumer.rebalance_now()
    assert _queues(consumer) == [0, 2]
    said = [record for record in caplog.records if "strategy even failed" in record.getMessage()]
    assert len(said) == 1, "once, not every second and for each topic"
    answers.update(fails=None, wanted={1})
    consumer.rebalance_now()
    assert _queues(consumer) == [1]
    producer.send(rmq.Message("flights", b"x"), queue=rmq.MessageQueue("flights", "broker-a", 1))
    rocketmq.wait_until(lambda: recorder.bodies == ["x"])


def test_strategies_with_arguments_are_options(rocketmq, consumers):
    rocketmq.create_topic("flights", queues=4)
    rocketmq.create_topic("weather", queues=1)
    fixed = [rmq.MessageQueue("flights", "broker-a", number) for number in (1, 3)]
    by_config = consumers(Recorder(), group="by-config", allocate_strategy="CONFIG", allocate_queues=fixed)
    assert by_config.assigned_queues == fixed
    elsewhere = consumers(Recorder(), group="by-room", allocate_strategy="MACHINE_ROOM", allocate_rooms={"east"})
    assert elsewhere.assigned_queues == []

    class OneRoom:
        def broker_deploy_in(self, queue: rmq.MessageQueue) -> str:
            return "east"

        def consumer_deploy_in(self, client_id: str) -> str:
            return "west"

    of_two = [rmq.MessageQueue("flights", "broker-a", 2), rmq.MessageQueue("weather", "broker-a", 0)]
    by_config.shutdown()
    for_both = consumers(Recorder(), group="of-two", allocate_strategy="CONFIG", allocate_queues=of_two, start=False)
    for_both.subscribe("weather")
    for_both.start()
    for _ in range(3):  # each topic's round leaves the other's queues alone
        for_both.rebalance_now()
        assert for_both.assigned_queues == of_two
    for_both.unsubscribe("weather")
    for_both.rebalance_now()
    assert for_both.assigned_queues == of_two[:1]

    nearby = consumers(
        Recorder(), group="nearby", allocate_strategy="MACHINE_ROOM_NEARBY", machine_room_resolver=OneRoom()
    )
    assert _queues(nearby) == [0, 1, 2, 3]


def test_the_broker_shares_the_queues_out_where_it_is_asked_to(rocketmq, consumers, caplog):
    rocketmq.create_topic("flights", queues=4)
    asked = rocketmq.faults.fail(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 1, times=None)
    members = [consumers(Recorder(), client_rebalance=False, allocate_strategy="AVG_BY_CIRCLE") for _ in range(2)]
    rocketmq.advance_until(lambda: sorted(map(_queues, members)) == [[0, 2], [1, 3]])
    assert asked.hits == 0, "no member asked who else there is"
    asked.remove()
    # A 4.9 broker knows no such request: the member shares the queues out itself, as it would have without the option.
    rocketmq.faults.fail(RequestCode.QUERY_ASSIGNMENT, 3, times=None)
    alone = consumers(Recorder(), group="old-broker", client_rebalance=False)
    assert _queues(alone) == [0, 1, 2, 3]
    said = [
        record for record in caplog.records if "group old-broker: its members divide the queues" in record.getMessage()
    ]
    assert len(said) == 1


def _of_many_topics(rocketmq: EmbeddedRocketMQ) -> rmq.AsyncPushConsumer:
    consumer = rmq.AsyncPushConsumer("counts", namesrv_addr=rocketmq.namesrv_addr)
    consumer.on_message(lambda message: None)
    for name in NAMES:
        consumer.subscribe(name)
    return consumer


NAMES = [f"topic-{number:02}" for number in range(40)]


async def test_a_round_asks_each_broker_once_for_the_members(rocketmq, monkeypatch):
    asked: list[str] = []
    consumer_ids = rebalancer.consumer_ids

    async def counted(cluster: Any, address: str, group: str) -> list[str]:
        asked.append(address)
        return await consumer_ids(cluster, address, group)

    monkeypatch.setattr(rebalancer, "consumer_ids", counted)
    for name in NAMES:
        rocketmq.create_topic(name, queues=2)

    consumer = _of_many_topics(rocketmq)
    await consumer.start()
    assert len([queue for queue in consumer.assigned_queues if queue.topic in NAMES]) == 2 * len(NAMES)
    asked.clear()
    await consumer.rebalance_now()
    first = len(asked)
    await consumer.rebalance_now()
    assert (first, len(asked)) == (1, 2), "once in each round, and anew in the next one"
    await consumer.shutdown()


async def test_a_topic_that_takes_long_holds_up_no_other_and_one_that_fails_ends_the_round_when_the_others_have_ended(
    rocketmq, monkeypatch
):
    for name in NAMES:
        rocketmq.create_topic(name, queues=1)
    start_offset = Rebalancer.start_offset
    most = under_way = 0

    async def slow_or_broken(self: Rebalancer, queue: rmq.MessageQueue) -> int | None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        try:
            if queue.topic == NAMES[0]:  # until all others were taken up
                while len(self.table.active()) < len(NAMES) - 2:
                    await asyncio.sleep(0)
            if queue.topic == NAMES[1]:
                raise LookupError("a bug")
            return await start_offset(self, queue)
        finally:
            under_way -= 1

    rebalance, failed_with = Rebalancer.rebalance, list[int]()

    async def watched(self: Rebalancer, topics: Iterable[str]) -> bool:
        try:
            return await rebalance(self, topics)
        except LookupError:
            failed_with.append(under_way)
            raise

    consumer = _of_many_topics(rocketmq)
    monkeypatch.setattr(Rebalancer, "start_offset", slow_or_broken)
    monkeypatch.setattr(Rebalancer, "rebalance", watched)
    with contextlib.suppress(LookupError):  # unless the broker's notice began the first round
        await consumer.start()
    assert set(failed_with) == {0}, "a round ended while others of it were under way"
    assert most == 32
    await consumer.shutdown()


@pytest.mark.parametrize("step", ["_add", "_remove"])
@pytest.mark.parametrize("topics", [1, 3, 40])
def test_no_more_queues_of_a_broker_are_taken_up_or_given_up_at_once_than_allowed(rocketmq, monkeypatch, topics, step):
    for name in NAMES[:topics]:
        rocketmq.create_topic(name, queues=40 // topics)
    monkeypatch.setattr(rebalancer, "_TOPICS_AT_ONCE", 4)
    monkeypatch.setattr(rebalancer, "_QUEUES_AT_ONCE", 12)
    work = getattr(Rebalancer, step)
    most = under_way = 0

    async def watched(self: Rebalancer, *arguments: Any) -> Any:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        try:
            return await work(self, *arguments)
        finally:
            under_way -= 1

    async def run() -> None:
        consumer = rmq.AsyncPushConsumer("counts", namesrv_addr=rocketmq.namesrv_addr)
        consumer.on_message(lambda message: None)
        for name in NAMES[:topics]:
            consumer.subscribe(name)
        monkeypatch.setattr(Rebalancer, step, watched)
        await consumer.start()
        assert len([queue for queue in consumer.assigned_queues if queue.topic in NAMES]) == 40 // topics * topics
        await consumer.shutdown()

    asyncio.run(run())
    # Topics at once, with the retry topic, which has one queue: 2, 4 and 4; each has its share of the 12.
    together = {("_add", 1): (6, 7), ("_add", 3): (9, 10), ("_add", 40): (4,)}
    assert most in together.get((step, topics), (12,))


@pytest.mark.parametrize("step", ["_lock", "start_offset", "_remove"])
def test_after_an_unexpected_error_in_a_round_the_next_round_goes_on(rocketmq, monkeypatch, step):
    for topic in ("flights", "weather"):
        rocketmq.create_topic(topic, queues=2)
    done, failed = getattr(Rebalancer, step), list[str]()

    async def fails_once(self: Rebalancer, what: Any) -> Any:
        if not failed and "weather" in str(what):
            failed.append(step)
            raise LookupError("a bug")
        return await done(self, what)

    consumer = rocketmq.push_consumer("delays")

    @consumer.orderly_listener
    def handle(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUCCESS

    def topics() -> list[str]:
        return [queue.topic for queue in consumer.assigned_queues if not queue.topic.startswith("%RETRY%")]

    consumer.subscribe("flights")
    with consumer:
        rocketmq.advance_until(lambda: topics() == ["flights"] * 2)
        if step == "_remove":
            consumer.subscribe("weather")
            rocketmq.advance_until(lambda: topics() == ["flights"] * 2 + ["weather"] * 2)
        monkeypatch.setattr(Rebalancer, step, fails_once)
        if step == "_remove":
            consumer.unsubscribe("weather")
            rocketmq.advance_until(lambda: bool(failed) and topics() == ["flights"] * 2)
            running = parts_of(consumer)
            rocketmq.advance_until(
                lambda: not [queue for queue in running.rebalancer.held() if queue.topic == "weather"]
            )
        else:
            consumer.subscribe("weather")
            rocketmq.advance_until(lambda: bool(failed) and topics() == ["flights"] * 2 + ["weather"] * 2)

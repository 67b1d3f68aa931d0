# SPDX-License-Identifier: Apache-2.0
"""Our client's progress, stuck messages, retries and dead letters on Apache's servers and beside Java's client, both generations."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from inproc.broker.conftest import RawClient
from interop.peers import APACHE_4, ApacheCluster, JavaProgram, poll_until
from sprocketmq.core.group.subscription import parse_tag_expression
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.bodies import ConsumerData, HeartbeatData
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers import UnregisterClientRequestHeader

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def admin(apache: ApacheCluster) -> Iterator[rmq.Admin]:
    with rmq.Admin(namesrv_addr=apache.namesrv_addr) as started:
        yield started


@pytest.fixture
def topic(apache: ApacheCluster) -> str:
    name = f"progress-{time.time_ns()}"
    apache.create_topic(name, 1)
    return name


def _send(apache: ApacheCluster, topic: str, *bodies: bytes, **how: Any) -> list[rmq.SendResult]:
    with rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer:
        return [producer.send(rmq.Message(topic, body, tags="UA", keys="k", **how)) for body in bodies]


def _consumer(apache: ApacheCluster, topic: str, listener: Callable[..., Any], **options: Any) -> rmq.PushConsumer:
    """Group and topic have the same name."""
    consumer = rmq.PushConsumer(topic, namesrv_addr=apache.namesrv_addr, consume_from_where=FIRST, **options)
    consumer.subscribe(topic)
    consumer.on_message(listener)
    return consumer


def _copies(admin: rmq.Admin, topic: str) -> int:
    """How many retry copies came to the group of this topic's name."""
    retry = f"%RETRY%{topic}"
    if retry not in admin.topics():
        return 0
    return sum(offsets.max_offset for offsets in admin.topic_stats(retry).values())


def _all_passed(consumer: rmq.PushConsumer, admin: rmq.Admin, topic: str) -> bool:
    """Progress, as the broker has it, is at the end of the topic."""
    consumer.persist_offsets()
    return admin.lag(topic, topic) == 0


def test_dead_letters_of_ours_and_of_java_are_read_and_replayed(apache, topic):
    with rmq.DeadLetters(topic, namesrv_addr=apache.namesrv_addr) as letters:
        with pytest.raises(rmq.GroupNotExist):
            letters.count()
        (first,) = _send(apache, topic, b"z" * 9_000, properties={"year": "2013"})

        def refuse(message: rmq.MessageExt) -> None:
            raise rmq.DeadLetter("no such flight")

        with _consumer(apache, topic, refuse):
            poll_until(lambda: letters.count() == 1, "our dead letter is stored")
        (second,) = _send(apache, topic, b"by Java")
        java = JavaProgram(apache.version, "PushConsumer", namesrv=apache.namesrv_addr, topic=topic, group=topic,
                           fail=9, delay_level=-1)  # fmt: skip
        with java.ready():
            poll_until(lambda: letters.count() == 2, "Java's dead letter is stored")
        found = {letter.message_id: letter for letter in letters.read(topic=topic, key="k", tags="UA")}
        assert found.keys() == {first.message_id, second.message_id}
        assert {letter.origin_topic for letter in found.values()} == {topic}
        assert (found[first.message_id].reason, found[second.message_id].reason) == ("no such flight", None)
        assert found[first.message_id].origin_offset_message_id == first.offset_message_id

        report = letters.replay_all()
        assert (report.error, {result.message_id for result in report.replayed}) == (None, found.keys())
        seen: list[rmq.MessageExt] = []
        with _consumer(apache, topic, seen.append):
            poll_until(lambda: len(seen) == 2, "the replayed messages are consumed")
        (again,) = [message for message in seen if message.message_id == first.message_id]
        assert (again.body, again.tags, again.keys, again.reconsume_times) == (b"z" * 9_000, "UA", ["k"], 0)
        assert again.properties["year"] == "2013"
        assert "RETRY_TOPIC" not in again.properties


def test_a_stuck_message_comes_again_once_and_progress_passes_it(apache, admin, topic):
    release, told = threading.Event(), list[rmq.StuckListener]()
    seen: list[tuple[bytes, int]] = []

    def listener(message: rmq.MessageExt) -> None:
        seen.append((message.body, message.reconsume_times))
        if seen[-1] == (b"stuck", 0):
            release.wait(60)
            raise ValueError("too late")

    consumer = _consumer(apache, topic, listener, consume_timeout_ms=60_000)
    consumer.on_consume_timeout(told.append)
    with consumer:
        _send(apache, topic, b"stuck", b"next")
        poll_until(lambda: len(seen) == 2, "both are with the listener")
        consumer.set_consume_timeout_ms(500)
        poll_until(lambda: (b"stuck", 1) in seen, "the retry copy is delivered")
        poll_until(lambda: _all_passed(consumer, admin, topic), "progress has passed it")
        release.set()
    assert _copies(admin, topic) == 1
    assert sorted(seen) == [(b"next", 0), (b"stuck", 0), (b"stuck", 1)]
    assert len(told) == 1
    assert "in listener" in told[0].stack.splitlines()[0]


def test_the_groups_retry_policy_is_followed_where_there_is_one(apache, admin, topic):
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1_000, "max": 3_000, "multiplier": 2}}
    admin.create_group(topic, group_retry_policy=policy)
    waiting = {level: rmq.MessageQueue(SCHEDULE, "broker-a", level - 1) for level in (1, 3)}
    before = {level: _end(admin, queue) for level, queue in waiting.items()}
    seen: list[int] = []

    def listener(message: rmq.MessageExt) -> None:
        seen.append(message.reconsume_times)
        if message.reconsume_times == 0:
            raise ValueError("again")

    with _consumer(apache, topic, listener):
        _send(apache, topic, b"x")
        poll_until(lambda: seen == [0, 1], "it is delivered again")
    grown = {level: _end(admin, queue) - before[level] for level, queue in waiting.items()}
    # The levels of a 4.9 broker decide there: the first failure waits in the third.
    assert grown == ({1: 0, 3: 1} if apache.version == APACHE_4 else {1: 1, 3: 0})


def _end(admin: rmq.Admin, queue: rmq.MessageQueue) -> int:
    stats = admin.topic_stats(SCHEDULE)
    return stats[queue].max_offset if queue in stats else 0


def test_a_reset_by_mqadmin_moves_a_running_member(apache, admin, topic, tools):
    seen: list[bytes] = []
    with _consumer(apache, topic, lambda message: seen.append(message.body)) as consumer:
        _send(apache, topic, b"a", b"b", b"c")
        poll_until(lambda: len(seen) == 3, "all are consumed")
        poll_until(lambda: _all_passed(consumer, admin, topic), "progress is at the broker")
        printed = tools(apache.version).run(
            *f"resetOffsetByTime -n {apache.namesrv_addr} -g {topic} -t {topic} -s 0 -f true".split()
        )
        _send(apache, topic, b"d")  # ends the pull that waits: 5.x answers the next one with the reset
        poll_until(lambda: len(seen) >= 7, f"all come again, after mqadmin said {printed}")
        assert sorted(seen) == [b"a", b"a", b"b", b"b", b"c", b"c", b"d"]
        poll_until(lambda: _all_passed(consumer, admin, topic), "progress has followed")


@pytest.mark.nightly
def test_broadcasting_progress_goes_from_java_to_us_and_back(apache, topic, tmp_path):
    options: dict[str, Any] = {
        "client_ip": "127.0.0.1",
        "instance_name": "keeper",
        "message_model": rmq.MessageModel.BROADCASTING,
        "local_offset_store_dir": str(tmp_path),
    }

    def by_java(count: int) -> list[str]:
        flags = (f"-Drocketmq.client.localOffsetStoreDir={tmp_path}",)
        with JavaProgram(apache.version, "PushConsumer", jvm_flags=flags, namesrv=apache.namesrv_addr, topic=topic,
                         group=topic, instance="keeper", broadcast=True, count=count) as java:  # fmt: skip
            return sorted(line["body"] for line in java.read_rest("message", 90))

    def by_us(count: int) -> list[str]:
        seen: list[str] = []
        with _consumer(apache, topic, lambda message: seen.append(message.body.decode()), **options):
            poll_until(lambda: len(seen) >= count, "we got what Java had not")
        return seen

    _send(apache, topic, b"1", b"2")
    assert by_java(2) == ["1", "2"]
    _send(apache, topic, b"3")
    assert by_us(1) == ["3"]
    _send(apache, topic, b"4", b"5")
    assert by_java(2) == ["4", "5"]
    _send(apache, topic, b"6")
    assert by_us(1) == ["6"]


def test_a_member_without_progress_begins_where_it_is_told(apache, topic, tmp_path):
    """Broadcasting: for clustering a broker of either generation answers 0 instead of "none" while a topic is young."""
    _send(apache, topic, b"old")
    at_s = int(time.time()) + 1
    poll_until(lambda: time.time() >= at_s, "the next second begins")
    _send(apache, topic, b"newer")
    at = time.strftime("%Y%m%d%H%M%S", time.localtime(at_s))
    seen: dict[str, list[str]] = {}
    with contextlib.ExitStack() as running:
        for where in ("CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP", "CONSUME_FROM_LAST_OFFSET"):
            bodies = seen[where] = []
            consumer = rmq.PushConsumer(
                topic,
                namesrv_addr=apache.namesrv_addr,
                instance_name=where,
                message_model=rmq.MessageModel.BROADCASTING,
                local_offset_store_dir=str(tmp_path),
                consume_from_where=rmq.ConsumeFromWhere(where),
                consume_timestamp=at,
            )
            consumer.subscribe(topic)
            consumer.on_message(lambda message, bodies=bodies: bodies.append(message.body.decode()))
            running.enter_context(consumer)
            poll_until(lambda consumer=consumer: consumer.assigned_queues, "the queue is taken up")
        _send(apache, topic, b"now")
        poll_until(lambda: all("now" in bodies for bodies in seen.values()), "all have the newest message")
    assert {where: sorted(bodies) for where, bodies in seen.items()} == {
        "CONSUME_FROM_FIRST_OFFSET": ["newer", "now", "old"],
        "CONSUME_FROM_TIMESTAMP": ["newer", "now"],
        "CONSUME_FROM_LAST_OFFSET": ["now"],
    }


def test_the_filter_of_a_member_from_the_future_passes_over_nothing_when_it_has_left(apache, admin, topic):
    """Apache filters by the highest version for as long as the group has members, whoever had it (ConsumerGroupInfo)."""
    bodies: list[str] = []

    def send(producer: rmq.Producer, number: int) -> set[str]:
        sent = {f"{tag}{number}" for tag in "BA"}
        for body in sorted(sent, reverse=True):
            producer.send(rmq.Message(topic, body.encode(), tags=body[0]))
        return sent

    def joins_and_leaves() -> None:
        subscription = parse_tag_expression(topic, "A", int(time.time() * 1000) + 3_600_000)
        data = HeartbeatData("peer@1", consumer_data_set=[ConsumerData(topic, subscription_data_set=[subscription])])
        gone = UnregisterClientRequestHeader(client_id="peer@1", consumer_group=topic)
        peer = RawClient(Engine.shared(), apache.broker_addr)
        try:
            assert peer.ask(RequestCode.HEART_BEAT, body=data.encode()).code == 0
            assert peer.ask(RequestCode.UNREGISTER_CLIENT, gone).code == 0
        finally:
            peer.close()

    consumer = rmq.PushConsumer(topic, namesrv_addr=apache.namesrv_addr, consume_from_where=FIRST)
    consumer.subscribe(topic, "A || B")
    consumer.on_message(lambda message: bodies.append(message.body.decode()))
    with rmq.Producer("ours", namesrv_addr=apache.namesrv_addr) as producer, consumer:
        wanted = send(producer, 0)
        poll_until(lambda: set(bodies) == wanted, "the first two")
        joins_and_leaves()
        wanted |= send(producer, 1)
        poll_until(lambda: set(bodies) == wanted, "what was sent at once")
        known = admin.consumer_connection(topic)
        assert known is not None
        assert known.subscription_table[topic].sub_string == "A"  # still
        wanted |= send(producer, 2)
        poll_until(lambda: set(bodies) == wanted, "what was sent later")

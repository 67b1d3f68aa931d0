# SPDX-License-Identifier: Apache-2.0
"""Our producer at Apache's brokers, 4.9 and 5.x: transactions with check-back, request and reply with Java on the other side, batching,
namespaces, the second port, and timer messages taken back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from interop.peers import APACHE_5, ApacheCluster, JavaProgram, poll_until

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
COMMIT, ROLLBACK, UNKNOWN = rmq.LocalTransactionState


@pytest.fixture
def topic(apache: ApacheCluster) -> str:
    name = f"producing-{time.time_ns()}"
    apache.create_topic(name, 4)
    return name


class Reader:
    """Consumes a topic from its beginning and keeps what it saw."""

    def __init__(self, apache: ApacheCluster, topic: str, **options: Any) -> None:
        self.seen: list[rmq.MessageExt] = []
        self.consumer = rmq.PushConsumer(
            f"reader-{time.time_ns()}",
            namesrv_addr=apache.namesrv_addr,
            consume_from_where=FIRST,
            **options,
        )
        self.consumer.subscribe(topic)
        self.consumer.on_message(self.seen.append)

    @property
    def bodies(self) -> list[str]:
        return sorted(message.body.decode() for message in list(self.seen))


@pytest.fixture
def reader(apache: ApacheCluster, topic: str) -> Iterator[Reader]:
    made = Reader(apache, topic)
    with made.consumer:
        yield made


def saying(state: rmq.LocalTransactionState) -> Callable[[rmq.Message], rmq.LocalTransactionState]:
    return lambda sent: state


def test_transactions_commit_roll_back_and_are_asked_for(apache, topic, reader):
    asked: list[tuple[str, str]] = []
    group = f"transactions-{time.time_ns()}"

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        asked.append((message.body.decode(), threading.current_thread().name))
        assert message.topic == topic
        assert message.transaction_id
        # A broker that is slow stores a half twice (the send was tried again), or loses an END: it asks about those, too.
        return COMMIT if "yes" in message.body.decode() else ROLLBACK

    answers = {"yes": COMMIT, "no": ROLLBACK, "asked yes": UNKNOWN, "asked no": UNKNOWN}
    with rmq.TransactionProducer(group, check=check, namesrv_addr=apache.namesrv_addr) as producer:
        for body, state in answers.items():
            message = rmq.Message(topic, body.encode(), tags="T", keys=body.replace(" ", "-"))
            result = producer.send_in_transaction(message, execute=saying(state))
            assert result.status is rmq.SendStatus.SEND_OK
        poll_until(lambda: {body for body, _ in asked} >= {"asked yes", "asked no"}, "both are asked for")
        poll_until(lambda: set(reader.bodies) == {"asked yes", "yes"}, "what was committed is consumed")
    assert all(thread.startswith("sprocketmq-check") for _, thread in asked)
    assert {tuple(message.keys) for message in reader.seen} == {("yes",), ("asked-yes",)}


def test_a_member_of_java_is_asked_for_a_transaction_of_ours_that_left(apache, topic, reader):
    group = f"transactions-{time.time_ns()}"
    with rmq.TransactionProducer(group, check=lambda asked: UNKNOWN, namesrv_addr=apache.namesrv_addr) as producer:
        producer.send_in_transaction(rmq.Message(topic, b"ours"), execute=lambda sent: UNKNOWN)
    options: dict[str, Any] = {
        "namesrv": apache.namesrv_addr,
        "topic": topic,
        "mode": "transaction",
        "count": 1,
        "stay": True,
    }
    with JavaProgram(apache.version, "Producer", group=group, check="commit", **options) as java:
        (line,) = java.read_events("checked", 1, 90)
        assert line["body"] == "ours"
        poll_until(lambda: set(reader.bodies) == {"number 0", "ours"}, "Java commits what ours left behind")


def test_our_member_is_asked_for_a_transaction_of_java_that_left(apache, topic, reader):
    group = f"transactions-{time.time_ns()}"
    options: dict[str, Any] = {"namesrv": apache.namesrv_addr, "topic": topic, "mode": "transaction", "count": 3}
    with JavaProgram(apache.version, "Producer", group=group, check="unknown", **options) as java:
        java.read_events("sent", 3, 60)
    asked: list[rmq.MessageExt] = []

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        asked.append(message)
        return ROLLBACK if message.body == b"number 1" else COMMIT

    with rmq.TransactionProducer(group, check=check, namesrv_addr=apache.namesrv_addr, topics=[topic]):
        poll_until(lambda: set(reader.bodies) == {"number 0", "number 2"}, "ours commits what Java left behind")
    assert "2" in {message.properties["number"] for message in asked}


def test_java_answers_our_request_and_we_answer_javas(apache, topic):
    group = f"replying-{time.time_ns()}"
    options: dict[str, Any] = {"namesrv": apache.namesrv_addr, "topic": topic, "group": group, "reply": "from Java"}
    with (
        rmq.Producer(f"asking-{time.time_ns()}", namesrv_addr=apache.namesrv_addr) as producer,
        JavaProgram(apache.version, "PushConsumer", **options) as java,
    ):
        java.ready()
        reply = producer.request(rmq.Message(topic, b"question"), timeout_ms=60_000)
        assert reply.body == b"from Java"
        again = [producer.request_async(rmq.Message(topic, b"question"), timeout_ms=60_000) for _ in range(10)]
        assert {future.result(60).body for future in again} == {b"from Java"}

    answering = rmq.PushConsumer(f"ours-{group}", namesrv_addr=apache.namesrv_addr)
    answering.subscribe(topic)
    with rmq.Producer(f"answering-{time.time_ns()}", namesrv_addr=apache.namesrv_addr) as producer:

        @answering.on_message
        def answer(message: rmq.MessageExt) -> None:
            producer.reply(message, b"from Python: " + message.body)

        with (
            answering,
            JavaProgram(
                apache.version, "Producer", namesrv=apache.namesrv_addr, topic=topic, mode="request", count=2
            ) as java,
        ):
            answers = java.read_events("answer", 2, 90)
    assert [line["body"] for line in answers] == ["from Python: number 0", "from Python: number 1"]


def test_the_second_port_takes_sends_and_compressed_bodies_arrive(apache, topic, reader):
    body = b"a" * 20_000
    kinds = ["ZLIB"] if apache.version.startswith("4") else ["ZLIB", "LZ4", "ZSTD"]
    for kind in kinds:
        with rmq.Producer(
            "vip", namesrv_addr=apache.namesrv_addr, vip_channel_enabled=True, compress_type=kind, compress_level=9
        ) as producer:
            producer.send(rmq.Message(topic, body))
            instance = producer._async._instance
            assert instance is not None
            host, _, port = apache.broker_addr.rpartition(":")
            assert f"{host}:{int(port) - 2}" in instance.cluster.pool.addresses
    poll_until(lambda: [message.body for message in reader.seen] == [body] * len(kinds), "all bodies arrive")


@pytest.mark.parametrize("apache", [APACHE_5], indirect=True)  # 4.9 has no timer messages
def test_a_timer_message_is_delivered_later_and_one_is_taken_back(apache, topic, reader):
    with rmq.Producer("later", namesrv_addr=apache.namesrv_addr) as producer:
        sent_ms = time.time_ns() // 1_000_000
        result = producer.send(rmq.Message(topic, b"later"), delay_ms=3_000)
        assert result.recall_handle
        poll_until(lambda: reader.bodies == ["later"], "the delayed message comes")
        assert reader.seen[0].store_timestamp_ms - sent_ms >= 2_000
        far = producer.send(rmq.Message(topic, b"far"), delay_ms=3_600_000)
        assert far.recall_handle
        with pytest.raises(rmq.RemoteError, match="recall"):  # recallMessageEnable is false by default
            producer.recall(topic, far.recall_handle)


def test_namespaces_keep_equal_names_apart(apache):
    name = f"spaced-{time.time_ns()}"
    apache.create_topic(f"MQ_INST_1%{name}", 2)
    readers = Reader(apache, name, namespace="MQ_INST_1")
    with (
        readers.consumer,
        rmq.Producer("spaced", namesrv_addr=apache.namesrv_addr, namespace="MQ_INST_1") as producer,
        rmq.Producer("spaced", namesrv_addr=apache.namesrv_addr, namespace_v2="ns2") as other,
    ):
        result = producer.send(rmq.Message(name, b"1"))
        other.send(rmq.Message(f"MQ_INST_1%{name}", b"2"))
        assert result.message_queue.topic == name
        poll_until(lambda: readers.bodies == ["1", "2"], "both are consumed")
    assert {message.topic for message in readers.seen} == {name}
    assert readers.seen[0].properties.get("INSTANCE_ID") in ("MQ_INST_1", None)

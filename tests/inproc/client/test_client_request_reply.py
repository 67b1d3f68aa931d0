# SPDX-License-Identifier: Apache-2.0
"""Request and reply: who gets which answer, what a broker must know before, and what is left when nobody answers."""

from __future__ import annotations

from typing import Any

import pytest
from recorder import Consumers

import sprocketmq as rmq
from sprocketmq.client.produce.request_reply import RequestFutures, _host
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.records import properties as props

PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
REPLIES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


def waiting(producer: rmq.Producer) -> dict[str, Any]:
    instance = producer._async._instance
    assert instance is not None
    return instance.processor(PUSH, RequestFutures)._waiting


@pytest.fixture
def echo(rocketmq: EmbeddedRocketMQ, consumers: Consumers, producer: rmq.Producer) -> rmq.PushConsumer:
    """Answers each message of "flights" with its own body, told apart by its tag."""
    rocketmq.create_topic("flights", queues=4)

    def answer(message: rmq.MessageExt) -> None:
        if message.tags != "silence":
            producer.reply(message, b"re: " + message.body, properties={"to": message.tags or ""})

    return consumers(answer)


def test_a_request_gets_the_reply_to_it(rocketmq, echo):
    with rocketmq.producer("asking") as asking:
        reply = asking.request(rmq.Message("flights", b"where?", tags="UA"), timeout_ms=20_000)
        assert (reply.body, reply.properties["to"]) == (b"re: where?", "UA")
        assert reply.topic == "DefaultCluster_REPLY_TOPIC"
        assert reply.properties[props.ARRIVE_TIME]
        pending = [
            asking.request_async(rmq.Message("flights", b"%d" % number, tags="UA"), timeout_ms=20_000)
            for number in range(20)
        ]
        assert [future.result(20).body for future in pending] == [b"re: %d" % number for number in range(20)]
        assert waiting(asking) == {}
    asked = rocketmq.messages("flights")[0]
    assert asked.properties[props.TTL] == "20000"
    assert asked.properties[props.REPLY_TO_CLIENT]


def test_a_large_reply_comes_back_whole(rocketmq, echo):
    with rocketmq.producer("asking") as asking:
        body = b"a" * 100_000
        assert asking.request(rmq.Message("flights", body, tags="UA"), timeout_ms=20_000).body == b"re: " + body


def test_a_request_that_nobody_answers_ends_with_its_timeout_and_leaves_nothing(rocketmq, echo):
    with rocketmq.producer("asking") as asking:
        with pytest.raises(rmq.RequestTimeout):
            asking.request(rmq.Message("flights", b"x", tags="silence"), timeout_ms=200)
        assert waiting(asking) == {}
        assert len(rocketmq.messages("flights")) == 1
        rocketmq.faults.fail(SENDS, ResponseCode.MESSAGE_ILLEGAL, "no", times=1)
        with pytest.raises(rmq.RemoteError, match="code 13"):
            asking.request(rmq.Message("flights", b"x"), timeout_ms=20_000)
        with pytest.raises(rmq.ConfigurationError):
            asking.request(rmq.Message("flights", b""))
        assert waiting(asking) == {}


def test_a_late_reply_is_acknowledged_and_dropped(rocketmq, consumers, producer):
    received: list[rmq.MessageExt] = []
    consumers(received.append)
    with rocketmq.producer("asking") as asking:
        with pytest.raises(rmq.RequestTimeout):
            asking.request(rmq.Message("flights", b"x"), timeout_ms=100)
        rocketmq.wait_until(lambda: received)
        assert producer.reply(received[0], b"late").status is rmq.SendStatus.SEND_OK
    with pytest.raises(rmq.RemoteError, match="code 1"):
        producer.reply(received[0], b"too late: who asked has left")
    producer.send(rmq.Message("flights", b"plain"))
    rocketmq.wait_until(lambda: len(received) == 2)
    with pytest.raises(rmq.ConfigurationError):
        producer.reply(received[1], b"nobody asked")


def test_a_restarted_broker_gets_a_heartbeat_of_the_requester_before_the_next_request(rocketmq, consumers, producer):
    with rocketmq.producer("asking") as asking:
        consumers(lambda message: producer.reply(message, b"yes"), topic="flights")
        assert asking.request(rmq.Message("flights", b"1"), timeout_ms=20_000).body == b"yes"
        instance = asking._async._instance
        assert instance is not None
        instance.cluster.pool.close_connection(rocketmq.broker_addr)
        assert asking.request(rmq.Message("flights", b"2"), timeout_ms=20_000).body == b"yes"


def test_a_reply_prefers_the_broker_that_stored_the_request_and_takes_another_when_it_must(
    rocketmq, admin, second_broker, consumers, producer
):
    admin.create_topic("flights", queues=2)
    results: list[tuple[str, str]] = []

    def answer(message: rmq.MessageExt) -> None:
        results.append((message.broker_name, producer.reply(message, b"yes").message_queue.broker_name))

    consumers(answer)
    with rocketmq.producer("asking") as asking:
        for name in ("broker-a", "broker-b") * 2:
            asking.request(rmq.Message("flights", b"x"), queue=rmq.MessageQueue("flights", name, 0), timeout_ms=20_000)
        assert {stored == replied for stored, replied in results} == {True}
        fault = rocketmq.faults.fail(REPLIES, ResponseCode.SYSTEM_BUSY, times=1)
        asking.request(rmq.Message("flights", b"x"), timeout_ms=20_000)
        assert fault.hits == 1


def test_hosts_as_java_writes_them_are_understood():
    assert _host("/127.0.0.1:5555") == "127.0.0.1:5555"
    assert _host("name/10.0.0.1:1") == "10.0.0.1:1"
    assert _host("[::1]:80") == "[::1]:80"
    assert _host("nonsense") == _host("") == "0.0.0.0:0"

# SPDX-License-Identifier: Apache-2.0
"""Namespaces: equal names of two tenants stay apart, and a user only ever sees the short ones."""

from __future__ import annotations

import pytest
from recorder import noted

import sprocketmq as rmq
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.records import properties as props


def test_two_namespaces_keep_equal_names_apart(rocketmq, consumers):
    for namespace in ("one", "two"):
        rocketmq.create_topic(f"{namespace}%flights", queues=2)
    seen: dict[str, list[rmq.MessageExt]] = {"one": [], "two": []}
    for namespace, messages in seen.items():
        consumers(messages.append, namespace=namespace)
    for namespace in seen:
        with rocketmq.producer("ops", namespace=namespace) as producer:
            assert {queue.topic for queue in producer.publish_queues("flights")} == {"flights"}
            result = producer.send(rmq.Message("flights", namespace.encode()))
            assert result.message_queue.topic == "flights"
            queue = rmq.MessageQueue("flights", "broker-a", 1)
            assert producer.send(rmq.Message("flights", b"q"), queue=queue).message_queue == queue
            chosen = producer.send(rmq.Message("flights", b"s"), selector=lambda queues, sent: queues[0])
            assert chosen.message_queue == rmq.MessageQueue("flights", "broker-a", 0)
            keyed = producer.send(rmq.Message("flights", b"k"), sharding_key="N1")
            assert keyed.message_queue.topic == "flights"
            producer.send_batch([rmq.Message("flights", b"b")])
    rocketmq.wait_until(lambda: [len(messages) for messages in seen.values()] == [5, 5])
    for namespace, messages in seen.items():
        assert {message.topic for message in messages} == {"flights"}
        assert {message.properties[props.INSTANCE_ID] for message in messages} == {namespace}
        assert {message.body for message in messages} == {namespace.encode(), b"q", b"s", b"k", b"b"}
    assert rocketmq.messages("flights") == []


def test_a_retry_within_a_namespace_comes_back_under_the_short_name(rocketmq, consumers):
    rocketmq.create_topic("one%flights", queues=1)
    topics: list[str] = []

    def fail(message: rmq.MessageExt) -> None:
        topics.append(message.topic)
        if len(topics) < 3:
            raise ValueError("again")

    consumer = consumers(fail, namespace="one")
    assert consumer.group == "delays"
    with rocketmq.producer("ops", namespace="one") as producer:
        producer.send(rmq.Message("flights", b"x"))
    rocketmq.advance_until(lambda: len(topics) == 3, step_ms=5_000)
    assert topics == ["flights"] * 3
    assert rocketmq.messages("%RETRY%one%delays")
    assert rocketmq.messages("%RETRY%delays") == []


def test_transactions_and_batches_know_the_namespace(rocketmq):
    rocketmq.create_topic("one%flights", queues=1)
    asked: list[rmq.MessageExt] = []

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        asked.append(message)
        return rmq.LocalTransactionState.COMMIT_MESSAGE

    options = {"namesrv_addr": rocketmq.namesrv_addr, "clock": rocketmq.clock, "namespace": "one"}
    with rmq.TransactionProducer("ops", check=check, **options) as producer:  # type: ignore[arg-type]
        result = producer.send_in_transaction(
            rmq.Message("flights", b"x"), execute=lambda sent: rmq.LocalTransactionState.UNKNOWN
        )
        rocketmq.advance_until(lambda: rocketmq.messages("one%flights"), step_ms=10_000, patience_ms=100)
    assert (result.message_queue.topic, asked[0].topic) == ("flights", "flights")
    assert asked[0].properties[props.PGROUP] == "one%ops"
    with rocketmq.producer("batching", namespace="one", auto_batch=True) as batching:
        futures = [batching.send_async(rmq.Message("flights", b"%d" % number)) for number in range(3)]
        rocketmq.advance_until(lambda: all(future.done() for future in futures), step_ms=10, patience_ms=50)
        assert {future.result().message_queue.topic for future in futures} == {"flights"}
    assert [message.properties[props.INSTANCE_ID] for message in rocketmq.messages("one%flights")] == ["one"] * 4


def test_version_two_puts_the_namespace_in_each_request_and_leaves_names_alone(rocketmq):
    codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    seen = noted(rocketmq, codes)
    with rocketmq.producer("ops", namespace_v2="two") as producer:
        producer.send(rmq.Message("flights", b"x"))
    assert {command.code for command in seen} == set(codes)
    assert {(command.ext_fields["ns"], command.ext_fields["nsd"]) for command in seen} == {("two", "true")}
    assert len(rocketmq.messages("flights")) == 1


def test_a_bad_namespace_is_refused_in_one_sentence(rocketmq):
    for option in ("namespace", "namespace_v2"):
        for value in ("", "a%b", "a b", 7):
            with pytest.raises(rmq.ConfigurationError, match=f"{option} is"):
                rocketmq.producer("ops", **{option: value})


def test_unit_mode_is_in_each_send_and_in_heartbeats(rocketmq, consumers):
    heartbeats = noted(rocketmq, RequestCode.HEART_BEAT, lambda command: bytes(command.body))
    consumers(lambda message: None, unit_mode=True)
    assert any(b'"unitMode":true' in body for body in heartbeats)
    units = noted(rocketmq, RequestCode.SEND_MESSAGE_V2, lambda command: command.ext_fields["k"])
    for unit_mode in (False, True):
        with rocketmq.producer("ops", unit_mode=unit_mode, unit_name="u1") as producer:
            producer.send(rmq.Message("flights", b"x"))
            assert producer.client_id.endswith("@u1")
    assert units == ["false", "true"]

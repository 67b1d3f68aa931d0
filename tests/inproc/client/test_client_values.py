# SPDX-License-Identifier: Apache-2.0
"""Serializers and deserializers: values to bodies and back, and what becomes of a body that cannot be read."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass

import msgspec
import pytest
from iteration import Iteration
from recorder import Recorder

import sprocketmq as rmq


class Order(msgspec.Struct):
    id: int
    total: float = 0.0


@dataclass
class Payment:
    order: int
    at: datetime.datetime


read_order = msgspec.json.Decoder(Order).decode


def test_values_of_several_kinds_go_and_come_back(rocketmq, consumers):
    at = datetime.datetime(2026, 11, 24, 7, 20, tzinfo=datetime.UTC)
    serializers = {"flights": rmq.json_serializer, "notes": rmq.text_serializer, "raw": rmq.bytes_serializer}
    with rocketmq.producer("ops", value_serializer=serializers) as producer:
        for value in (Order(7, 1.5), Payment(7, at), {"id": 8}, [1, None, "é"]):
            producer.send(producer.message("flights", value, tags="UA", keys=["k"], properties={"year": "2013"}))
        producer.send(producer.message("notes", "Grüße"))
        producer.send(producer.message("raw", bytearray(b"\xff\x00")))
    recorder = Recorder()
    consumer = consumers(
        recorder,
        start=False,
        value_deserializer={
            "flights": rmq.json_deserializer,
            "notes": rmq.text_deserializer,
            "raw": rmq.bytes_deserializer,
        },
    )
    for topic in ("notes", "raw"):
        consumer.subscribe(topic)
    consumer.start()
    rocketmq.wait_until(lambda: len(recorder) == 6)
    got = {message.topic: [] for message in recorder.messages}  # type: dict[str, list[Any]]
    for message in sorted(recorder.messages, key=lambda one: one.store_timestamp_ms):
        got[message.topic].append(message.value)
    assert sorted(map(json.dumps, got["flights"])) == sorted(
        map(
            json.dumps, [{"id": 7, "total": 1.5}, {"order": 7, "at": "2026-11-24T07:20:00Z"}, {"id": 8}, [1, None, "é"]]
        )
    )
    assert (got["notes"], got["raw"]) == (["Grüße"], [b"\xff\x00"])
    flight = next(message for message in recorder.messages if message.topic == "flights")
    assert (flight.tags, flight.keys, flight.properties["year"]) == ("UA", ["k"], "2013")


def test_the_body_is_read_once_and_only_when_it_is_asked_for(rocketmq, consumers):
    calls: list[bytes] = []

    def read(body: bytes) -> Order:
        calls.append(body)
        return read_order(body)

    done: list[int] = []

    def handle(message: rmq.MessageExt[Order]) -> None:
        if message.tags == "read":
            done.append(message.value.id + message.value.id)
        else:
            done.append(len(message.body))

    consumers(handle, value_deserializer=read)
    with rocketmq.producer("ops", value_serializer=rmq.json_serializer) as producer:
        producer.send(producer.message("flights", Order(21), tags="read"))
        producer.send(producer.message("flights", Order(21), tags="not read"))
    rocketmq.wait_until(lambda: len(done) == 2)
    assert 42 in done
    assert len(calls) == 1


def test_a_body_that_cannot_be_read_is_retried_and_ends_as_a_dead_letter_with_the_reason(rocketmq, consumers, producer):
    seen: list[int] = []
    read: list[int] = []

    def handle(message: rmq.MessageExt[Order]) -> None:
        seen.append(message.reconsume_times)
        read.append(message.value.id)

    consumer = consumers(handle, value_deserializer=read_order, max_reconsume_times=2)
    bad = producer.send(rmq.Message("flights", b'{"id":"seven"}', keys="bad"))
    producer.send(rmq.Message("flights", b'{"id":7}'))
    rocketmq.advance_until(lambda: rocketmq.messages("%DLQ%delays"))
    assert read == [7], "the others go on"
    assert sorted(seen) == [0, 0, 1, 2]
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr) as letters:
        [letter] = list(letters.read())
    assert letter.message_id == bad.message_id
    assert letter.reason == "the body cannot be deserialized: ValidationError: Expected `int`, got `str` - at `$.id`"
    assert letter.message.body == b'{"id":"seven"}'
    rocketmq.wait_until(
        lambda: consumer.persist_offsets() or sum(rocketmq.consumer_offset("delays", "flights").values()) == 2
    )


def test_what_a_listener_did_to_a_value_is_gone_when_the_same_message_comes_again(rocketmq, consumers, producer):
    seen: list[dict[str, int]] = []

    def handle(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        value = messages[0].value
        seen.append(dict(value))
        value["id"] = -1
        assert messages[0].value["id"] == -1
        again = len(seen) == 1
        return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if again else rmq.ConsumeOrderlyStatus.SUCCESS

    consumers(handle, kind="orderly", value_deserializer=rmq.json_deserializer)
    producer.send(rmq.Message("flights", b'{"id":7}'))
    rocketmq.advance_until(lambda: len(seen) == 2)
    assert seen == [{"id": 7}, {"id": 7}]


@pytest.mark.parametrize("face", ["async", "blocking"])
def test_an_iteration_has_values_and_process_sends_back_what_cannot_be_read(rocketmq, producer, face):
    read: list[int] = []

    def act(message: rmq.ReceivedMessage[Order]) -> None:
        with message.process():
            read.append(message.value.id)

    with Iteration(face, rocketmq, act, value_deserializer=read_order, max_reconsume_times=0):
        producer.send(rmq.Message("flights", b"no JSON"))
        producer.send(rmq.Message("flights", b'{"id":7}'))
        rocketmq.wait_until(lambda: read == [7] and rocketmq.messages("%DLQ%delays"))


def test_a_pull_consumer_has_values(rocketmq, producer):
    producer.send(rmq.Message("flights", b'{"id":7}'))
    producer.send(rmq.Message("flights", b"{"))
    with rocketmq.pull_consumer(
        "backfill", value_deserializer=read_order, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:
        consumer.subscribe("flights")
        messages: list[rmq.MessageExt] = []
        while len(messages) < 2:
            messages += consumer.poll(timeout_ms=1_000)
        assert messages[0].value == Order(7)
        with pytest.raises(rmq.ValueDeserializationError, match=r"topic 'flights': its body of 1 bytes") as caught:
            _ = messages[1].value
        assert isinstance(caught.value.__cause__, msgspec.DecodeError)


def test_a_message_consumed_directly_has_its_value(rocketmq, admin, consumers):
    read: list[int] = []
    consumer = consumers(lambda message: read.append(message.value.id), value_deserializer=read_order)
    with rocketmq.producer("ops", value_serializer=rmq.json_serializer) as producer:
        sent = producer.send(producer.message("flights", Order(7)))
    rocketmq.wait_until(lambda: read == [7])
    admin.consume_directly("delays", consumer.client_id, sent.offset_message_id)
    assert read == [7, 7]


def test_a_retried_message_is_read_by_the_function_of_its_own_topic_also_within_a_namespace(rocketmq, consumers):
    tries: list[tuple[int, int]] = []

    def handle(message: rmq.MessageExt[Order]) -> None:
        tries.append((message.value.id, message.reconsume_times))
        if not message.reconsume_times:
            raise rmq.RetryLater(delay_level=1)

    consumers(handle, namespace="east", value_deserializer={"flights": read_order})
    with rocketmq.producer("ops", namespace="east", value_serializer={"flights": rmq.json_serializer}) as producer:
        producer.send(producer.message("flights", Order(7)))
    rocketmq.advance_until(lambda: len(tries) == 2)
    assert tries == [(7, 0), (7, 1)]


def test_what_is_missing_or_wrong_is_said_in_one_sentence(rocketmq, consumers):
    with pytest.raises(rmq.ConfigurationError, match="producer 'ops' has no value_serializer; give one, as in"):
        rmq.Producer("ops", namesrv_addr="127.0.0.1:1").message("flights", 7)
    by_topic = rmq.AsyncProducer("ops", namesrv_addr="127.0.0.1:1", value_serializer={"flights": rmq.json_serializer})
    with pytest.raises(rmq.ConfigurationError, match="producer 'ops' has no value_serializer for topic 'notes'"):
        by_topic.message("notes", 7)
    with pytest.raises(rmq.ConfigurationError, match=r"topic is \['flights'\], a name of 1 to 127"):
        by_topic.message(["flights"], 7)  # type: ignore[arg-type]
    with pytest.raises(rmq.ConfigurationError, match=r"topic 'flights' cannot be serialized \(object\):") as caught:
        by_topic.message("flights", object())
    assert isinstance(caught.value.__cause__, TypeError)
    text = rmq.AsyncProducer("ops", namesrv_addr="127.0.0.1:1", value_serializer=json.dumps)
    with pytest.raises(rmq.ConfigurationError, match="value_serializer of topic 'flights' returned str, bytes are"):
        text.message("flights", {})
    for name, value in (("text", 7), ("bytes", "text")):
        serialize = getattr(rmq, f"{name}_serializer")
        with pytest.raises(TypeError, match="is no"):
            serialize(value)
    with pytest.raises(rmq.ConfigurationError, match="value_serializer is 'json', a function of"):
        rmq.Producer("ops", namesrv_addr="127.0.0.1:1", value_serializer="json")  # type: ignore[arg-type]
    with pytest.raises(rmq.ConfigurationError, match="value_deserializer of 'flights' is 7, a function of"):
        rmq.PushConsumer("delays", namesrv_addr="127.0.0.1:1", value_deserializer={"flights": 7})  # type: ignore[dict-item]

    async def later(body: bytes) -> object: ...

    with pytest.raises(rmq.ConfigurationError, match="value_deserializer is async def"):
        rmq.PullConsumer("delays", namesrv_addr="127.0.0.1:1", value_deserializer=later)
    with pytest.raises(rmq.ConfigurationError, match="no value_deserializer for topic 'flights'; give it one, or read"):
        _ = rmq.MessageExt("flights", b"x").value

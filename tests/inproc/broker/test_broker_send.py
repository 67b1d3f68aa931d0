# SPDX-License-Identifier: Apache-2.0
"""SEND_MESSAGE, V2, batch and one-way, with the checks in their order."""

from __future__ import annotations

import pytest

from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import encode_batch
from sprocketmq.wire.records.message import Message


def test_the_marks_of_another_broker_are_removed(client):
    """They come along when a consumer sends on what it got. With TRACE_ON=false nobody would trace the message any more."""
    far = {"CLUSTER": "far", "TRACE_ON": "false", "MSG_REGION": "elsewhere", "MYCLUSTER": "mine", "last": "x"}
    client.send("flights", properties=far)
    (message,) = client.messages("flights")
    ours = {"CLUSTER": "DefaultCluster", "TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}
    assert message.properties == {**far, **ours, "UNIQ_KEY": "key-body"}
    stored = bytes(client.pull("g", "flights").body)
    assert b"mine" in stored
    assert b"far" not in stored, "not only hidden behind ours"


def test_a_sender_without_unique_key_gets_one(client):
    header = SendMessageRequestHeaderV2("pg", "flights", "TBW102", 4, 0, 0, 1, 0)
    answers = [client.ask(RequestCode.SEND_MESSAGE_V2, header, b"x") for _ in range(2)]
    keys = [message.properties["UNIQ_KEY"] for message in client.messages("flights")]
    assert keys == [answer.ext_fields["transactionId"] for answer in answers]
    assert len(set(keys)) == 2
    assert all(len(key) == 32 for key in keys)


def test_version_one_names_are_read_too(client):
    header = SendMessageRequestHeader("pg", "flights", "TBW102", 4, 1, 0, 5, 7, properties="TAGS\x01AA")
    assert client.ask(RequestCode.SEND_MESSAGE, header, b"old").code == 0
    (message,) = client.messages("flights", 1)
    assert (message.body, message.flag, message.tags, message.born_timestamp_ms) == (b"old", 7, "AA", 5)


def test_a_refused_send_names_region_and_trace_too(client):
    answer = client.send("flights", queue_id=99)
    assert (answer.code, answer.ext_fields) == (29, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})


def test_a_negative_queue_id_means_any_queue(client):
    queues = {int(client.send("flights", b"x", queue_id=-1).ext_fields["queueId"]) for _ in range(60)}
    assert queues == {0, 1, 2, 3}


@pytest.mark.parametrize("number", [0, -1])
def test_a_send_that_is_refused_leaves_no_topic_without_queues(cluster, client, number):
    header = SendMessageRequestHeaderV2("producers", "made", "TBW102", number, 0, 0, 1, 0, "")
    refusal = client.ask(RequestCode.SEND_MESSAGE_V2, header, b"body")
    assert refusal.code == ResponseCode.TOPIC_NOT_EXIST
    assert f"defaultTopicQueueNums is {number}" in refusal.remark
    assert cluster.broker.topics.get("made") is None
    assert client.send("made").code == ResponseCode.SUCCESS


@pytest.mark.parametrize("cluster", [{"auto_create_topic_enable": False}], indirect=True)
def test_without_auto_creation_an_unknown_topic_is_refused(cluster, client):
    answer = client.send("flights")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "flights" in answer.remark
    assert cluster.broker.topics.get("flights") is None


@pytest.mark.parametrize(
    ("topic", "code", "word"),
    [
        ("bad topic", ResponseCode.INVALID_PARAMETER, "bad topic"),
        ("", ResponseCode.INVALID_PARAMETER, "blank"),
        ("t" * 128, ResponseCode.INVALID_PARAMETER, "128"),
        ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION, "SCHEDULE_TOPIC_XXXX"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", ResponseCode.NO_PERMISSION, "RMQ_SYS_TRANS_HALF_TOPIC"),
    ],
)
def test_topics_that_may_not_be_sent_to_are_refused(client, topic, code, word):
    answer = client.send(topic)
    assert answer.code == code
    assert word in answer.remark


def test_a_queue_beyond_the_topic_is_refused(client):
    client.send("flights")
    answer = client.send("flights", queue_id=4)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "0 to 3" in answer.remark


@pytest.mark.parametrize("cluster", [{"max_message_size": 100}], indirect=True)
def test_bodies_over_the_limit_and_empty_ones_are_illegal(client):
    assert client.send("flights", b"x" * 100).code == 0
    for body in (b"x" * 101, b""):
        answer = client.send("flights", body, properties={"UNIQ_KEY": "k"})
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert str(len(body)) in answer.remark
    assert len(client.messages("flights")) == 1


def test_properties_over_the_limit_are_illegal(client):
    header = SendMessageRequestHeaderV2("pg", "flights", "TBW102", 4, 0, 0, 1, 0, f"a\x01{'x' * 32_765}\x02")
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "32767" in answer.remark


def test_a_one_way_send_is_stored_and_never_answered(cluster, client):
    client.send("flights", b"one", oneway=True)
    client.send("bad topic", b"refused", oneway=True)
    client.send("flights", b"two")  # the same connection: it comes after the others
    assert client.bodies() == [b"one", b"two"]
    assert client.pushed == []


def test_a_batch_becomes_ordinary_messages_with_consecutive_offsets(client):
    client.send("flights", b"before")
    batch = [Message("flights", f"m{n}".encode(), tags=f"T{n}", properties={"n": str(n)}, flag=n) for n in range(3)]
    for n, message in enumerate(batch):
        message.properties[props.UNIQ_KEY] = f"K{n}"
    answer = client.send_batch(encode_batch(batch), of_batch="WAIT\x01true\x02")
    assert answer.code == 0
    stored = client.messages("flights")[1:]
    assert [message.body for message in stored] == [b"m0", b"m1", b"m2"]
    assert [(message.tags, message.flag, message.message_id) for message in stored] == [
        ("T0", 0, "K0"), ("T1", 1, "K1"), ("T2", 2, "K2"),
    ]  # fmt: skip
    assert [message.queue_offset for message in stored] == [1, 2, 3]
    assert answer.ext_fields["queueOffset"] == "1"
    assert answer.ext_fields["msgId"].split(",") == [message.offset_message_id for message in stored]
    assert [message.properties for message in stored] == [message.properties for message in batch]


@pytest.mark.parametrize("of_batch", ["DELAY\x013\x02", "UNIQ_KEY\x01K\x02TIMER_DELAY_SEC\x015\x02"])
@pytest.mark.parametrize("count", [2, 100])
def test_a_batch_that_has_a_delay_itself_is_refused(client, of_batch, count):
    answer = client.send_batch(encode_batch([Message("flights", b"y")] * count), of_batch=of_batch)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "delay" in answer.remark
    assert client.messages("flights") == []


@pytest.mark.parametrize(
    ("topic", "properties", "word"),
    [("%RETRY%g", {}, "one by one"), ("flights", {props.DELAY: "3"}, "delay")],
)
def test_invalid_batches_are_refused_as_a_whole(client, topic, properties, word):
    message = Message(topic, b"x")
    message.properties.update(properties)
    answer = client.send_batch(encode_batch([Message(topic, b"y"), message]), topic)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert word in answer.remark
    assert client.messages("flights") == []


def test_many_sends_of_one_read_are_answered_each_in_order(cluster, client):
    header = SendMessageRequestHeaderV2("pg", "flights", "TBW102", 4, 0, 0, 9, 0)

    async def burst():
        connection = await client.pool.connection(client.address)
        futures = [connection.start_invoke(request(RequestCode.SEND_MESSAGE_V2, header, b"%d" % n)) for n in range(200)]
        return [await future for future in futures]

    answers = cluster.engine.run(burst())
    assert [int(answer.ext_fields["queueOffset"]) for answer in answers] == list(range(200))
    bodies = [int(message.body) for message in client.messages("flights")]
    assert bodies == list(range(200))


@pytest.mark.parametrize("cluster", [{"broker_permission": 4}], indirect=True)
def test_a_read_only_broker_accepts_what_javas_accepts(cluster, client):
    # Java refuses only order topics there: others are kept away by the route, which loses its write bit.
    assert client.send("flights").code == 0
    cluster.on_loop(lambda: setattr(cluster.broker.topics.get("flights"), "order", True))
    assert client.send("flights").code == ResponseCode.NO_PERMISSION


def test_text_that_is_no_utf8_is_refused_or_keeps_its_bytes(cluster, client):
    """A header cannot hold it; the elements of a batch can, and no copy of them has other bytes."""
    body = encode_batch([Message("flights", b"x", properties={"notes": "a~b"})]).replace(b"a~b", b"a\xffb")
    assert client.send_batch(body).code == 0
    (message,) = client.messages("flights")
    assert message.properties["notes"] == "a\ufffdb", "as Java reads it"
    client.heartbeat("me", group="delays", topics={"flights": "*"})
    assert client.send_back(message, "delays").code == 0
    assert client.send_back(message, "delays", delay_level=-1).code == 0
    cluster.clock.advance(10_000)
    store = cluster.broker.store
    for topic in ("flights", "%RETRY%delays", "%DLQ%delays"):
        raw = b"".join(map(bytes, cluster.on_loop(lambda topic=topic: store.read(topic, 0, 0, 1, 1 << 20)).chunks))
        assert b"notes\x01a\xffb\x02" in raw, topic

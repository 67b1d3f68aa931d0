# SPDX-License-Identifier: Apache-2.0
"""SEND_MESSAGE beside its recording (``test_pipeline``), which has the refusals, one-way sends and batches."""

from __future__ import annotations

import pytest

from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import SendMessageRequestHeaderV2
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

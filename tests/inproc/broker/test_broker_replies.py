# SPDX-License-Identifier: Apache-2.0
"""Request-reply: SEND_REPLY_MESSAGE in both spellings, pushed to the requester's producer connection, stored, answered."""

from __future__ import annotations

import pytest

from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import response
from sprocketmq.wire.headers import ReplyMessageRequestHeader, SendMessageRequestHeader, SendMessageRequestHeaderV2
from sprocketmq.wire.records import properties as props

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
CODES = {324: SendMessageRequestHeader, 325: SendMessageRequestHeaderV2}


def reply(client, *, to="asker", body=b"here you are", code=325, topic=REPLY_TOPIC, queue_id=0, begin=False):
    named = {props.CORRELATION_ID: "c-1", props.MSG_TYPE: "reply"}
    if to is not None:
        named[props.REPLY_TO_CLIENT] = to
    header = CODES[code](
        producer_group="repliers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=9,
        properties=props.encode_properties(named).decode(),
    )
    return (client.begin if begin else client.ask)(code, header, body)


def asker_of(cluster, code=0):
    """A producer that takes pushed replies, answering ``code``."""
    asker = cluster.client(handle=lambda command: None if code is None else response(command, code, "so be it"))
    asker.heartbeat("asker", producer="CLIENT_INNER_PRODUCER")
    return asker


@pytest.mark.parametrize("code", list(CODES))
def test_a_reply_is_pushed_to_its_requester_and_stored(cluster, client, code):
    asker = asker_of(cluster)
    answer = reply(client, code=code)
    (stored,) = client.messages(REPLY_TOPIC)
    assert (answer.code, answer.remark) == (0, None)
    ext = answer.ext_fields
    assert (ext["msgId"], ext["queueId"], ext["queueOffset"]) == (stored.offset_message_id, "0", "0")
    assert ext["MSG_REGION"] == "DefaultRegion"
    assert (stored.body, stored.flag) == (b"here you are", 9)
    assert props.PUSH_REPLY_TIME not in stored.properties
    (push,) = asker.pushed
    header = push.header(ReplyMessageRequestHeader)
    assert (push.code, bytes(push.body)) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"here you are")
    assert (header.producer_group, header.topic, header.flag, header.queue_id) == ("repliers", REPLY_TOPIC, 9, 0)
    assert header.store_host == cluster.broker.address
    assert header.born_host.startswith("127.0.0.1:")
    properties = props.decode_properties(header.properties.encode())
    assert properties[props.CORRELATION_ID] == "c-1"
    assert properties[props.PUSH_REPLY_TIME] == str(cluster.clock.now_ms())


def test_a_reply_without_a_reachable_requester_is_stored_and_answered_with_a_remark(cluster, client):
    for to, words in (("nobody", "nobody has no connection"), (None, "no property REPLY_TO_CLIENT")):
        answer = reply(client, to=to)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert words in answer.remark
        assert "msgId" in answer.ext_fields
    assert len(client.messages(REPLY_TOPIC)) == 2


def test_a_reply_that_the_requester_refuses_is_answered_with_a_remark(cluster, client):
    asker_of(cluster, code=1)
    answer = reply(client)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "refused the reply" in answer.remark
    assert len(client.messages(REPLY_TOPIC)) == 1


def test_a_reply_is_stored_even_if_its_requester_disconnects_during_the_push(cluster, client):
    asker = asker_of(cluster, code=None)
    waiting = reply(client, begin=True)
    cluster.eventually(lambda: asker.pushed)
    asker.close()
    answer = waiting.result(10)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "did not take the reply" in answer.remark
    assert len(client.messages(REPLY_TOPIC)) == 1


def test_a_reply_goes_to_the_newest_connection_of_its_requester(cluster, client):
    """The old one may be dead without the broker knowing; and when it is seen to be closed, the new one stays."""
    old, new = asker_of(cluster), asker_of(cluster)
    assert reply(client).code == 0
    assert (len(old.pushed), len(new.pushed)) == (0, 1)
    old.close()
    cluster.eventually(lambda: len(cluster.broker.producers.groups["CLIENT_INNER_PRODUCER"]) == 1)
    assert reply(client).code == 0
    assert len(new.pushed) == 2


@pytest.mark.parametrize("cluster", [{"store_reply_message_enable": False}], indirect=True)
def test_replies_need_not_be_stored(cluster, client):
    asker_of(cluster)
    answer = reply(client)
    assert (answer.code, answer.ext_fields["msgId"]) == (0, "0")
    assert client.messages(REPLY_TOPIC) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "bad topic"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, ResponseCode.NO_PERMISSION),
        ({"queue_id": 99}, ResponseCode.INVALID_PARAMETER),
        ({"body": b""}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_a_reply_that_cannot_be_sent_is_refused_like_any_send(cluster, client, change, code):
    asker = asker_of(cluster)
    answer = reply(client, **change)
    assert answer.code == code
    assert answer.remark
    assert asker.pushed == []

# SPDX-License-Identifier: Apache-2.0
"""Where a group's members are (223): their answers may be long, and are read in steps, within limits."""

from __future__ import annotations

import pytest
from test_broker_relay import answering
from test_loop_share import Turns, turns  # noqa: F401 - a fixture

from sprocketmq.broker.handlers.messages import relay
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import GetConsumerStatusBody
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import response
from sprocketmq.wire.records.message import MessageQueue


def telling(body: bytes):
    return {RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: lambda c: response(c, body=body)}


def table(queues: int, name: str = "broker-a") -> dict[MessageQueue, int]:
    return {MessageQueue("flights", name, number): 7 * number for number in range(queues)}


def status(client):
    return client.do(requests.offsets.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "flights", "g", None)


def test_the_status_of_a_member_with_many_queues_is_read_in_steps_and_in_full(cluster, client, turns):  # noqa: F811
    told = table(5_000)
    answering(cluster, "c1", telling(GetConsumerStatusBody(message_queue_table=told).encode()))
    answering(cluster, "c2", telling(GetConsumerStatusBody().encode()))
    turns.count = 0
    answer = status(client)
    assert GetConsumerStatusBody.decode(answer.body).consumer_table == {"c1": told, "c2": {}}
    assert turns.count >= 5_000 // relay._QUEUES_A_STEP - 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"messageQueueTable":{"a":1}}',
        b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"t"}:[1]}}',
        b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"t"}:true}}',
        b'{"messageQueueTable":{{"brokerName":"b","queueId":0}:1}}',
        b'{"messageQueueTable":{' + b" " * 1_000_000 + b"}}",
        b'{"messageQueueTable":{{"brokerName":"' + b"\\u0041" * 100_000 + b'","queueId":0,"topic":"t"}:1}}',
        b'{"messageQueueTable":{' + b"[0," * 100_000,
        b'{"other":' + b"[0," * 100_000,
        b"{" + b",".join(b'"f%d":[0]' % number for number in range(10_000)) + b',"messageQueueTable":{}}',
        b'{"messageQueueTable":{}}{',
        b"\xff",
    ],
    ids=["text", "list", "boolean", "part", "blanks", "escapes", "nested", "elsewhere", "fields", "behind", "utf-8"],
)
def test_a_member_with_another_answer_is_left_out_after_a_step(cluster, client, turns, body):  # noqa: F811
    answering(cluster, "odd", telling(body))
    answering(cluster, "c1", telling(GetConsumerStatusBody(message_queue_table=table(1)).encode()))
    turns.count = 0
    answer = status(client)
    assert GetConsumerStatusBody.decode(answer.body).consumer_table == {"c1": table(1)}
    assert turns.count <= 1


def test_a_member_has_no_more_queues_than_a_topic(cluster, client, monkeypatch):
    monkeypatch.setattr(relay, "MAX_QUEUES", 500)
    answering(cluster, "c1", telling(GetConsumerStatusBody(message_queue_table=table(500)).encode()))
    answering(cluster, "c2", telling(GetConsumerStatusBody(message_queue_table=table(600)).encode()))
    assert GetConsumerStatusBody.decode(status(client).body).consumer_table == {"c1": table(500)}


def test_the_answers_of_all_members_must_fit_into_a_frame(cluster, client, monkeypatch):
    body = GetConsumerStatusBody(message_queue_table=table(100)).encode()
    monkeypatch.setattr(relay, "_MOST_STATUS_BYTES", 2 * len(body))
    for name in ("c1", "c2"):
        answering(cluster, name, telling(body))
    assert status(client).code == 0
    answering(cluster, "c3", telling(body))
    refusal = status(client)
    assert refusal.code == ResponseCode.SYSTEM_ERROR
    assert refusal.remark == (
        f"the members' answers have more than {2 * len(body)} bytes together; ask for one member (clientAddr) instead"
    )

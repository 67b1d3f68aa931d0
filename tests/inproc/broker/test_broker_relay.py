# SPDX-License-Identifier: Apache-2.0
"""Asking members on a tool's behalf: codes 307, 309 and 223."""

from __future__ import annotations

import pytest

from sprocketmq.broker.handlers.messages import relay
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import ConsumeMessageDirectlyResult
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import response
from sprocketmq.wire.headers import GetConsumerRunningInfoRequestHeader, GetConsumerStatusRequestHeader
from sprocketmq.wire.records.record import decode_records


def answering(cluster, client_id: str, replies=None, **heartbeat):
    """A member that answers what the broker asks: code to a function of the request, None for no answer."""
    replies = replies or {}
    member = cluster.client(handle=lambda command: replies.get(command.code, lambda command: None)(command))
    member.heartbeat(client_id, group="g", topics={"flights": "*"}, **heartbeat)
    return member


def running_info(client, client_id: str = "c1", group: str = "g"):
    return client.do(requests.consumers.GET_CONSUMER_RUNNING_INFO, group, client_id, True)


def test_a_missing_member_is_reported_as_offline(cluster, client):
    answering(cluster, "c1")
    for answer in (running_info(client, "c2"), running_info(client, group="nobody")):
        assert (answer.code, bool(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)


def test_a_refusal_of_the_member_comes_back_as_it_is(cluster, client):
    answering(cluster, "c1", {RequestCode.GET_CONSUMER_RUNNING_INFO: lambda c: response(c, 1, "not now")})
    answer = running_info(client)
    assert (answer.code, answer.remark) == (1, "not now")


def test_a_member_that_does_not_answer_is_a_timeout(cluster, client, monkeypatch):
    monkeypatch.setattr(relay, "_CALL_TIMEOUT_MS", 50)
    answering(cluster, "c1")
    assert running_info(client).code == ResponseCode.CONSUME_MSG_TIMEOUT


def test_a_member_that_breaks_off_is_an_error(cluster, client):
    member = answering(cluster, "c1")
    pending = client.begin(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfoRequestHeader("g", "c1", False))
    cluster.eventually(lambda: any(c.code == RequestCode.GET_CONSUMER_RUNNING_INFO for c in member.pushed))
    member.close()
    assert pending.result(10).code == ResponseCode.SYSTEM_ERROR


def test_a_member_that_is_too_old_is_not_asked(cluster, client):
    member = answering(cluster, "c1")
    (known,) = cluster.broker.consumers.get("g").members.values()
    known.version = 61
    assert running_info(client).code == ResponseCode.SYSTEM_ERROR
    assert not [c for c in member.pushed if c.code == RequestCode.GET_CONSUMER_RUNNING_INFO]


def test_a_message_is_consumed_directly_with_its_record_and_the_flags_of_topic_and_group(cluster, client):
    client.send("flights", b"first")
    message_id = client.send("flights", b"second").ext_fields["msgId"]
    result = ConsumeMessageDirectlyResult(consume_result="CR_SUCCESS").encode()
    member = answering(cluster, "c1", {RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda c: response(c, body=result)})
    assert (
        client.get(requests.consumers.CONSUME_MESSAGE_DIRECTLY, "g", "c1", message_id, topic="flights").consume_result
        == "CR_SUCCESS"
    )
    asked = next(c for c in member.pushed if c.code == RequestCode.CONSUME_MESSAGE_DIRECTLY)
    assert [record.body for record in decode_records(asked.body)] == [b"second"]
    told = {name: asked.ext_fields[name] for name in ("brokerName", "topicSysFlag", "groupSysFlag")}
    assert told == {"brokerName": "broker-a", "topicSysFlag": "0", "groupSysFlag": "0"}


@pytest.mark.parametrize("message_id", ["junk", "", None, "7F00000100002A9F0000000000FFFFFF"])
def test_a_message_that_is_not_there_is_not_consumed(cluster, client, message_id):
    client.send("flights")
    member = answering(cluster, "c1")
    answer = client.do(requests.consumers.CONSUME_MESSAGE_DIRECTLY, "g", "c1", message_id)
    assert (answer.code, bool(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)
    assert not [c for c in member.pushed if c.code == RequestCode.CONSUME_MESSAGE_DIRECTLY]


def test_the_status_of_a_group_that_is_offline_is_an_error(client):
    header = GetConsumerStatusRequestHeader("flights", "nobody")
    assert client.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header).code == ResponseCode.SYSTEM_ERROR

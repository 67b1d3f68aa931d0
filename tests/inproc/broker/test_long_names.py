# SPDX-License-Identifier: Apache-2.0
"""Names of any length: none stays in a table of broker or name server, and long lists are no frame that nobody can read."""

from __future__ import annotations

import zlib

import pytest

from interop.large_tables import dumped
from sprocketmq.broker.handlers import limits
from sprocketmq.core.resource_names import MAX_NAME_LENGTH, MAX_TEXT_LENGTH
from sprocketmq.wire.bodies import LockBatchResponseBody, TopicConfig, TopicList
from sprocketmq.wire.codes import RequestCode, ResponseCode

LONG = "n" * (MAX_NAME_LENGTH + 1)
TEXT = "n" * (MAX_TEXT_LENGTH + 1)


def heartbeat(client="c", producer="p", group="g", topic="t"):
    subscriptions = [{"topic": topic, "subString": "*"}]
    consumer = {"groupName": group, "subscriptionDataSet": subscriptions}
    return {"clientID": client, "producerDataSet": [{"groupName": producer}], "consumerDataSet": [consumer]}


def locks(client="c", group="g", topic="t", broker="b"):
    queue = {"topic": topic, "brokerName": broker, "queueId": 0}
    return {"clientId": client, "consumerGroup": group, "mqSet": [queue]}


def assignment(client="c", group="g", topic="t"):
    return {
        "clientId": client,
        "consumerGroup": group,
        "topic": topic,
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    }


def too_long(key):
    return {key: TEXT if key in {"client", "producer"} else LONG}


ASKED = [
    *((RequestCode.HEART_BEAT, heartbeat(**too_long(key))) for key in ("client", "producer", "group", "topic")),
    *((RequestCode.LOCK_BATCH_MQ, locks(**too_long(key))) for key in ("client", "group", "topic", "broker")),
    *((RequestCode.QUERY_ASSIGNMENT, assignment(**too_long(key))) for key in ("client", "group", "topic")),
]


@pytest.mark.parametrize(("code", "body"), ASKED)
def test_a_long_name_in_a_body_is_refused(client, code, body):
    answer = client.ask(code, body=dumped(body))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "characters long, at most" in (answer.remark or "")


@pytest.mark.parametrize(("code", "make"), [(34, heartbeat), (41, locks)])
def test_a_name_of_the_greatest_length_is_taken(client, code, make):
    asked = {"group": "g" * 200, "topic": LONG[1:], "client": TEXT[1:]}
    assert client.ask(code, body=dumped(make(**asked))).code == 0


@pytest.mark.parametrize("field", ["brokerName", "clusterName", "brokerAddr", "haServerAddr", "__ZONE_NAME"])
def test_a_long_name_of_a_broker_is_refused(cluster, field):
    names = cluster.namesrv_client()
    fields = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "brokerId": "0", "haServerAddr": ""}
    answer = names.ask(RequestCode.REGISTER_BROKER, body=b"", ext_fields={**fields, field: TEXT})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "characters long, at most" in (answer.remark or "")


@pytest.mark.parametrize("topics", [2, 2_000])
def test_a_long_topic_of_a_registration_is_refused(cluster, topics):
    names = cluster.namesrv_client()
    table = {name: TopicConfig(name).encode().decode() for name in (LONG, *map(str, range(topics)))}
    body = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%s}}}'
        % ",".join(f'"{name}":{config}' for name, config in table.items()).encode()
    )
    fields = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "brokerId": "0", "haServerAddr": ""}
    crc = {"bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
    answer = names.ask(RequestCode.REGISTER_BROKER, body=body, ext_fields={**fields, **crc})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "characters long, at most" in (answer.remark or "")
    assert cluster.namesrv.table.route("0") is None


def test_a_list_of_topics_that_fits_in_no_frame_is_refused(cluster, monkeypatch):
    names = cluster.namesrv_client()
    everything = names.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert TopicList.decode(everything.body).topic_list
    monkeypatch.setattr(limits, "_MOST_ANSWER_BYTES", len(everything.body) - 1)
    answer = names.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "are allowed" in (answer.remark or "")


def test_an_orderly_consumer_locks_all_queues_of_a_large_topic(cluster, client):
    queues = [{"topic": "t", "brokerName": "broker-a", "queueId": number} for number in range(3_000)]
    body = dumped({"clientId": "c", "consumerGroup": "g", "mqSet": queues})
    answer = client.ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == 0, answer.remark
    assert len(LockBatchResponseBody.decode(answer.body).lock_ok_mq_set) == len(cluster.broker.locks) == 3_000
    assert client.ask(RequestCode.UNLOCK_BATCH_MQ, body=body).code == 0
    assert len(cluster.broker.locks) == 0


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
def test_queues_are_locked_and_unlocked_in_steps(cluster, client, monkeypatch, code):
    steps = []
    for name in ("try_lock_batch", "unlock_batch"):
        real = getattr(cluster.broker.locks, name).__func__

        def counted(self, group, queues, *more, _real=real):
            queues = list(queues)
            steps.append(len(queues))
            return _real(self, group, queues, *more)

        monkeypatch.setattr(type(cluster.broker.locks), name, counted)
    queues = [{"topic": "t", "brokerName": "broker-a", "queueId": number} for number in range(3_000)]
    assert client.ask(code, body=dumped({"clientId": "c", "consumerGroup": "g", "mqSet": queues})).code == 0
    assert max(steps) <= 500
    assert sum(steps) == 3_000

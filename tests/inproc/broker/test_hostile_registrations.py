# SPDX-License-Identifier: Apache-2.0
"""What a stranger may tell a name server of a broker: queue numbers, odd JSON and the key that says who may change something."""

from __future__ import annotations

import asyncio
import struct
import zlib

import pytest

from interop.large_tables import dumped
from sprocketmq.broker import Broker
from sprocketmq.broker.replication.route_lookup import MAX_QUEUES_OF_A_TOPIC, MAX_QUEUES_REMEMBERED, RouteLookup
from sprocketmq.core.resource_names import MAX_QUEUES
from sprocketmq.errors import ProtocolError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.bodies import QueueData, RegistrationTopics, TopicRouteData
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.text import fastjson

WRITTEN_OUT = b'{"a":[' + b"{}," * 30_000 + b'"$ref"]}'
"""Odd JSON: our own parser has to read it, a hundred times slower."""


def fields(**more: str) -> dict[str, str]:
    return {
        "brokerName": "b",
        "brokerAddr": "127.0.0.1:1",
        "clusterName": "c",
        "brokerId": "0",
        "haServerAddr": "",
        **more,
    }


def registration(topics: int, **numbers: int) -> bytes:
    table = {f"t{n}": {"topicName": f"t{n}", "perm": 6} for n in range(topics)}
    table["t1"].update(numbers)
    wrapper = {"topicConfigTable": table, "dataVersion": {"counter": 1}}
    return dumped({"topicConfigSerializeWrapper": wrapper, "filterServerList": []})


def part(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def compressed(version: bytes, *topics: bytes) -> bytes:
    plain = part(version) + struct.pack(">i", len(topics)) + b"".join(map(part, topics)) + part(b"[]")
    return zlib.compress(plain)


@pytest.mark.parametrize("topics", [3, 2_000])
@pytest.mark.parametrize("number", [-1, MAX_QUEUES + 1, 2_000_000])
@pytest.mark.parametrize("key", ["readQueueNums", "writeQueueNums"])
def test_a_registration_with_an_impossible_number_of_queues_is_refused(cluster, topics, number, key):
    names = cluster.namesrv_client()
    answer = names.ask(RequestCode.REGISTER_BROKER, body=registration(topics, **{key: number}), ext_fields=fields())
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert f"{key} of topic t1 is {number}, 0 to {MAX_QUEUES} are allowed" in (answer.remark or "")
    assert "b" not in cluster.namesrv.table.cluster_info(0).broker_addr_table
    most = registration(topics, **{key: MAX_QUEUES})
    assert names.ask(RequestCode.REGISTER_BROKER, body=most, ext_fields=fields()).code == 0


@pytest.mark.parametrize("number", [-1, MAX_QUEUES + 1])
@pytest.mark.parametrize("key", ["readQueueNums", "writeQueueNums"])
def test_a_topic_registered_by_hand_needs_possible_numbers_of_queues(cluster, number, key):
    names = cluster.namesrv_client()
    data = {"brokerName": "broker-a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, key: number}
    body = dumped({"queueDatas": [data]})
    answer = names.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, body=body, ext_fields={"topic": "by-hand"})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert f"is {number}, 0 to" in (answer.remark or "")
    assert cluster.namesrv.table.route("by-hand") is None


def test_a_route_of_another_name_server_fills_no_memory():
    class Lookup(RouteLookup):
        async def _ask(self, topic: str) -> TopicRouteData:
            return TopicRouteData(queue_datas=[QueueData(name, 2**31 - 1, 4, 6) for name in "bcd"])

    broker = Broker(clock=ManualClock(0))
    broker.topics.create_if_absent("t", 3, 0)
    lookup = Lookup(broker)
    queues = asyncio.run(lookup.queues("t"))
    assert queues is not None
    assert len(queues) == MAX_QUEUES_OF_A_TOPIC + 3
    for number in range(5):
        asyncio.run(lookup.queues(f"t{number}"))
    assert sum(len(kept) for _, kept in lookup._elsewhere.values()) <= MAX_QUEUES_REMEMBERED


@pytest.mark.parametrize(
    "body",
    [
        compressed(WRITTEN_OUT),
        compressed(b"{}", *[b"t 4 4 6 SINGLE_TAG " + WRITTEN_OUT] * 2),
        compressed(b"{}", *[b"t 4 4 6 SINGLE_TAG " + WRITTEN_OUT[-8_000:].replace(b"{},", b'{"a":[{},', 1)] * 50),
        dumped({"topicConfigSerializeWrapper": {"topicConfigTable": {f"t{n}": "odd" for n in range(50)}}}).replace(
            b'"odd"', b'{"topicName":"t","perm":null,"x":[' + b"{}," * 2_500 + b"1]}"
        ),
    ],
    ids=["version", "attributes", "attributes of many", "topics of many"],
)
def test_no_registration_reaches_the_slow_parser_with_more_than_8_kib(monkeypatch, body):
    read = 0
    loads = fastjson.loads

    def counted(data):
        nonlocal read
        read += len(data)
        return loads(data)

    monkeypatch.setattr(fastjson, "loads", counted)
    with pytest.raises(ProtocolError, match="standard JSON"):
        for _ in RegistrationTopics.of_request(body, 4_000_000, compressed=body[0] == 0x78).shares(500):
            pass
    assert read <= fastjson.MAX_ODD_REQUEST_BYTES


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": "0", "maxTopicNum": "1"}),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": "0", "maxGroupNum": "1"}),
    ],
)
def test_the_version_in_a_request_for_a_page_is_not_long_nonstandard_json(client, code, asked):
    answer = client.ask(code, ext_fields={**asked, "dataVersion": WRITTEN_OUT.decode()})
    assert answer.code != 0
    assert "standard JSON" in (answer.remark or "")

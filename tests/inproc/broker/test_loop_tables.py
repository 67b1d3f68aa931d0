# SPDX-License-Identifier: Apache-2.0
"""Tables that strangers fill: ten times the bound is asked for, and the table is no longer than its bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sprocketmq.broker import NameServer, NameServerConfig
from sprocketmq.wire.codes import RequestCode

BOUND = 20
FLOOD = 10 * BOUND
LIMITS = {
    "max_topics": 40,
    "max_subscription_groups": 40,
    "max_groups_per_connection": BOUND,
    "max_subscriptions_per_group": BOUND,
    "max_expression_length": 100,
    "max_consumer_offsets": BOUND,
    "max_filters": BOUND,
    "max_queue_locks": BOUND,
    "max_names_per_request": 2 * BOUND,
    "max_request_modes": BOUND,
    "max_tallies": BOUND,
    "enable_property_filter": True,
}
pytestmark = pytest.mark.parametrize("cluster", [LIMITS], indirect=True)


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


class Fields(dict[str, str]):
    def to_ext(self) -> dict[str, str]:
        return dict(self)


def beat(consumers: list[dict[str, Any]], producers: int = 0) -> bytes:
    groups = [{"groupName": f"p{number}"} for number in range(producers)]
    return body({"clientID": "stranger", "consumerDataSet": consumers, "producerDataSet": groups})


def group(name: str, *subscriptions: dict[str, Any]) -> dict[str, Any]:
    return {"groupName": name, "subscriptionDataSet": list(subscriptions)}


def topics_by_sends(cluster, client):
    return [client.send(f"t{number}") for number in range(FLOOD)], lambda: len(cluster.broker.topics.table), 40


def topics_by_an_administrator(cluster, client):
    fields = {"defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "order": "false"}
    asked = [
        client.ask(17, Fields(fields, topic=f"t{number}", topicFilterType="SINGLE_TAG", topicSysFlag="0"))
        for number in range(FLOOD)
    ]
    return asked, lambda: len(cluster.broker.topics.table), 40


def topics_in_one_request(cluster, client):
    asked = [client.ask(18, None, body({"topicConfigList": [{"topicName": f"t{n}"} for n in range(FLOOD)]}))]
    return asked, lambda: len(cluster.broker.topics.table), 40


def groups_by_heartbeats(cluster, client):
    asked = [client.ask(34, None, beat([group(f"g{number}")])) for number in range(FLOOD)]
    return asked, lambda: len(cluster.broker.groups.table), 40


def groups_in_one_heartbeat(cluster, client):
    asked = [client.ask(34, None, beat([group(f"g{number}") for number in range(FLOOD)]))]
    return asked, lambda: len(cluster.broker.consumers.groups), BOUND


def groups_in_one_request(cluster, client):
    asked = [client.ask(225, None, body({"groupConfigList": [{"groupName": f"g{n}"} for n in range(FLOOD)]}))]
    return asked, lambda: len(cluster.broker.groups.table), 40


def producer_groups(cluster, client):
    asked = [client.ask(34, None, beat([], FLOOD))]
    return asked, lambda: len(cluster.broker.producers.groups), BOUND


def subscriptions_of_a_group(cluster, client):
    subscriptions = [{"topic": f"t{number}", "subString": "*"} for number in range(FLOOD)]
    asked = [client.ask(34, None, beat([group("g", *subscriptions)]))]
    return asked, lambda: len(getattr(cluster.broker.consumers.get("g"), "subscriptions", ())), BOUND


def a_long_expression(cluster, client):
    asked = [client.ask(34, None, beat([group("g", {"topic": "t", "subString": "a" * 1_000})]))]
    return asked, lambda: len(getattr(cluster.broker.consumers.get("g"), "subscriptions", ())), 0


def expressions_of_a_heartbeat(cluster, client):
    subscriptions = [
        {"topic": f"t{number}", "subString": f"a = {number}" + " " * 80, "expressionType": "SQL92", "subVersion": 1}
        for number in range(BOUND)
    ]
    asked = [client.ask(34, None, beat([group("g", *subscriptions)]))]
    return asked, lambda: len(cluster.broker.filters), 4


def filters(cluster, client):
    asked = []
    for number in range(FLOOD):
        sql = {"topic": f"t{number}", "subString": "a > 1", "expressionType": "SQL92", "subVersion": 1}
        asked.append(client.ask(34, None, beat([group("g", sql)])))
    return asked, lambda: len(cluster.broker.filters), BOUND


def offsets(cluster, client):
    client.send("kept")
    client.heartbeat("c", group="g", topics={"kept": "*"})
    for number in range(10):
        client.send(f"t{number}")
    asked = [
        client.ask(15, Fields(consumerGroup="g", topic=f"t{n % 10}", queueId=str(n // 10), commitOffset="1"))
        for n in range(FLOOD)
    ]
    return asked, lambda: len(cluster.broker.offsets), BOUND


def offsets_of_queues_that_are_not_there(cluster, client):
    client.send("kept")
    client.heartbeat("c", group="g", topics={"kept": "*"})
    asked = [
        client.ask(15, Fields(consumerGroup="g", topic="kept", queueId=str(n), commitOffset="1"))
        for n in range(4, FLOOD)
    ]
    return asked, lambda: len(cluster.broker.offsets), 0


def locks_in_one_request(cluster, client):
    queues = [{"topic": f"t{number}", "brokerName": "b", "queueId": 0} for number in range(FLOOD)]
    answer = client.ask(41, None, body({"consumerGroup": "g", "clientId": "c", "mqSet": queues}))
    assert bytes(answer.body).count(b"queueId") == BOUND, "the others are not locked, which is no error"
    return [], lambda: len(cluster.broker.locks), BOUND


def locks(cluster, client):
    for number in range(FLOOD):
        queue = {"topic": f"t{number}", "brokerName": "b", "queueId": 0}
        client.ask(41, None, body({"consumerGroup": f"g{number}", "clientId": "c", "mqSet": [queue]}))
    return [], lambda: len(cluster.broker.locks), BOUND


def request_modes(cluster, client):
    client.send("kept")
    asked = [
        client.ask(401, None, body({"topic": "kept", "consumerGroup": f"g{number}", "mode": "PULL"}))
        for number in range(FLOOD)
    ]
    return asked, lambda: len(cluster.broker.request_modes), BOUND


def tallies(cluster, client):
    for topic in ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"):
        client.send(topic)
        for number in range(25):
            client.pull(f"g{number}", topic, 0, 0)
    return [], lambda: len(cluster.broker.counters.gets), BOUND


FLOODS: list[Callable[..., Any]] = [
    topics_by_sends,
    topics_by_an_administrator,
    topics_in_one_request,
    groups_by_heartbeats,
    groups_in_one_heartbeat,
    groups_in_one_request,
    producer_groups,
    subscriptions_of_a_group,
    a_long_expression,
    expressions_of_a_heartbeat,
    filters,
    offsets,
    offsets_of_queues_that_are_not_there,
    locks_in_one_request,
    locks,
    request_modes,
    tallies,
]


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_ten_times_its_bound_leaves_a_table_at_its_bound(cluster, client, flood):
    answers, length, bound = flood(cluster, client)
    assert cluster.on_loop(length) <= bound
    refused = [answer for answer in answers if answer.code]
    assert refused or not answers or flood is filters, "nothing was refused"
    for answer in refused:
        assert answer.remark, answer
    cluster.on_loop(cluster.broker.locks.check_invariants)
    assert client.send("t0" if flood is topics_by_sends else "BenchmarkTest").code == 0


def namesrv_flood(server: NameServer, name: str, ask: Callable[..., Any]) -> tuple[Callable[[], int], int]:
    broker = {"clusterName": "c", "brokerId": "0", "haServerAddr": ""}
    table = {"a": {"topicName": "a"}, "b": {"topicName": "b"}}
    if name == "keys":
        for number in range(FLOOD):
            ask(100, namespace="n", key=f"k{number}", value="v")
        return lambda: len(server.kv_config), BOUND
    if name == "namespaces":
        for number in range(FLOOD):
            ask(100, namespace=f"n{number}", key="k", value="v")
            ask(102, namespace=f"n{number}", key="k")
        return lambda: len(server.kv_config._table), BOUND
    if name == "bytes of values":
        for number in range(FLOOD):
            ask(100, namespace="n", key="k", value="v" * number)
        return lambda: len(server.kv_config.get("n", "k") or ""), 100
    if name == "brokers":
        for number in range(FLOOD):
            wrapper = body({"topicConfigSerializeWrapper": {"topicConfigTable": table, "dataVersion": {}}})
            ask(103, wrapper, brokerName=f"b{number}", brokerAddr=f"127.0.0.1:{number}", **broker)
        return lambda: len(server.table._live), BOUND
    table = {f"t{number}": {"topicName": f"t{number}"} for number in range(FLOOD)}
    for at in range(0, FLOOD, 10):
        part = dict(list(table.items())[at : at + 10])
        wrapper = body({"topicConfigSerializeWrapper": {"topicConfigTable": part, "dataVersion": {"counter": at}}})
        ask(103, wrapper, brokerName="b", brokerAddr="127.0.0.1:1", **broker)
    return lambda: len(server.table.topics()), 60


@pytest.mark.parametrize("name", ["keys", "namespaces", "bytes of values", "brokers", "topics"])
def test_ten_times_its_bound_leaves_a_table_of_the_name_server_at_its_bound(cluster, name):
    config = NameServerConfig(max_kv_config_keys=BOUND, max_kv_config_bytes=100, max_brokers=BOUND, max_topics=60)
    server = NameServer(port=0, config=config, engine=cluster.engine, clock=cluster.clock)
    server.start()
    try:
        client = cluster.client(server.address)

        def ask(code: int, wrapper: bytes = b"", **fields: str) -> Any:
            return client.ask(RequestCode(code), Fields(fields), wrapper)

        length, bound = namesrv_flood(server, name, ask)
        assert cluster.on_loop(length) <= bound
        cluster.on_loop(server.table.check_invariants)
    finally:
        server.stop()

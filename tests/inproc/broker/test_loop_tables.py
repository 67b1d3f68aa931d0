# SPDX-License-Identifier: Apache-2.0
"""Tables that strangers fill: ten times the bound is asked for, and the table is no longer than its bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inproc.broker.conftest import Fields
from sprocketmq.broker import Broker, NameServer
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command

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


def beat(consumers: list[dict[str, Any]], producers: int = 0) -> bytes:
    groups = [{"groupName": f"p{number}"} for number in range(producers)]
    return body({"clientID": "stranger", "consumerDataSet": consumers, "producerDataSet": groups})


def group(name: str, *subscriptions: dict[str, Any]) -> dict[str, Any]:
    return {"groupName": name, "subscriptionDataSet": list(subscriptions)}


def topics_by_sends(client):
    return [client.send(f"t{number}") for number in range(FLOOD)]


def topics_by_an_administrator(client):
    return [client.create_topic(f"t{number}", 1) for number in range(FLOOD)]


def topics_in_one_request(client):
    return [client.ask(18, None, body({"topicConfigList": [{"topicName": f"t{n}"} for n in range(FLOOD)]}))]


def groups_by_heartbeats(client):
    return [client.ask(34, None, beat([group(f"g{number}")])) for number in range(FLOOD)]


def groups_in_one_heartbeat(client):
    return [client.ask(34, None, beat([group(f"g{number}") for number in range(FLOOD)]))]


def groups_in_one_request(client):
    return [client.ask(225, None, body({"groupConfigList": [{"groupName": f"g{n}"} for n in range(FLOOD)]}))]


def producer_groups(client):
    return [client.ask(34, None, beat([], FLOOD))]


def subscriptions_of_a_group(client):
    subscriptions = [{"topic": f"t{number}", "subString": "*"} for number in range(FLOOD)]
    return [client.ask(34, None, beat([group("g", *subscriptions)]))]


def a_long_expression(client):
    return [client.ask(34, None, beat([group("g", {"topic": "t", "subString": "a" * 1_000})]))]


def sql(number: int, expression: str) -> dict[str, Any]:
    return {"topic": f"t{number}", "subString": expression, "expressionType": "SQL92", "subVersion": 1}


def expressions_of_a_heartbeat(client):
    subscriptions = [sql(number, f"a = {number}" + " " * 80) for number in range(BOUND)]
    return [client.ask(34, None, beat([group("g", *subscriptions)]))]


def filters(client):
    return [client.ask(34, None, beat([group("g", sql(number, "a > 1"))])) for number in range(FLOOD)]


def offsets(client):
    for number in range(10):
        client.send(f"t{number}")
    return [client.commit("own", f"t{n % 10}", n // 10, 1) for n in range(FLOOD)]


def offsets_of_queues_that_are_not_there(client):
    return [client.commit("own", "kept", n, 1) for n in range(4, FLOOD)]


def lock(client, name: str, *numbers: int) -> Command:
    queues = [{"topic": f"t{number}", "brokerName": "b", "queueId": 0} for number in numbers]
    return client.ask(41, None, body({"consumerGroup": name, "clientId": "c", "mqSet": queues}))


def locks_in_one_request(client):
    answer = lock(client, "g", *range(FLOOD))
    assert bytes(answer.body).count(b"queueId") == BOUND, "the others are not locked, which is no error"


def locks(client):
    for number in range(FLOOD):
        lock(client, f"g{number}", number)


def request_modes(client):
    asked = [{"topic": "kept", "consumerGroup": f"g{number}", "mode": "PULL"} for number in range(FLOOD)]
    return [client.ask(401, None, body(one)) for one in asked]


def tallies(client):
    for topic in "abcdefghij":
        client.send(topic)
        for number in range(25):
            client.pull(f"g{number}", topic, 0, 0)


def subscriptions(broker: Broker) -> Any:
    return getattr(broker.consumers.get("g"), "subscriptions", ())


@pytest.mark.parametrize(
    ("flood", "table", "bound"),
    [
        (topics_by_sends, lambda broker: broker.topics.table, 40),
        (topics_by_an_administrator, lambda broker: broker.topics.table, 40),
        (topics_in_one_request, lambda broker: broker.topics.table, 40),
        (groups_by_heartbeats, lambda broker: broker.groups.table, 40),
        (groups_in_one_heartbeat, lambda broker: broker.consumers.groups, BOUND),
        (groups_in_one_request, lambda broker: broker.groups.table, 40),
        (producer_groups, lambda broker: broker.producers.groups, BOUND),
        (subscriptions_of_a_group, subscriptions, BOUND),
        (a_long_expression, subscriptions, 0),
        (expressions_of_a_heartbeat, lambda broker: broker.filters, 4),
        (filters, lambda broker: broker.filters, BOUND),
        (offsets, lambda broker: broker.offsets, BOUND),
        (offsets_of_queues_that_are_not_there, lambda broker: broker.offsets, 0),
        (locks_in_one_request, lambda broker: broker.locks, BOUND),
        (locks, lambda broker: broker.locks, BOUND),
        (request_modes, lambda broker: broker.request_modes, BOUND),
        (tallies, lambda broker: broker.counters.gets, BOUND),
    ],
)
def test_ten_times_its_bound_leaves_a_table_at_its_bound(cluster, client, flood, table, bound):
    client.send("kept")
    client.heartbeat("c", group="own", topics={"kept": "*"})
    answers = flood(client) or []
    assert cluster.on_loop(lambda: len(table(cluster.broker))) <= bound
    refused = [answer for answer in answers if answer.code]
    assert refused or not answers or flood is filters, "nothing was refused"
    for answer in refused:
        assert answer.remark, answer
    cluster.on_loop(cluster.broker.locks.check_invariants)
    assert client.send("kept").code == 0


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
    limits = {"max_kv_config_keys": BOUND, "max_kv_config_bytes": 100, "max_brokers": BOUND, "max_topics": 60}
    server = cluster.new_name_server(**limits)
    client = cluster.client(server.address)

    def ask(code: int, wrapper: bytes = b"", **fields: str) -> Any:
        return client.ask(RequestCode(code), Fields(fields), wrapper)

    length, bound = namesrv_flood(server, name, ask)
    assert cluster.on_loop(length) <= bound
    cluster.on_loop(server.table.check_invariants)

# SPDX-License-Identifier: Apache-2.0
"""core.route_table: queues and addresses out of routes."""

from __future__ import annotations

import pytest

from sprocketmq.core.produce.route_table import (
    BrokerAddress,
    RouteTable,
    find_broker,
    is_changed,
    publish_queues,
    route_for_new_topic,
    subscribe_queues,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData
from sprocketmq.wire.records.message import MessageQueue


def queue_data(broker: str, read: int = 2, write: int = 2, perm: int = 6) -> QueueData:
    return QueueData(broker_name=broker, read_queue_nums=read, write_queue_nums=write, perm=perm)


def broker_data(broker: str, addresses: dict[int, str] | None = None) -> BrokerData:
    return BrokerData(cluster="c", broker_name=broker, broker_addrs=addresses or {0: f"{broker}:10911"})


def route(*brokers: str, order: str | None = None) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[queue_data(name) for name in brokers],
        broker_datas=[broker_data(name) for name in brokers],
        order_topic_conf=order,
    )


def names(queues: list[MessageQueue]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


@pytest.fixture
def table() -> RouteTable:
    return RouteTable()


def test_queues_come_in_the_order_of_broker_names():
    assert names(publish_queues("t", route("b", "a"))) == ["a0", "a1", "b0", "b1"]
    assert names(subscribe_queues("t", route("b", "a"))) == ["a0", "a1", "b0", "b1"]


def test_sending_needs_permission_and_a_master_and_reading_only_permission():
    data = TopicRouteData(
        queue_datas=[
            queue_data("full", read=1, write=3),
            queue_data("readonly", perm=4),
            queue_data("slave", 1, 1),
            queue_data("writeonly", perm=2),
            queue_data("unknown", 1, 1),
        ],
        broker_datas=[
            broker_data("full"),
            broker_data("readonly"),
            broker_data("slave", {1: "s:1"}),
            broker_data("writeonly"),
        ],
    )
    assert names(publish_queues("t", data)) == ["full0", "full1", "full2", "writeonly0", "writeonly1"]
    assert names(subscribe_queues("t", data)) == ["full0", "readonly0", "readonly1", "slave0", "unknown0"]


def test_an_order_configuration_names_the_queues():
    assert names(publish_queues("t", route("a", order="z:2;a:1"))) == ["z0", "z1", "a0"]
    with pytest.raises(ConfigurationError):
        publish_queues("t", route("a", order="z"))


def test_a_topic_that_does_not_exist_yet_gets_few_queues():
    default = TopicRouteData(queue_datas=[queue_data("a", 8, 8, 7), queue_data("b", 2, 8, 7)], broker_datas=[])
    capped = route_for_new_topic(default, 4)
    assert [(data.read_queue_nums, data.write_queue_nums) for data in capped.queue_datas] == [(4, 4), (2, 2)]
    assert default.queue_datas[0].read_queue_nums == 8


def test_a_route_is_changed_by_content_and_not_by_order():
    assert is_changed(None, route("a"))
    assert not is_changed(route("a", "b"), route("b", "a"))
    assert is_changed(route("a"), route("a", "b"))
    assert is_changed(route("a"), route("a", order="a:1"))
    moved = route("a")
    moved.broker_datas[0].broker_addrs = {0: "elsewhere:1"}
    assert is_changed(route("a"), moved)
    grown = route("a")
    grown.queue_datas[0].write_queue_nums += 1
    assert is_changed(route("a"), grown)
    table = RouteTable()
    assert table.update("t", route("a", "b"))
    assert not table.update("t", route("b", "a"))
    assert table.update("t", grown)


def test_a_route_update_reports_changes_and_keeps_queues(table):
    assert table.publish_queues("t") == table.subscribe_queues("t") == []
    assert table.update("t", route("a"))
    assert not table.update("t", route("a"))
    assert names(table.publish_queues("t")) == ["a0", "a1"]
    assert table.update("t", route("a", "b"))
    assert names(table.subscribe_queues("t")) == ["a0", "a1", "b0", "b1"]


def test_a_bad_order_configuration_changes_nothing(table):
    table.update("t", route("a"))
    with pytest.raises(ConfigurationError):
        table.update("t", route("a", order="nonsense"))
    assert table.route("t") == route("a")


def test_an_address_is_known_while_a_route_names_it(table):
    table.update("t", route("a"))
    table.update("u", route("a", "b"))
    assert table.master_address("b") == "b:10911"
    table.update("u", route("a"))
    assert table.master_address("b") is None
    assert table.brokers() == {"a": {0: "a:10911"}}


def test_the_newest_answer_about_a_broker_wins(table):
    table.update("t", route("a"))
    table.update("u", route("a"))
    moved = route("a")
    moved.broker_datas[0].broker_addrs = {0: "new:1"}
    table.update("t", moved)
    assert table.master_address("a") == "new:1"
    again = route("a", "b")
    again.broker_datas[0].broker_addrs = {0: "newer:1"}
    table.update("v", again)  # the first route of a topic
    assert (table.master_address("a"), list(table.brokers())) == ("newer:1", ["a", "b"])


@pytest.mark.parametrize(
    ("addresses", "broker_id", "expected"),
    [
        ({0: "m", 1: "s"}, 0, BrokerAddress("m", 0)),
        ({0: "m", 1: "s"}, 1, BrokerAddress("s", 1)),
        ({0: "m", 2: "s"}, 1, BrokerAddress("s", 2)),
        ({0: "m"}, 1, BrokerAddress("m", 0)),
        ({1: "s"}, 0, BrokerAddress("s", 1)),
    ],
)
def test_a_missing_copy_is_replaced_by_another(table, addresses, broker_id, expected):
    table.update("t", TopicRouteData(queue_datas=[], broker_datas=[broker_data("a", addresses)]))
    found = table.broker_address("a", broker_id)
    assert found == expected
    assert found.is_slave == (found.broker_id != 0)
    assert table.broker_address("nobody", 0) is None


def test_any_broker_of_a_topic_can_be_asked(table):
    assert table.any_address("t") is None
    table.update("t", route("a", "b"))
    assert {table.any_address("t", choice) for choice in range(4)} == {"a:10911", "b:10911"}
    table.update("t", TopicRouteData(queue_datas=[], broker_datas=[broker_data("a", {2: "s2", 1: "s1"})]))
    assert table.any_address("t", 7) == "s1"


@pytest.mark.parametrize(
    ("addresses", "perm", "acting", "found"),
    [
        ({0: "m", 1: "s"}, 6, False, ("m", 0)),
        ({0: "m", 1: "s"}, 6, True, ("m", 0)),
        ({0: "m"}, 4, False, ("m", 0)),
        ({0: "s1", 2: "s2"}, 4, True, ("s1", 1)),  # a 5.x name server shows a replica that acts as master as number 0
        ({2: "s2", 1: "s1"}, 6, False, ("s1", 1)),
        ({}, 6, False, None),
    ],
)
def test_a_broker_is_its_master_or_its_first_replica(addresses, perm, acting, found):
    broker = BrokerData(broker_name="a", broker_addrs=addresses, enable_acting_master=acting)
    route = TopicRouteData(queue_datas=[QueueData(broker_name="a", perm=perm)], broker_datas=[broker])
    assert find_broker(route, "a") == (None if found is None else BrokerAddress(*found))
    assert find_broker(route, "b") is None

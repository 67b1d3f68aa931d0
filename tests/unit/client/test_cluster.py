# SPDX-License-Identifier: Apache-2.0
"""Where a broker is, by routes that are not old, and how often a request is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.retrying import retrying
from sprocketmq.core.backoff import Backoff
from sprocketmq.core.produce.route_table import BrokerAddress
from sprocketmq.errors import NetworkError, RemoteError, SystemBusy
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData

Registered = dict[int, str]


def route(addresses: Registered, name: str = "a") -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[QueueData(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1)],
        broker_datas=[BrokerData(broker_name=name, broker_addrs=addresses)],
    )


class Names:
    """A cluster whose name server knows these routes and brokers."""

    def __init__(self, routes: dict[str, TopicRouteData], registered: Registered | None = None) -> None:
        self.cluster = Cluster(ConnectionPool(), ["127.0.0.1:1"])
        self.asked: list[str] = []
        servers: Any = self.cluster.name_servers

        async def ask_route(topic: str) -> TopicRouteData | None:
            self.asked.append(topic)
            return routes.get(topic)

        async def broker_addresses(name: str) -> Registered:
            self.asked.append(f"broker {name}")
            return registered or {}

        servers.route, servers.broker_addresses = ask_route, broker_addresses

    def find(self, *more: Any, **how: Any) -> BrokerAddress:
        return asyncio.run(self.cluster.broker("a", *more, **how))


@pytest.mark.parametrize("are_refreshed", [True, False])
def test_a_route_counts_for_some_seconds_and_for_as_long_as_it_is_refreshed(are_refreshed, monkeypatch):
    names = Names({"flights": route({0: "m:1", 1: "s:1"})})
    names.cluster.routes._are_refreshed = are_refreshed

    async def main() -> None:
        loop, later_s = asyncio.get_running_loop(), [0.0]
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + later_s[0])
        for later_s[0] in (0.0, 7.0, 20.0):
            assert await names.cluster.master("a", "flights") == "m:1"
        assert names.asked == ["flights"] * (1 if are_refreshed else 2)
        names.cluster.routes.forget()
        assert await names.cluster.master("a", "flights") == "m:1"
        assert len(names.asked) == (1 if are_refreshed else 3)

    asyncio.run(main())


def test_a_route_of_another_topic_names_the_broker_too_while_it_is_not_old():
    names = Names({"flights": route({0: "m:1"})}, {0: "moved:1"})
    assert names.find("flights").address == "m:1"
    assert names.find("gone").address == "m:1"
    assert names.asked == ["flights", "gone"]
    names.cluster.routes.forget()
    assert names.find("gone").address == "moved:1"


def test_only_a_master_counts_unless_a_replica_will_do():
    slaves = {2: "s2:1", 1: "s1:1"}
    names = Names({"flights": route(slaves)}, slaves)
    with pytest.raises(NetworkError, match="has no master now"):
        names.find("flights")
    assert names.find("flights", or_replica=True) == BrokerAddress("s1:1", 1)
    assert Names({}, slaves).find(or_replica=True) == BrokerAddress("s1:1", 1)
    with pytest.raises(NetworkError, match="is not registered"):
        Names({}).find("flights", or_replica=True)
    assert Names({"flights": route(slaves)}, {0: "m:1", **slaves}).find("flights") == BrokerAddress("m:1", 0)


def failing(*errors: Exception) -> Callable[[], Any]:
    left = list(errors)

    async def ask() -> int:
        if left:
            raise left.pop(0)
        return 7

    return ask


def test_a_request_is_repeated_while_its_failure_may_pass_and_there_is_time():
    told: list[str] = []
    busy = [SystemBusy(2, "later") for _ in range(3)]
    asked = retrying(failing(*busy), 5_000, failed=lambda error, left_s: told.append(str(error)))
    assert asyncio.run(asked) == 7
    assert len(told) == 3
    with pytest.raises(RemoteError, match="no"):
        asyncio.run(retrying(failing(RemoteError(1, "no")), 5_000))
    with pytest.raises(SystemBusy):
        asyncio.run(retrying(failing(*busy), 50))
    assert asyncio.run(retrying(failing(RemoteError(1, "no")), 5_000, lambda error: True)) == 7


def test_pauses_double_up_to_the_longest():
    backoff = Backoff(0.1, 0.5)
    assert [backoff.next_s() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]

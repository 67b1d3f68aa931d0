# SPDX-License-Identifier: Apache-2.0
"""Who is a broker's master by a route, a replica that acts as one included."""

from __future__ import annotations

import pytest

from sprocketmq.client.remoting.masters import known_master, known_replica
from sprocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData


def route(addresses: dict[int, str], perm: int, acting: bool) -> TopicRouteData:
    broker = BrokerData(broker_name="a", broker_addrs=addresses, enable_acting_master=acting)
    return TopicRouteData(queue_datas=[QueueData(broker_name="a", perm=perm)], broker_datas=[broker])


@pytest.mark.parametrize(
    ("addresses", "perm", "acting", "master"),
    [
        ({0: "m", 1: "s"}, 6, False, "m"),
        ({0: "m", 1: "s"}, 6, True, "m"),
        ({0: "m"}, 4, False, "m"),
        ({1: "s"}, 6, False, None),
        ({}, 6, False, None),
    ],
)
def test_a_master_is_number_0(addresses: dict[int, str], perm: int, acting: bool, master: str | None) -> None:
    assert known_master(route(addresses, perm, acting), "a") == master
    assert known_master(route(addresses, perm, acting), "b") is None


def test_a_replica_that_acts_as_master_is_none() -> None:
    """A 5.x name server shows it as number 0 and takes the permission to write."""
    assert known_master(route({0: "s1", 2: "s2"}, 4, True), "a") is None
    assert known_replica(route({0: "s1", 2: "s2"}, 4, True), "a") == "s1"
    assert known_replica(route({2: "s2", 1: "s1"}, 6, False), "a") == "s1"
    assert known_replica(route({}, 6, False), "a") is None

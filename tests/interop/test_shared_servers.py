# SPDX-License-Identifier: Apache-2.0
"""A shared server is chosen by its settings, whoever came first, and is left with them. And what of mqadmin's output is compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from interop.mqadmin_output import printed_lines
from interop.peers import ALL_VERSIONS, ApacheCluster, SprocketServer
from interop.remoting import can_send, create_topic, has_route
from interop.shared_servers import SharedServers, settings_of


class Started:
    """In place of a server: remembers what it was started with."""

    def __init__(self, **settings: str | int | bool) -> None:
        self.settings = {name: str(value) for name, value in settings.items()}
        self.runs = True

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.runs = False


def read(server: Started) -> dict[str, dict[str, str]]:
    if not server.runs:
        raise ConnectionRefusedError("nobody listens")
    return {"broker": dict(server.settings)}


@pytest.fixture
def pool() -> Iterator[SharedServers]:
    with SharedServers(read) as servers:
        yield servers


NEEDS = ({"filter": True, "level": 1}, {"filter": False, "level": 1}, {"level": 1, "filter": True}, {})


@pytest.mark.parametrize("order", list(itertools.permutations(range(len(NEEDS)))), ids=str)
def test_requests_get_servers_with_their_settings_in_any_order(pool: SharedServers, order: tuple[int, ...]) -> None:
    got = {number: pool.get("a version", Started, **NEEDS[number]) for number in order}
    for number, server in got.items():
        assert server.settings == {name: str(value) for name, value in NEEDS[number].items()}
    assert got[0] is got[2], "the same settings are the same server"
    assert len({id(server) for server in got.values()}) == 3


def test_each_version_has_its_own_server(pool: SharedServers) -> None:
    assert pool.get("one", Started, level=1) is not pool.get("other", Started, level=1)


def test_a_server_that_died_is_reported_and_replaced(pool: SharedServers) -> None:
    died = pool.get("one", Started)
    died.runs = False
    assert pool.put_back() == ["the shared server one does not answer any more: nobody listens"]
    assert pool.get("one", Started) is not died
    assert pool.put_back() == []


def test_all_members_stop_together() -> None:
    with SharedServers(read) as servers:
        started = [servers.get("one", Started, level=level) for level in (1, 2)]
    assert [server.runs for server in started] == [False, False]


def test_a_setting_that_was_left_changed_is_reported_and_restored() -> None:
    with SharedServers() as servers:
        server = servers.get("ours", SprocketServer, maxMessageSize=5000)
        assert servers.put_back() == []
        servers._set(server, "broker", {"maxMessageSize": "6000"})
        assert servers.put_back() == ["maxMessageSize of the broker of ours is 6000, it was 5000"]
        assert settings_of(server)["broker"]["maxMessageSize"] == "5000"
        assert servers.put_back() == []


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_server_that_has_started_takes_a_topic_and_a_message_at_once(java_peers: None, version: str) -> None:
    with ApacheCluster(version) as cluster:
        create_topic(cluster.broker_addr, "orders", 1)
        assert has_route(cluster.namesrv_addr, "orders")
        assert can_send(cluster.broker_addr, "orders", "broker-a")


CLUSTER = "DefaultCluster  {name}  0  127.0.0.1:{port}  V5_4_0  {tps}  {timer}  {waited}  {hour}  0.{space}  true"


def test_counters_and_addresses_that_mqadmin_prints_are_no_difference() -> None:
    first = {"name": "broker-a", "port": 20001, "tps": "0.00(0,0ms)  0.00(0,0ms|0,0ms)", "timer": "0-0(0.0w, 0.0, 0.0)"}
    first.update(waited=0, hour="490000.11", space="4800")
    later = {**first, "port": 31999, "tps": "12.40(3,17ms)  1.10(2,4ms|1,6ms)", "timer": "1-12(0.1w, 3.0, 2.0)"}
    later.update(waited=12, hour="0.02", space="4913")
    assert printed_lines(CLUSTER.format(**first), True) == printed_lines(CLUSTER.format(**later), True)
    assert printed_lines(CLUSTER.format(**first), True) != printed_lines(CLUSTER.format(**{**later, "name": "b"}), True)

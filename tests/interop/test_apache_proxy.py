# SPDX-License-Identifier: Apache-2.0
"""Apache's proxy as the other tests start it: one broker, two, TLS, accounts, LOCAL mode. What it tells, asked without our client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from interop.peers import APACHE_5, APACHE_55, ApacheCluster, ApacheProxy, LocalProxy
from interop.remoting import Answer, Keys, ask, can_send
from interop.shared_servers import SharedServers
from interop.test_access import USERS

GET_ROUTEINFO_BY_TOPIC, GET_MAX_OFFSET, GET_TOPIC_STATS_INFO = 105, 30, 202
SYSTEM_ERROR, NOT_SERVED, VERSION_NOT_SUPPORTED = 1, 3, 15


@pytest.fixture(scope="module", params=[APACHE_5, APACHE_55])
def two_brokers(request: pytest.FixtureRequest, java_peers: None) -> Iterator[ApacheProxy]:
    """One name server, two brokers, accounts; behind a proxy that speaks only TLS."""
    with (
        ApacheCluster(request.param, **USERS) as first,
        ApacheCluster(request.param, namesrv_addr=first.namesrv_addr, brokerName="broker-b", **USERS) as second,
        ApacheProxy(first, second, tls=True) as proxy,
    ):
        yield proxy


def route(proxy_addr: str, topic: str, **how: object) -> dict[str, str]:
    """The address of each broker of a topic."""
    answer = ask(proxy_addr, GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, **how)  # type: ignore[arg-type]
    return {broker["brokerName"]: broker["brokerAddrs"]["0"] for broker in json.loads(answer.body)["brokerDatas"]}


def max_offset(address: str, topic: str, **broker: str) -> Answer:
    return ask(address, GET_MAX_OFFSET, {"topic": topic, "queueId": "0", **broker})


def test_one_address_is_name_server_and_broker_and_wants_the_name_of_the_broker(proxy: ApacheProxy) -> None:
    proxy.create_topic("behind", 1)
    assert route(proxy.namesrv_addr, "behind") == {"broker-a": proxy.namesrv_addr}
    sent = int(max_offset(proxy.namesrv_addr, "behind", bname="broker-a").header["extFields"]["offset"])
    assert can_send(proxy.namesrv_addr, "behind", "broker-a")
    assert max_offset(proxy.namesrv_addr, "behind", bname="broker-a").header["extFields"]["offset"] == str(sent + 1)
    unnamed = max_offset(proxy.namesrv_addr, "behind")
    assert (unnamed.code, unnamed.header["remark"]) == (VERSION_NOT_SUPPORTED, "Request doesn't have field bname")
    assert ask(proxy.namesrv_addr, GET_TOPIC_STATS_INFO, {"topic": "behind", "bname": "broker-a"}).code == NOT_SERVED


@pytest.mark.parametrize("message_type", ["FIFO", "DELAY", "TRANSACTION"])
def test_a_topic_with_a_type_takes_no_other_messages(proxy: ApacheProxy, message_type: str) -> None:
    proxy.create_topic(f"only-{message_type}", 1, message_type)
    assert not can_send(proxy.namesrv_addr, f"only-{message_type}", "broker-a")
    assert can_send(proxy.clusters[0].broker_addr, f"only-{message_type}", "broker-a")


def test_a_proxy_that_was_killed_starts_anew_at_its_address(servers: SharedServers) -> None:
    with ApacheProxy(servers.apache(APACHE_5)) as proxy:
        address = proxy.namesrv_addr
        proxy.kill()
        assert not can_send(address, "behind", "broker-a")
        proxy.start()
        assert proxy.namesrv_addr == address


@pytest.mark.nightly
def test_two_brokers_behind_one_proxy_have_one_address(two_brokers: ApacheProxy) -> None:
    two_brokers.create_topic("spread", 1)
    keys, address = two_brokers.keys, two_brokers.namesrv_addr
    assert route(address, "spread", keys=keys, tls=True) == {"broker-a": address, "broker-b": address}
    for cluster in two_brokers.clusters:
        assert can_send(address, "spread", cluster.broker_name, keys=keys, tls=True)
        stored = ask(cluster.broker_addr, GET_MAX_OFFSET, {"topic": "spread", "queueId": "0"}, keys=keys)
        assert stored.header["extFields"]["offset"] == "1"


@pytest.mark.nightly
def test_a_proxy_of_tls_and_accounts_refuses_plain_connections_and_strangers(two_brokers: ApacheProxy) -> None:
    ask_for_route = partial(ask, two_brokers.namesrv_addr, GET_ROUTEINFO_BY_TOPIC, {"topic": "spread"})
    with pytest.raises(OSError, match="closed|reset"):
        ask_for_route(keys=two_brokers.keys)
    strangers = (None, Keys("Nobody77", "boss-secret"), Keys("Boss7777", "wrong-secret"))
    answers = [ask_for_route(keys=who, tls=True) for who in strangers]
    # Code 1, where a broker answers 16 (NO_PERMISSION).
    assert {answer.code for answer in answers} == {SYSTEM_ERROR}
    assert [answer.header["remark"] for answer in answers[:2]] == [
        "username cannot be null.",
        "User:Nobody77 is not found.",
    ]
    assert "check signature failed" in answers[2].header["remark"]


@pytest.mark.nightly
@pytest.mark.parametrize("version", [APACHE_5, APACHE_55])
def test_in_local_mode_remoting_clients_use_the_broker_and_not_the_proxy(java_peers: None, version: str) -> None:
    with LocalProxy(version) as local:
        local.create_topic("orders", 1)
        assert can_send(local.broker_addr, "orders", "broker-a")
        assert route(local.proxy_addr, "orders") == {"broker-a": local.endpoints}
        refused = max_offset(local.proxy_addr, "orders", bname="broker-a")
        assert (refused.code, refused.header["remark"]) == (SYSTEM_ERROR, "request is not implemented in LocalMessageService")  # fmt: skip

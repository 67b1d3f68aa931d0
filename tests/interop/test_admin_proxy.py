# SPDX-License-Identifier: Apache-2.0
"""Administration, command line and console at Apache's own proxy, with two brokers behind its address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console_server import RunningConsole
from interop.apache_proxy import ApacheProxy
from interop.peers import APACHE_5, APACHE_55, ApacheCluster
from interop.shared_servers import FAST
from proxy_shop import FAILS, LESS, NOT_SERVED, OF_MEMBERS, ONLINE, PAGES, SAME, TOPIC, WORKS, Shop, open_shop

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", params=[APACHE_5, APACHE_55])
def shop(java_peers: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with (
        ApacheCluster(request.param, **FAST) as first,
        ApacheCluster(request.param, namesrv_addr=first.namesrv_addr, brokerName="broker-b", **FAST) as second,
        ApacheProxy(first, second) as proxy,
    ):
        proxy.create_topic(TOPIC, 2)
        proxy.create_topic("later", 2, "DELAY")
        with open_shop(first.namesrv_addr, proxy.namesrv_addr, tmp_path_factory.mktemp("shop")) as shop:
            yield shop


def test_requests_have_the_result_of_the_brokers(shop):
    """What the brokers do not know is who is online: the proxy keeps heartbeats."""
    # Brokers keep a reset of 5.x until the next pull, and answer with it.
    for name in sorted(SAME.keys() - OF_MEMBERS, key=lambda name: (name.startswith(("reset", "skip")), name)):
        shop.check_same(name)
    for name in LESS:
        assert LESS[name](shop.at_proxy, shop) is not None
    assert shop.at_proxy.consumer_ids(ONLINE) == [shop.member.client_id]
    connection, subscription = shop.at_proxy.consumer_connection(ONLINE), shop.at_proxy.subscription(ONLINE, TOPIC)
    assert connection is not None
    assert [one.client_id for one in connection.connection_set] == [shop.member.client_id]
    assert subscription is not None
    assert subscription.sub_string == "*"


def test_what_is_not_served_is_said_and_changes_nothing(shop):
    before = shop.stored()
    for name in NOT_SERVED:
        shop.check_not_served(name)
    assert shop.stored() == before


def test_commands_work_or_say_why_they_do_not(shop):
    for command in WORKS:
        shop.check_works(command)
    before = shop.stored()
    for command in FAILS:
        shop.check_fails(command)
    assert shop.stored() == before


def test_the_pages_of_the_console(shop):
    with RunningConsole(shop.proxy_addr, allow_changes=True) as console:
        console.until("no such account", "/dead-letters", group=ONLINE)
        for path, parameters, shown in PAGES:
            shop.check_page(console, path, parameters, shown)
        assert "stored in" in console.post("/topic/send", topic=TOPIC, body="by hand").text
        console.until('Queues with progress</dt><dd class="big">4</dd>', "/group/live", name=ONLINE)

# SPDX-License-Identifier: Apache-2.0
"""What the tests inside one process share: none leaves a client behind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from embedded_proxy import embedded_proxy, second_broker_of
from proxy_shop import TOPIC, Shop, open_shop
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.core.sql92 import compile_sql92
from sprocketmq.store.services import retention
from sprocketmq.testing import EmbeddedRocketMQ

PATIENCE_S = 30.0


@pytest.fixture(scope="module", autouse=True)
def every_client_is_shut_down(every_module_is_loaded: None) -> Iterator[None]:
    """A client that is left running looks for its dead broker during all later tests of the process: it logs there, and its tasks are
    counted there."""
    before = set(ClientInstance._instances)
    yield
    deadline = time.monotonic() + PATIENCE_S  # one that was dropped shuts down on its loop
    while (left := set(ClientInstance._instances) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"clients that no test has shut down: {left}"


@pytest.fixture(scope="session", autouse=True)
def a_disk_with_room() -> Iterator[None]:
    """A broker refuses messages when its disk is 90 % full; these tests have little to write, and are not about the disk they run on."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retention, "_used_percent", lambda path: 50.0)
        yield


@pytest.fixture(scope="session")
def the_parser_is_loaded() -> None:
    """It may take longer than a request waits, on a machine with much to do."""
    compile_sql92("a = 1")


@pytest.fixture(scope="module")
def proxied() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as running:
        yield running


@pytest.fixture(scope="module")
def shop(proxied: EmbeddedRocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Two embedded brokers behind a proxy."""
    with (
        second_broker_of(proxied) as second,
        embedded_proxy(proxied, [proxied.broker, second]) as proxy_addr,
        rmq.Admin(namesrv_addr=proxied.namesrv_addr) as admin,
    ):
        for topic in (TOPIC, "later"):
            admin.create_topic(topic, queues=2)
        with open_shop(proxied.namesrv_addr, proxy_addr, tmp_path_factory.mktemp("shop")) as shop:
            yield shop

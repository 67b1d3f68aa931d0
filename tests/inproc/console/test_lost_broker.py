# SPDX-License-Identifier: Apache-2.0
"""A broker that has gone: the name servers forget it at once, the console does not."""

from __future__ import annotations

from typing import Any

import pytest

from console_server import RunningConsole
from embedded_proxy import second_broker_of
from sprocketmq.core.cluster.namesrv_table import NamesrvTable
from sprocketmq.testing import EmbeddedRocketMQ

PAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("/", {}), ("/brokers", {})),
    ("/broker", {"name": "broker-b", "id": 0}),
)
pytestmark = pytest.mark.rocketmq(clock="system")


def test_the_overview_names_a_broker_that_the_name_servers_forgot(rocketmq: EmbeddedRocketMQ) -> None:
    with RunningConsole(rocketmq.namesrv_addr) as console:

        def chips() -> list[str]:
            text = console.page("/")
            return [name for name in ("broker-a", "broker-b") if f"name={name}" in text]

        with second_broker_of(rocketmq):
            rocketmq.wait_until(lambda: chips() == ["broker-a", "broker-b"])
            assert "does not answer" not in console.page("/")
        rocketmq.wait_until(lambda: "1 broker does not answer" in console.page("/"))
        assert chips() == ["broker-a", "broker-b"]
        for page, named in PAGES:
            text = console.page(page, **named)
            assert "took its leave" in text, page
            assert "It is registered" not in text
        with second_broker_of(rocketmq):
            rocketmq.wait_until(lambda: "does not answer" not in console.page("/"))


def test_what_apaches_name_server_forgets_the_console_remembers(
    rocketmq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NamesrvTable, "_remember", lambda *args, **named: None)
    with RunningConsole(rocketmq.namesrv_addr) as console:
        with second_broker_of(rocketmq):
            rocketmq.wait_until(lambda: "name=broker-b" in console.page("/"))
        rocketmq.wait_until(lambda: "1 broker does not answer" in console.page("/"))
        for page, named in PAGES:
            text = console.page(page, **named)
            assert "was registered last" in text, page

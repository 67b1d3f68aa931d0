# SPDX-License-Identifier: Apache-2.0
"""A broker that has gone: the name servers forget it at once, the console does not."""

from __future__ import annotations

import pytest

from console_server import RunningConsole
from embedded_proxy import second_broker_of
from sprocketmq.testing import EmbeddedRocketMQ

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
        with second_broker_of(rocketmq):
            rocketmq.wait_until(lambda: "does not answer" not in console.page("/"))

# SPDX-License-Identifier: Apache-2.0
"""Peers that come and go each second, or ask what they may not: a few lines of the servers, with how often and who."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inproc.broker.test_broker_namesrv import register
from inproc.broker.test_broker_replication import Slave
from sprocketmq.broker.broker import Broker
from sprocketmq.wire.codes import RequestCode

SECONDS = 90


def warnings(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname != "DEBUG" and word in one.getMessage()]


def test_a_slave_that_comes_and_goes_is_two_lines_a_minute(disk_cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    broker: Broker = disk_cluster.broker
    for _ in range(SECONDS):
        slave = Slave(broker.replication.port, broker.store.max_physical_offset)
        disk_cluster.eventually(lambda: len(broker.replication.table.slaves) == 1)
        slave.close()
        disk_cluster.eventually(lambda: not broker.replication.table.slaves)
        disk_cluster.clock.advance(1_000)
    told = [line for line in warnings(caplog, "slave") if "asks for" not in line and not line.endswith(" connected")]
    assert "disconnected, it had the log up to" in told[0]
    assert 3 <= len(told) <= 4, told


def test_a_broker_that_comes_and_goes_is_two_lines_a_minute_at_the_name_server(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(SECONDS):
        names = cluster.namesrv_client()
        assert register(names).code == 0
        names.close()
        cluster.eventually(lambda: "10.0.0.9:10911" not in cluster.namesrv.table._live)
        cluster.clock.advance(1_000)
    told = warnings(caplog, "broker other at 10.0.0.9:10911")
    assert "closed its connection and is removed, clients do not find it until it registers again" in told[0]
    assert "is registered again after" in told[1]
    assert 3 <= len(told) <= 4, told


@pytest.mark.parametrize("disk_cluster", [{"acl_enable": True}], indirect=True)
def test_a_client_that_may_not_is_one_line_a_minute(
    tmp_path: Path, disk_cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert json.loads((tmp_path / "store/config/plain_acl.yml").read_text() or "{}") == {}
    stranger = disk_cluster.client()
    for _ in range(SECONDS):
        for _ in range(3):
            assert stranger.ask(RequestCode.GET_ALL_TOPIC_CONFIG).code != 0
        disk_cluster.clock.advance(1_000)
    told = warnings(caplog, "is refused")
    assert len(told) == 2, told
    assert told[1].endswith("(for 60 s, 179 more since the last line: 127.0.0.1)")

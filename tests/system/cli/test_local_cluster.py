# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq cluster``: three masters, one of them killed and brought back."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from interop.apache_cluster import free_ports
from interop.java_peers import APACHE_55, JavaPeers
from system.cli.conftest import Cli, Ended

DEADLINE_S = 60


class Machine:
    """The command, with a directory and contexts of its own."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli, self.data_dir = cli, folder / "cluster"
        self.port = free_ports(*range(1, 8), *range(8, 32))

    def __call__(self, *words: str) -> Ended:
        return self.cli.run("cluster", *words, "--data-dir", str(self.data_dir))

    def servers(self) -> dict[str, Any]:
        return {row["server"]: row for row in json.loads(self("status", "--json").out)}


@pytest.fixture
def machine(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("SPROCKETMQ_CONTEXTS", str(tmp_path / "contexts.json"))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    machine = Machine(cli, tmp_path)
    yield machine
    if (machine.data_dir / "cluster.json").exists():
        machine("down", "--kill", "--delete")


def brokers_of(machine: Machine) -> set[str]:
    """Those that take a message in a round of sends."""
    addresses = (machine.servers()[name]["address"] for name in ("namesrv-a", "namesrv-b"))
    with rmq.Producer("shop", namesrv_addr=";".join(addresses)) as producer:
        return {producer.send(rmq.Message("orders", b"x")).message_queue.broker_name for _ in range(12)}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_masters_of_which_one_is_killed_and_comes_back(machine: Machine, cli: Cli) -> None:
    up = machine("up", "-n", "3", "--first-port", str(machine.port))
    assert up.code == 0, up
    assert f"http://127.0.0.1:{machine.port}/?token=" in up.out
    assert sorted(machine.servers()) == [
        *("broker-a", "broker-b", "broker-c"),
        "console",
        *("namesrv-a", "namesrv-b", "namesrv-c"),
    ]
    assert len(json.loads(cli.run("broker", "list", "--json").out)) == 3, "the context is the current one"
    assert cli.run("topic", "create", "orders", "--queues", "1").code == 0
    assert brokers_of(machine) == {"broker-a", "broker-b", "broker-c"}
    twice = machine("up")
    assert (twice.code, "is running already" in twice.err) == (2, True)
    other = machine("up", "-n", "2")
    assert (other.code, "has 3 masters of SprocketMQ" in other.err) == (2, True)

    killed = machine("down", "broker-b", "--kill")
    assert killed.out.startswith("killed broker-b; messages stay in ")
    assert machine("status").code == 1
    assert machine.servers()["broker-b"]["running"] is False
    end_s = time.monotonic() + DEADLINE_S
    while brokers_of(machine) != {"broker-a", "broker-c"}:
        assert time.monotonic() < end_s
    before = machine.servers()
    assert machine("up").code == 0
    assert {name for name, row in machine.servers().items() if row["pid"] != before[name]["pid"]} == {"broker-b"}
    assert "broker-b" in brokers_of(machine)

    assert machine("down").code == 0
    assert not any(row["running"] for row in machine.servers().values())
    assert "no contexts" in cli.run("context", "list").err
    assert machine("up", "--no-console").code == 0
    assert machine.servers()["broker-a"]["address"] == f"127.0.0.1:{machine.port + 10}", "as before"
    assert len(cli.run("tail", "orders", "--from-beginning").out.splitlines()) >= 24, "messages stay"
    assert machine("down", "--delete").code == 0
    assert not machine.data_dir.exists()


def test_a_server_that_cannot_start_is_a_sentence_and_nothing_stays(machine: Machine, cli: Cli) -> None:
    other = cli.start("namesrv", "--port", str(machine.port + 2))
    up = machine("up", "-n", "2", "--first-port", str(machine.port), "--no-console")
    assert up.code == 1
    assert f"namesrv-b did not start at 127.0.0.1:{machine.port + 2}: " in up.err
    assert not [row for row in machine.servers().values() if row["running"]]
    assert other.end().code == 0


def test_a_foreign_process_with_the_number_of_a_server_is_left_alone(machine: Machine, cli: Cli) -> None:
    other = cli.start("namesrv", "--port", "0")
    member = {"name": "broker-a", "address": "127.0.0.1:1", "pid": other.process.pid, "started": "1"}
    machine.data_dir.mkdir()
    content = {"count": 1, "first_port": machine.port, "apache": None, "members": [member]}
    (machine.data_dir / "cluster.json").write_text(json.dumps(content), "utf-8")
    assert machine.servers()["broker-a"]["running"] is False
    assert "killed nothing, because nothing ran" in machine("down", "--kill").out
    os.kill(other.process.pid, 0)
    assert other.end(signal.SIGTERM).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status",), "there is no cluster in "),
        (("down",), "'sprocketmq cluster up' starts one"),
        (("up", "--apache", "5.5.0"), "unpack rocketmq-all-5.5.0-bin-release.zip"),
    ],
)
def test_what_is_not_there_is_a_sentence(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "java").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    ended = machine(*words)
    assert (ended.code, said in ended.err) == (2, True), ended


@pytest.mark.nightly
@pytest.mark.peer
@pytest.mark.timeout(600)
def test_two_masters_of_apache(machine: Machine, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if reason := JavaPeers.available():
        pytest.skip(reason)
    home = tmp_path / "apache"
    home.mkdir()
    (home / "lib").symlink_to(JavaPeers.java(APACHE_55).lib)
    monkeypatch.setenv("ROCKETMQ_HOME", str(home))
    up = machine("up", "-n", "2", "--apache", APACHE_55, "--first-port", str(machine.port), "--no-console")
    assert up.code == 0, up
    versions = {row["broker_name"]: row["version"] for row in json.loads(cli.run("broker", "list", "--json").out)}
    assert versions == dict.fromkeys(("broker-a", "broker-b"), "V5_5_0")
    assert brokers_of(machine)
    assert machine("down", "--delete").code == 0

# SPDX-License-Identifier: Apache-2.0
"""A store that was killed several times changes hands: Apache's brokers open it, serve every message, write on; ours takes it back."""

from __future__ import annotations

import asyncio
import copy
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import sprocketmq as rmq
from interop.peers import VERSIONS, ApacheCluster, SprocketServer, free_ports, poll_until
from interop.send_ledger import BROKER_CONF, TOPIC, SendLedger, kill_repeatedly, read_topic
from sprocketmq.store.files.mapped_file import MappedFile
from sprocketmq.store.tools.check import check_directory
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = pytest.mark.usefixtures("java_peers")


@dataclass(frozen=True)
class KilledStore:
    path: Path
    ledger: SendLedger


@pytest.fixture(scope="module")
def killed(java_peers: None, tmp_path_factory: pytest.TempPathFactory) -> KilledStore:
    """A store as the last of five kills left it: `abort` is there, and nothing was repaired."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    first_port = free_ports(1)
    store = KilledStore(tmp_path_factory.mktemp("killed") / "store", SendLedger(seed))
    server = SprocketServer(store.path, ports=(first_port, first_port + 1), **BROKER_CONF)
    try:
        kill_repeatedly(server, store.ledger, 5)
    finally:
        server.stop()
    assert (store.path / "abort").exists()
    return store


@pytest.fixture
def inherit(killed: KilledStore, tmp_path: Path) -> Callable[[], KilledStore]:
    """A copy of the killed store and of its books."""

    def copied() -> KilledStore:
        return KilledStore(shutil.copytree(killed.path, tmp_path / "store"), copy.deepcopy(killed.ledger))

    return copied


@pytest.mark.parametrize("stop", [pytest.param("clean", marks=pytest.mark.nightly), "killed"])
@pytest.mark.parametrize("version", VERSIONS)
def test_apache_serves_what_kills_left_and_we_take_it_back(version, stop, inherit):
    """Each side leaves the store in the same way: after a clean stop, or killed, so that the other one has to repair it."""
    store = inherit()
    ledger = store.ledger
    if stop == "clean":
        with SprocketServer(store.path, **BROKER_CONF):
            pass
        assert not (store.path / "abort").exists()

    with ApacheCluster(version, store.path, **BROKER_CONF) as apache:
        assert ledger.audit(apache.namesrv_addr) == [], f"{version} does not serve what we acknowledged"
        before = len(ledger.receipts)
        asyncio.run(ledger.send_some(apache.namesrv_addr, 200))
        assert len(ledger.receipts) == before + 200
        poll_until(lambda: not ledger.undelivered(apache.namesrv_addr), "delayed messages are delivered", pause_s=0.5)
        assert ledger.audit(apache.namesrv_addr) == [], f"{version} does not serve what it acknowledged itself"
        if stop == "killed":
            apache.kill()

    with SprocketServer(store.path, **BROKER_CONF) as ours:
        assert ledger.audit(ours.namesrv_addr) == [], f"we do not serve what {version} left"
        asyncio.run(ledger.send_some(ours.namesrv_addr, 200))
        assert ledger.audit(ours.namesrv_addr) == []
    # Notes are left out: after a kill the index by key may lack messages that Apache did not index anew (docs/gaps.md).
    assert [str(problem) for problem in check_directory(store.path) if not problem.note] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_apache_serves_what_a_kill_in_a_batch_left(version, tmp_path, monkeypatch):
    """The kill comes when the batch needs a new file of its queue, and the file is there."""
    create, killed = MappedFile.create, tmp_path / "killed"

    def create_and_be_killed(file: MappedFile) -> None:
        create(file)
        if f"/{TOPIC}/" in file.path and file.start:
            shutil.copytree(tmp_path / "store", killed)

    monkeypatch.setattr(MappedFile, "create", create_and_be_killed)
    with EmbeddedRocketMQ(clock="system", store_dir=tmp_path / "store", **BROKER_CONF) as ours:
        ours.create_topic(TOPIC, queues=1)
        with ours.producer("ops") as producer:
            for count in (295, 10):  # of the 300 entries of a file
                producer.send_batch([rmq.Message(TOPIC, b"x")] * count)
    with ApacheCluster(version, killed, **BROKER_CONF) as apache:
        assert [len(queue) for queue in read_topic(apache.namesrv_addr, TOPIC).values()] == [295]

# SPDX-License-Identifier: Apache-2.0
"""Every byte that a server keeps for a peer, or of a peer, has a bound: floods of each kind against a real process, its own memory watched,
an honest client beside it."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.apache_cluster import free_ports
from interop.child import poll_until
from interop.remoting import ask
from interop.sprocket_server import SprocketServer
from system.broker.floods import FLOODS, PULL, Stage, prepare, request_frame

MIB = 1 << 20
LIMIT_BYTES = 16 * MIB
# The limit, what the allocator does not give back, and what is being made of one request at the moment.
ALLOWED_BYTES = LIMIT_BYTES + 48 * MIB

pytestmark = pytest.mark.timeout(300)


def own_memory_bytes(pid: int) -> int:
    """Without the files that are mapped."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


class Watched:
    """A prepared server, and its memory before anything happened to it."""

    def __init__(self, server: SprocketServer, metrics_port: int) -> None:
        self.server = server
        prepare(server)
        self.metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"
        self.gauge()  # the first one loads a library
        self.before_bytes = own_memory_bytes(server.broker_pid)

    def gauge(self) -> int:
        """Bytes that the broker says are queued."""
        page = urllib.request.urlopen(self.metrics_url, timeout=30).read().decode()
        found = re.findall(r"^sprocketmq_queued_bytes\{.*\} (\S+)$", page, re.MULTILINE)
        assert len(found) == 2, "in and out"
        return int(sum(map(float, found)))


class HonestClient(threading.Thread):
    """Asks broker and name server all the time, each time on a new connection."""

    def __init__(self, server: SprocketServer) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._over = threading.Event()
        self.answers, self.longest_s = 0, 0.0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(0.02):
                began_s = time.monotonic()
                assert ask(self._server.broker_addr, 30, {"topic": "small", "queueId": "0"}, timeout_s=60).code == 0
                assert ask(self._server.namesrv_addr, 105, {"topic": "small"}, timeout_s=60).code == 0
                self.answers += 1
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        except Exception as error:  # noqa: BLE001 - told by the test
            self.error = error

    def finish(self) -> None:
        self._over.set()
        self.join(120)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    metrics_port = free_ports(0)
    server = SprocketServer(
        tmp_path_factory.mktemp("flooded") / "store",
        writeBufferHighWaterMark=256 * 1024,
        maxQueuedBytes=LIMIT_BYTES,
        serverSocketSndBufSize=32 * 1024,
        metricsExporterType="PROM",
        metricsPromExporterPort=metrics_port,
        transactionCheckInterval=200,
        transactionTimeOut=0,
        transactionCheckMax=12,
        mappedFileSizeCommitLog=64 * MIB,
        **{"tls.test.mode.enable": True, "tls.server.mode": "permissive"},
    )
    with server:
        yield Watched(server, metrics_port)


@pytest.mark.parametrize("reads", ["nothing", "little"])
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_takes_bounded_memory_and_does_not_slow_other_clients(watched, flood, reads):
    stage, honest, pid = Stage(watched.server, reads), HonestClient(watched.server), watched.server.broker_pid
    seen: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            seen.append(own_memory_bytes(pid))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    honest.start()
    try:
        for _ in FLOODS[flood](stage):
            answers = honest.answers
            poll_until(lambda answers=answers: honest.answers > answers or honest.error, "an honest answer")
        queued_bytes = watched.gauge()
    finally:
        over.set()
        honest.finish()
        watching.join()
        stage.close()
    grown_bytes = max(seen) - watched.before_bytes
    print(f"{flood}, reads {reads}: memory +{grown_bytes / MIB:.0f} MiB, {queued_bytes / MIB:.1f} MiB queued, "
          f"{honest.answers} honest answers, the longest took {honest.longest_s:.2f} s")  # fmt: skip
    assert honest.error is None
    assert queued_bytes <= LIMIT_BYTES
    assert grown_bytes <= ALLOWED_BYTES


def test_answers_over_tls_leave_little_with_each_connection(tmp_path):
    """The kernel takes them all, so nothing is queued; the process kept 1.4 MiB for each connection."""
    settings = {"tls.test.mode.enable": True, "tls.server.mode": "permissive"}
    with SprocketServer(tmp_path / "store", **settings) as server:
        prepare(server)
        before_bytes = own_memory_bytes(server.broker_pid)
        stage = Stage(server, "nothing")
        try:
            for _ in range(80):
                stage.victim(tls=True).write(request_frame(11, PULL) * 8)
            assert ask(server.broker_addr, 30, {"topic": "small", "queueId": "0"}, timeout_s=60).code == 0
            grown_bytes = own_memory_bytes(server.broker_pid) - before_bytes
        finally:
            stage.close()
    print(f"memory +{grown_bytes / MIB:.0f} MiB")
    assert grown_bytes <= 40 * MIB

# SPDX-License-Identifier: Apache-2.0
"""Name servers and brokers of the outage drill, ours or Apache's, each a process of its own behind a middleman.

clients --> middlemen (127.0.0.2) --> two name servers, two brokers (127.0.0.1)
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interop.apache_cluster import free_ports, write_logback
from interop.child import Child, poll_until
from interop.java_peers import APACHE_5, JavaPeers
from interop.remoting import GET_ROUTEINFO_BY_TOPIC, ask, create_topic
from interop.sprocket_server import SprocketServer

OURS: Final = "ours"
# Not 4.9: its servers listen on every address of the machine, so that no middleman can have their port.
SERVERS: Final = (OURS, APACHE_5)
TROUBLES: Final = ("freeze", "kill", "cut", "slow", "silent", "deaf", "half-closed")
_BROKER_NAME: Final = re.compile(rb'"brokerName":"([^"]+)"')
_START_TIMEOUT_S: Final = 90.0
# A name server that was restarted is empty until the brokers register again: 10 s is the least that both allow.
_SETTINGS: Final = {
    "registerNameServerPeriod": 10_000,
    "transactionTimeOut": 3_000,
    "transactionCheckInterval": 3_000,
}
_APACHE_SETTINGS: Final = {
    "bindAddress": "127.0.0.1",
    "brokerClusterName": "DefaultCluster",
    "brokerId": 0,
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "ASYNC_FLUSH",
    "autoCreateTopicEnable": "true",
    "diskMaxUsedSpaceRatio": 95,
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "timerFlushIntervalMs": 60_000,
}
_JVM: Final = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=512m")
_MAIN_CLASSES: Final = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
}


class Middlemen:
    """The process of the middlemen of ``peers``.

    Attributes: ``heartbeats`` has, by broker and client id, when each was written (``time.monotonic()``).
    """

    def __init__(self, peers: list[Peer], log: Path) -> None:
        self.heartbeats: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        program = Path(__file__).with_name("outage_middlemen.py")
        ways = [f"{one.name}=127.0.0.1:{one.port}={one.address}" for one in peers]
        self._child = Child([sys.executable, str(program), *ways], log)
        self._done = threading.Semaphore(0)
        assert self._child.read_line() == "ready"
        self._reader = threading.Thread(target=self._read, name="outage-heartbeats", daemon=True)
        self._reader.start()

    def set_mood(self, name: str, mood: str) -> None:
        self._child.write_line(f"{name} {mood}")
        assert self._done.acquire(timeout=60), f"the middleman of {name} is not {mood}: {self._child.last_words()}"

    def _read(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                what, name, *rest = self._child.read_line(float(threading.TIMEOUT_MAX)).split()
                if what == "done":
                    self._done.release()
                else:
                    self.heartbeats[name, rest[0]].append(float(rest[1]))

    @property
    def threads(self) -> list[tuple[int, int]]:
        """For ``withheld_s``."""
        pid = self._child.pid
        return [(pid, int(name)) for name in os.listdir(f"/proc/{pid}/task")] if Path("/proc/self").exists() else []

    def stop(self) -> None:
        self._child.kill()
        self._reader.join(30)


class Peer:
    """A name server or broker.

    Args:
        servers: one of SERVERS.
        kind: "namesrv" or "broker".
        near: of a broker, the name servers' own addresses.
    """

    def __init__(self, servers: str, folder: Path, kind: str, name: str, near: str) -> None:
        assert servers in SERVERS, servers
        self.kind, self.name = kind, name
        self._servers, self._near = servers, near
        self._home = folder / name
        self._home.mkdir()
        self.port = free_ports(-2, 1)
        self.address = f"127.0.0.2:{self.port}"
        self._child: Child | None = None
        self.troubled: list[tuple[float, float]] = []  # from, until, of time.monotonic()

    @property
    def near_address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def spawn(self) -> None:
        """Start it; it may take a while until it answers."""
        command, env = self._ours() if self._servers == OURS else self._apache()
        self._child = Child(command, self._home / "err.log", env)

    def until_it_listens(self) -> None:
        poll_until(lambda: self._listens, f"{self.name} listens", _START_TIMEOUT_S)

    @contextlib.contextmanager
    def in_trouble(self, trouble: str, middlemen: Middlemen) -> Iterator[None]:
        """One of TROUBLES while the block runs; afterwards it listens again."""
        assert self._child is not None
        begin_s = time.monotonic()
        if trouble == "freeze":
            os.kill(self._child.pid, signal.SIGSTOP)
        elif trouble == "kill":
            self._child.kill()
        else:
            middlemen.set_mood(self.name, trouble)
        try:
            yield
        finally:
            if trouble == "freeze":
                os.kill(self._child.pid, signal.SIGCONT)
            elif trouble == "kill":
                self.spawn()
                self.until_it_listens()
            else:
                middlemen.set_mood(
                    self.name, "cut"
                )  # what was in a bad mood is not taken up again in the middle of a frame
                middlemen.set_mood(self.name, "pass")
            self.troubled.append((begin_s, time.monotonic()))

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()

    @property
    def _listens(self) -> bool:
        assert self._child is not None
        if self._child.exit_code is not None:
            raise RuntimeError(f"{self.name} ended with {self._child.exit_code}; {self._child.last_words()}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0):
                return True
        except OSError:
            return False

    def _ours(self) -> tuple[list[str], dict[str, str]]:
        command = SprocketServer.command()
        assert command is not None, "the sprocketmq command is not installed beside this Python"
        args = [command, self.kind, "--port", str(self.port)]
        if self.kind == "broker":
            args += ["--namesrv-addr", self._near, "--store", str(self._home / "store")]
            for key, value in {"brokerName": self.name, "brokerIP1": "127.0.0.2", **_SETTINGS}.items():
                args += ["--set", f"{key}={value}"]
        return args, {}

    def _apache(self) -> tuple[list[str], dict[str, str]]:
        write_logback(self._home)
        keys: dict[str, object] = {"bindAddress": "127.0.0.1", "listenPort": self.port}
        if self.kind == "namesrv":
            keys["kvConfigPath"] = self._home / "kvConfig.json"
        else:
            keys.update(
                _APACHE_SETTINGS, **_SETTINGS, brokerName=self.name, brokerIP1="127.0.0.2", brokerIP2="127.0.0.1"
            )
            keys.update(namesrvAddr=self._near, haListenPort=self.port + 1, storePathRootDir=self._home / "store")
            keys["storePathCommitLog"] = self._home / "store/commitlog"
        conf = self._home / "server.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), "utf-8")
        java = JavaPeers.java(self._servers)
        command = java.command(_MAIN_CLASSES[self.kind], "-c", str(conf), flags=_JVM, home=self._home)
        return command, {"ROCKETMQ_HOME": str(self._home)}


def has_topic(broker: Peer, topic: str) -> bool:
    """Make the topic; False while the broker does not take it yet."""
    try:
        create_topic(broker.near_address, topic, 4, {})
    except (OSError, RuntimeError):
        return False
    return True


def named_brokers(name_server: Peer, topic: str) -> set[str] | None:
    """The brokers that a name server names for the topic; None when it does not answer, or does not know the topic."""
    try:
        answer = ask(name_server.near_address, GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=1.0)
    except OSError:
        return None
    return {name.decode() for name in _BROKER_NAME.findall(answer.body)} if answer.code == 0 else None

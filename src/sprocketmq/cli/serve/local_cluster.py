# SPDX-License-Identifier: Apache-2.0
"""A cluster of several masters on this machine, for trying out what happens when one goes: processes in the background, each with its log,
and one file that remembers them (``cluster.json``). They are stopped by the process ids in it; the time at which a process started, where
the system tells it, keeps a foreign process that got the same id out of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sprocketmq.errors import ConfigurationError, RocketMQError

_READY_WITHIN_S: Final = 120.0
_STOPS_WITHIN_S: Final = 30.0
_LOOK_S: Final = 0.05
_FILE: Final = "cluster.json"
# Ours print "ready ...", Java's "... boot success. ...".
_READY: Final = re.compile(r"^(?:ready (?P<ours>.+) pid=\d+|.*boot success.*)$", re.MULTILINE)
_SECRET: Final = 0o600  # a log holds the link of the console, with its token
# What Apache's servers need of Java 17, and little memory.
_JAVA: Final = (
    *("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseSerialGC"),
)


class ClusterFailed(RocketMQError):
    """A server of the cluster did not start."""


@dataclass(frozen=True)
class Member:
    """A process of the cluster. ``address``: where it listens; of the console the link."""

    name: str
    address: str
    pid: int
    started: str = ""
    """When the process started, as the system writes it; empty where that is not told."""

    @property
    def is_running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # somebody else's, who got the number
            return False
        state, started = _state(self.pid)
        return state != "Z" and started == self.started


def _state(pid: int) -> tuple[str, str]:
    """State and time of the start, from /proc; empty where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


class LocalCluster:
    """Args:
    data_dir: where stores, logs and ``cluster.json`` are.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.members: list[Member] = []
        self.count = 0
        self.first_port = 0
        self.apache: str | None = None
        with contextlib.suppress(FileNotFoundError):
            try:
                content = json.loads((data_dir / _FILE).read_text("utf-8"))
                self.members = [Member(**one) for one in content["members"]]
                self.count, self.first_port = int(content["count"]), int(content["first_port"])
                self.apache = content["apache"]
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigurationError(
                    f"{data_dir / _FILE} cannot be read ({type(error).__name__}: {error}); delete the directory, or name another "
                    "--data-dir"
                ) from error

    @property
    def exists(self) -> bool:
        """Whether there is one, running or not."""
        return self.count > 0

    @property
    def letters(self) -> list[str]:
        return [chr(ord("a") + number) for number in range(self.count)]

    @property
    def namesrv_addr(self) -> str:
        return ";".join(self._address(f"namesrv-{letter}") for letter in self.letters)

    def running(self) -> list[Member]:
        return [member for member in self.members if member.is_running]

    def create(self, count: int, first_port: int, apache: str | None) -> None:
        self.count, self.first_port, self.apache = count, first_port, apache

    def start(self, *, with_console: bool, allow_changes: bool) -> list[Member]:
        """Start what does not run: name servers, brokers, the console. If one fails, those that were started are stopped again. Raises
        ClusterFailed, ConfigurationError (there is no Java, or no Apache RocketMQ)."""
        java = None if self.apache is None else _Apache(self.apache)
        names = [[f"namesrv-{letter}" for letter in self.letters], [f"broker-{letter}" for letter in self.letters]]
        if with_console:
            names.append(["console"])
        running = {member.name for member in self.running()}
        self.data_dir.mkdir(parents=True, exist_ok=True)
        begun: list[Member] = []
        try:
            for together in names:
                started = [self._begin(name, java, allow_changes) for name in together if name not in running]
                for member, process, log in started:
                    begun.append(self._ready(member, process, log))
                    self._remember(begun[-1])
        except BaseException:
            self.stop(begun)
            for _, process, _ in started:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
            raise
        return begun

    def stop(self, members: Iterable[Member], *, kill: bool = False) -> None:
        """End processes, brokers before name servers. ``kill``: without a farewell, as in a crash."""
        for kind in ("console", "broker", "namesrv"):
            these = [member for member in members if member.name.startswith(kind) and member.is_running]
            for member in these:
                os.kill(member.pid, signal.SIGKILL if kill else signal.SIGTERM)
            if not _all_ended(these):
                for member in these:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(member.pid, signal.SIGKILL)

    def delete(self) -> None:
        """Delete what is in the directory by this class, and the directory if nothing else is there."""
        for name in (*(f"{kind}-{letter}" for kind in ("namesrv", "broker") for letter in self.letters), "console"):
            shutil.rmtree(self.data_dir / name, ignore_errors=True)
        (self.data_dir / _FILE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.data_dir.rmdir()

    def _address(self, name: str) -> str:
        kind, _, letter = name.partition("-")
        if kind == "console":
            return f"127.0.0.1:{self.first_port}"
        number = ord(letter) - ord("a") + 1
        return f"127.0.0.1:{self.first_port + (number if kind == 'namesrv' else 10 * number)}"

    def _begin(
        self, name: str, java: _Apache | None, allow_changes: bool
    ) -> tuple[Member, subprocess.Popen[bytes], Path]:
        folder = self.data_dir / name
        folder.mkdir(exist_ok=True)
        address = self._address(name)
        port = address.rpartition(":")[2]
        environment: Mapping[str, str] = os.environ
        if java is not None and name != "console":
            command = java.command(name, folder, port, self.namesrv_addr)
            environment = {**os.environ, "ROCKETMQ_HOME": str(java.home)}
        else:
            command = [sys.executable, "-m", "sprocketmq.cli"]
            if name == "console":
                command += ["console", "--port", port, "-n", self.namesrv_addr, *(["--allow-changes"] * allow_changes)]
            elif name.startswith("namesrv"):
                command += ["namesrv", "--port", port]
            else:
                command += ["broker", "run", "--port", port, "-n", self.namesrv_addr, "--store", str(folder / "store")]
                command += ["--set", f"brokerName={name}"]
        path = folder / "log.txt"
        with open(path, "w", encoding="utf-8", opener=lambda file, flags: os.open(file, flags, _SECRET)) as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return Member(name, address, process.pid, _state(process.pid)[1]), process, path

    def _ready(self, member: Member, process: subprocess.Popen[bytes], path: Path) -> Member:
        def said() -> re.Match[str] | None:
            return _READY.search(path.read_text("utf-8", "replace"))

        if not _wait_until(lambda: said() is not None or process.poll() is not None, _READY_WITHIN_S) or said() is None:
            process.kill()
            process.wait()
            lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
            why = lines[-1].removeprefix("sprocketmq: ") if lines else "it said nothing"
            if "another process listens there" in why:
                why = "another process listens there, perhaps another cluster; --first-port names others"
            raise ClusterFailed(f"{member.name} did not start at {member.address}: {why}; its log is {path}")
        found = said()
        link = re.search(r"console=(\S+)", found["ours"] or "") if found is not None else None
        return Member(member.name, link[1] if link else member.address, member.pid, member.started)

    def _remember(self, member: Member) -> None:
        self.members = [one for one in self.members if one.name != member.name] + [member]
        content = {"count": self.count, "first_port": self.first_port, "apache": self.apache}
        text = json.dumps(content | {"members": [asdict(one) for one in self.members]}, indent=2) + "\n"
        beside = self.data_dir / f"{_FILE}.new"
        with open(beside, "w", encoding="utf-8", opener=lambda file, flags: os.open(file, flags, _SECRET)) as file:
            file.write(text)
        beside.replace(self.data_dir / _FILE)


class _Apache:
    """Apache RocketMQ as it is downloaded: ROCKETMQ_HOME names the folder with ``lib`` and ``conf``."""

    def __init__(self, version: str) -> None:
        given = os.environ.get("ROCKETMQ_HOME", "")
        self.home = Path(given).absolute()
        if shutil.which("java") is None:
            raise ConfigurationError("--apache needs Java, and there is no 'java' on the PATH; install Java 17")
        if not given or not (self.home / f"lib/rocketmq-broker-{version}.jar").is_file():
            raise ConfigurationError(
                f"Apache RocketMQ {version} is not in ROCKETMQ_HOME ({given or 'which is not set'}); unpack "
                f"rocketmq-all-{version}-bin-release.zip from https://rocketmq.apache.org/download, and set ROCKETMQ_HOME to its folder"
            )

    def command(self, name: str, folder: Path, port: str, namesrv_addr: str) -> list[str]:
        is_broker = name.startswith("broker")
        settings: dict[str, Any] = {"listenPort": port, "bindAddress": "127.0.0.1"}
        if is_broker:
            store = folder / "store"
            settings |= {
                "brokerClusterName": "DefaultCluster",
                "brokerName": name,
                "brokerId": 0,
                "brokerIP1": "127.0.0.1",
            }
            settings |= {
                "namesrvAddr": namesrv_addr,
                "storePathRootDir": store,
                "storePathCommitLog": store / "commitlog",
            }
            settings |= {
                "enablePropertyFilter": "true",
                "mappedFileSizeCommitLog": 128 << 20,
                "timerFlushIntervalMs": 60_000,
            }
        file = folder / "server.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        heap = ("-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=1g") if is_broker else ("-Xms128m", "-Xmx256m")
        main = "org.apache.rocketmq." + ("broker.BrokerStartup" if is_broker else "namesrv.NamesrvStartup")
        folders = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}", "-cp", f"{self.home}/lib/*")
        return ["java", *_JAVA, *heap, *folders, main, "-c", str(file)]


def _all_ended(members: list[Member]) -> bool:
    return _wait_until(lambda: not any(member.is_running for member in members), _STOPS_WITHIN_S)


def _wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(_LOOK_S)
    return True

# SPDX-License-Identifier: Apache-2.0
"""A real Apache RocketMQ on this machine: one name server and one master broker, each a JVM, on free ports of 127.0.0.1.

4.9 knows no `bindAddress`: its servers listen on every address of the machine, 5.x only on 127.0.0.1.
"""

from __future__ import annotations

import random
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final

from interop.child import Child, poll_until
from interop.java_peers import APACHE_4, ClassArchive, Java, JavaPeers
from interop.remoting import ask, create_topic, has_route

__all__ = ["ApacheCluster", "as_slave", "free_ports", "mqadmin", "write_logback"]

_NAMESRV: Final = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER: Final = "org.apache.rocketmq.broker.BrokerStartup"
_ADMIN: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
GET_BROKER_RUNTIME_INFO: Final = 28
_START_TIMEOUT_S: Final = 90.0
_END_TIMEOUT_S: Final = 60.0
# 5.x compares its timer wheel with the file of it byte by byte, 38 MB each second: three quarters of what an idle broker costs.
_CALM: Final = {"timerFlushIntervalMs": 60_000}
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_HEAP: Final = {_NAMESRV: ("-Xms256m", "-Xmx256m"), _BROKER: ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")}

_LOGBACK_STATUS: Final = re.compile(r"\d\d:\d\d:\d\d,\d{3} \|-")

# 4.9 exits at once when ROCKETMQ_HOME/conf has no logback files; 5.x carries its own.
_LOGBACK: Final = """<configuration><appender name="file" class="ch.qos.logback.core.FileAppender"><file>{file}</file>
<encoder><pattern>%d %p %m%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="file"/></root></configuration>
"""


def free_ports(*offsets: int) -> int:
    """A port P with five digits for which P and each P + offset are free, below the range the kernel hands out by itself."""
    for _ in range(200):
        port = random.randrange(20_000, 32_000)
        if all(_is_free(port + offset) for offset in (0, *offsets)):
            return port
    raise RuntimeError("no free port found between 20000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


class ApacheCluster:
    """Name server and broker of one version, started by `start()` (or `with`), registered with each other when that returns.

    Args:
        version: APACHE_5 or APACHE_4.
        store_dir: the broker's storePathRootDir; default a folder that `stop` removes.
        jvm_flags: for both processes, e.g. -Drocketmq.serialize.type=ROCKETMQ.
        namesrv_addr: register there instead of at a name server of its own.
        broker_conf: further broker.conf keys; bool becomes true/false.
    """

    # Whether what counts is how soon it runs, not how fast; the tests set it, a measurement must not.
    starts_quickly: ClassVar[bool] = False

    def __init__(
        self,
        version: str,
        store_dir: Path | None = None,
        *,
        jvm_flags: tuple[str, ...] = (),
        namesrv_addr: str | None = None,
        **broker_conf: str | int | bool,
    ) -> None:
        self.version = version
        self.java: Java = JavaPeers.java(version)
        self.home = Path(tempfile.mkdtemp(prefix=f"apache-{version}-"))
        self.store_dir = store_dir or self.home / "store"
        self.namesrv_addr = namesrv_addr or ""
        self.broker_addr = ""
        self._own_namesrv = namesrv_addr is None
        self._jvm_flags = jvm_flags
        self._broker_conf = broker_conf
        self._namesrv: Child | None = None
        self._broker: Child | None = None
        self._made: dict[str, ClassArchive] = {}
        self._store_is_scratch = store_dir is None

    @property
    def broker_pid(self) -> int:
        assert self._broker is not None, "the cluster is not started"
        return self._broker.pid

    @property
    def namesrv_pid(self) -> int:
        assert self._namesrv is not None, "the cluster has no name server of its own"
        return self._namesrv.pid

    def start(self) -> ApacheCluster:
        """Start both; return when the name server answers the route of the topic that new topics inherit from.

        Raises:
            TimeoutError, RuntimeError: a JVM did not come up; its last words are in the message.
        """
        write_logback(self.home)
        try:
            self.start_namesrv()
            self.start_broker()
        except BaseException:
            self.stop()
            raise
        return self

    def start_namesrv(self) -> None:
        """The name server alone; returns when it listens."""
        if not self._own_namesrv:
            return
        write_logback(self.home)
        port = free_ports()
        self.namesrv_addr = f"127.0.0.1:{port}"
        keys = {"listenPort": str(port), "kvConfigPath": f"{self.home}/kvConfig.json"}
        self._namesrv = self._jvm(_NAMESRV, self._write_conf("namesrv", keys))
        self._wait(self._namesrv, lambda: _listens(port), "the name server listens")

    def start_broker(self, namesrv_addr: str | None = None, port: int | None = None) -> None:
        """The broker alone, after a `kill` or a stop as well: same store, same port unless `port` says otherwise.

        `namesrv_addr` may be a proxy in front of the name server.
        """
        # Besides listenPort the broker takes listenPort - 2 (the fast port) and + 1 (replication).
        old = int(self.broker_addr.rsplit(":", 1)[1]) if self.broker_addr else 0
        port = port or old or free_ports(-2, 1)
        self.broker_addr = f"127.0.0.1:{port}"
        keys: dict[str, str | int | bool] = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": port,
            "namesrvAddr": namesrv_addr or self.namesrv_addr,
            "storePathRootDir": str(self.store_dir),
            "storePathCommitLog": str(self.store_dir / "commitlog"),
            "autoCreateTopicEnable": True,
            "enablePropertyFilter": True,
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            # A developer's disk is often fuller than a server's; at 90% Apache refuses to write.
            "diskMaxUsedSpaceRatio": 95,
            **(_CALM if self.starts_quickly else {}),
            **self._broker_conf,
        }
        self._broker = self._jvm(_BROKER, self._write_conf("broker", keys))
        self._wait(self._broker, self._is_ready, "the broker is registered and has statistics")

    def _is_ready(self) -> bool:
        """4.9 takes its first sample of its counters a second after its start; who asks for them before is told NoSuchElementException."""
        if not has_route(self.namesrv_addr, "TBW102"):
            return False
        try:
            answer = ask(self.broker_addr, GET_BROKER_RUNTIME_INFO, timeout_s=3.0)
        except OSError:  # the slave of a master that is registered
            return False
        return "NoSuchElementException" not in (answer.header.get("remark") or "")

    def become_master(self) -> None:
        """Start a slave that was stopped as the master of its group, upon the same store."""
        self._broker_conf.update(brokerId=0, brokerRole="ASYNC_MASTER")
        self.start_broker()

    def create_topic(self, topic: str, queues: int = 8, **header: str) -> None:
        """Create a topic and wait until the name server knows it; `header` overrides fields of the request."""
        create_topic(self.broker_addr, topic, queues, header)
        poll_until(lambda: has_route(self.namesrv_addr, topic), f"topic {topic} reaches the name server")

    def stop_broker(self) -> None:
        """End the broker cleanly: store flushed, `abort` file removed."""
        if self._broker is not None:
            self._keep_archive(_BROKER, self._broker.stop(_END_TIMEOUT_S))
            self._broker = None

    def kill(self) -> None:
        """Kill the broker as a crash would; the store stays as it is, `start_broker` starts anew upon it."""
        assert self._broker is not None, "the cluster is not started"
        self._broker.kill()
        self._made.pop(_BROKER, None)
        self._broker = None

    def stop(self) -> None:
        """End both, and remove everything but a store folder that the caller gave.

        Nobody reads what is removed, so it ends at once: Apache's brokers take ten seconds to end cleanly.
        """
        if self._broker is not None and self._store_is_scratch and _BROKER not in self._made:
            self.kill()
        self.stop_broker()
        if self._namesrv is not None:
            code = self._namesrv.stop(_END_TIMEOUT_S if _NAMESRV in self._made else 0.0)
            self._keep_archive(_NAMESRV, code)
            self._namesrv = None
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> ApacheCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _jvm(self, main_class: str, conf: Path) -> Child:
        flags = (*_HEAP[main_class], *self._jvm_flags)
        if self.starts_quickly:
            archive = self.java.archive("namesrv" if main_class == _NAMESRV else "broker")
            flags = (*_QUICK, *archive.flags, *flags)
            if not archive.exists:
                self._made[main_class] = archive
        run = ("peers.Brisk", main_class) if self.starts_quickly else (main_class,)
        command = self.java.command(*run, "-c", str(conf), flags=flags, home=self.home)
        log = self.home / f"{main_class.rsplit('.', 1)[1]}.err"
        return Child(command, log, {"ROCKETMQ_HOME": str(self.home)})

    def _keep_archive(self, main_class: str, exit_code: int) -> None:
        if archive := self._made.pop(main_class, None):
            archive.keep(exit_code)

    def _write_conf(self, name: str, keys: Mapping[str, str | int | bool]) -> Path:
        if self.version != APACHE_4:
            keys = {"bindAddress": "127.0.0.1", **keys}
        path = self.home / f"{name}.conf"
        path.write_text("".join(f"{key}={_spelled(value)}\n" for key, value in keys.items()), "utf-8")
        return path

    @staticmethod
    def _wait(child: Child, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            if child.exit_code is not None:
                raise RuntimeError(f"waited until {what}, but it ended with {child.exit_code}; {child.last_words()}")
            return condition()

        poll_until(looked, what, _START_TIMEOUT_S, 0.1)


def as_slave(version: str, namesrv_addr: str, **broker_conf: Any) -> ApacheCluster:
    """A slave, number 1, of the master named broker-a; `start` returns before it has copied anything."""
    return ApacheCluster(version, namesrv_addr=namesrv_addr, brokerId=1, brokerRole="SLAVE", **broker_conf)


def mqadmin(
    version: str,
    *args: str,
    timeout_s: float = 60.0,
    jvm_flags: tuple[str, ...] = (),
) -> str:
    """Run one `mqadmin` command, e.g. ("topicStatus", "-n", namesrv_addr, "-t", "flights"), and return what it printed.

    A tool that cannot read an answer prints a stack trace and still ends with 0: look for "Exception" in what comes back.

    Raises:
        RuntimeError: it ended with an error code.
    """
    with tempfile.TemporaryDirectory(prefix="mqadmin-") as scratch:
        home = Path(scratch)
        write_logback(home)
        flags = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Drocketmq.home.dir={home}", *jvm_flags)
        java = JavaPeers.java(version)
        archive = java.archive("tools")
        flags = (*flags, *(archive.flags if archive.exists else ()))
        command = java.command(_ADMIN, *args, flags=flags, home=home)
        # Some commands (consumerStatus) leave folders of results where they were started.
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=home)
    if done.returncode:
        raise RuntimeError(f"mqadmin {' '.join(args)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    # 5.x tells on standard output how it configured its logging; that is nobody's question.
    printed = (done.stdout + done.stderr).splitlines(keepends=True)
    return "".join(line for line in printed if not _LOGBACK_STATUS.match(line))


def write_logback(home: Path) -> None:
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for name in ("namesrv", "broker", "tools"):
        (home / f"conf/logback_{name}.xml").write_text(_LOGBACK.format(file=home / f"{name}.log"), "utf-8")


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0):
            return True
    except OSError:
        return False


def _spelled(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

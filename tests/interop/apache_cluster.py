# SPDX-License-Identifier: Apache-2.0
"""A real Apache RocketMQ on this machine: one name server and one master broker, each a JVM, on free ports of 127.0.0.1.

4.9 knows no `bindAddress`: its servers listen on every address of the machine, 5.x only on 127.0.0.1.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from interop.child import HANG_S, Child, poll_until
from interop.java_peers import APACHE_4, Java, JavaPeers
from interop.remoting import Keys, ask, create_topic, has_route

_NAMESRV: Final = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER: Final = "org.apache.rocketmq.broker.BrokerStartup"
_ADMIN: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
GET_BROKER_RUNTIME_INFO: Final = 28
UPDATE_BROKER_CONFIG: Final = 25
_END_TIMEOUT_S: Final = 60.0
# 5.x compares its timer wheel with the file of it byte by byte, 38 MB each second: three quarters of what an idle broker costs. And on a
# busy machine a broker refuses what waited 200 ms for its threads or its page cache.
_CALM: Final = {
    "timerFlushIntervalMs": 60_000,
    "waitTimeMillsInSendQueue": 60_000,
    "osPageCacheBusyTimeOutMills": 60_000,
}
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_NAMESRV_HEAP: Final = ("-Xms256m", "-Xmx256m")
BROKER_HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g")

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


class ServerJvm(Child):
    """A server of RocketMQ. With `quickly` it starts as soon as it can, and the first clean end of a role makes the next starts quicker."""

    def __init__(
        self, java: Java, role: str, main_class: str, *args: str, flags: tuple[str, ...], home: Path, quickly: bool
    ) -> None:
        archive = java.archive(role)
        self._archive = archive if quickly and not archive.exists else None
        run = (main_class, *args)
        if quickly:
            flags, run = (*_QUICK, *archive.flags, *flags), ("peers.Brisk", *run)
        command = java.command(*run, flags=flags, home=home)
        homes = {"ROCKETMQ_HOME": str(home), "RMQ_PROXY_HOME": str(home)}
        super().__init__(command, home / f"{main_class.rsplit('.', 1)[1]}.err", homes, cwd=home)

    @property
    def makes_archive(self) -> bool:
        """Whether its clean end writes the archive of classes that the next one of its role starts with."""
        return self._archive is not None

    def stop(self, timeout_s: float = _END_TIMEOUT_S) -> int:
        code = super().stop(timeout_s)
        if self._archive is not None:
            self._archive.keep(code)
        return code

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Raises RuntimeError when it ends meanwhile, TimeoutError as `poll_until`."""

        def looked() -> bool:
            if self.exit_code is not None:
                raise RuntimeError(f"waited until {what}, but it ended with {self.exit_code}; {self.last_words()}")
            return condition()

        poll_until(looked, what, pause_s=0.1)


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
        self._namesrv: ServerJvm | None = None
        self._broker: ServerJvm | None = None
        self._store_is_scratch = store_dir is None

    @property
    def broker_name(self) -> str:
        return str(self._broker_conf.get("brokerName", "broker-a"))

    @property
    def keys(self) -> Keys | None:
        """Of the first user of 5.x; None when anybody may do everything."""
        if user := self._broker_conf.get("initAuthenticationUser"):
            named = json.loads(str(user))
            return Keys(named["username"], named["password"])
        return None

    @property
    def broker_pid(self) -> int:
        assert self._broker is not None, "the cluster is not started"
        return self._broker.pid

    @property
    def namesrv_pid(self) -> int:
        assert self._namesrv is not None, "the cluster has no name server of its own"
        return self._namesrv.pid

    def start(self) -> ApacheCluster:
        """Start both; return when a topic can be made and sent to.

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
        conf = self._write_conf("namesrv", keys)
        self._namesrv = self._jvm("namesrv", _NAMESRV, "-c", str(conf), heap=_NAMESRV_HEAP)
        self._namesrv.wait_until(lambda: _listens(port), "the name server listens")

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
            "brokerName": self.broker_name,
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
        self._broker = self._start_broker(self._write_conf("broker", keys))
        self._broker.wait_until(self._is_ready, "the broker is registered and has statistics")

    def _start_broker(self, conf: Path) -> ServerJvm:
        return self._jvm("broker", _BROKER, "-c", str(conf), heap=BROKER_HEAP)

    def _is_ready(self) -> bool:
        try:
            if not has_route(self.namesrv_addr, "TBW102"):
                # 5.x registers before it is connected to the name server, and then ten seconds later; a change of its permission
                # makes it register at once (AdminBrokerProcessor.updateBrokerConfig).
                permission = f"brokerPermission={self._broker_conf.get('brokerPermission', 6)}\n"
                ask(self.broker_addr, UPDATE_BROKER_CONFIG, {}, permission.encode(), 3.0, keys=self.keys)
                return False
            # 4.9 takes its first sample of its counters a second after its start; who asks before is told NoSuchElementException.
            info = ask(self.broker_addr, GET_BROKER_RUNTIME_INFO, timeout_s=3.0)
        except OSError:  # not yet; or the slave of a master that is registered
            return False
        return "NoSuchElementException" not in (info.header.get("remark") or "")

    def become_master(self) -> None:
        """Start a slave that was stopped as the master of its group, upon the same store."""
        self._broker_conf.update(brokerId=0, brokerRole="ASYNC_MASTER")
        self.start_broker()

    def create_topic(self, topic: str, queues: int = 8, **header: str) -> None:
        """Create a topic and wait until the name server knows it; `header` overrides fields of the request."""
        create_topic(self.broker_addr, topic, queues, header, self.keys)
        poll_until(lambda: has_route(self.namesrv_addr, topic), f"topic {topic} reaches the name server")

    def stop_broker(self) -> None:
        """End the broker cleanly: store flushed, `abort` file removed."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def kill(self) -> None:
        """Kill the broker as a crash would; the store stays as it is, `start_broker` starts anew upon it."""
        assert self._broker is not None, "the cluster is not started"
        self._broker.kill()
        self._broker = None

    def stop(self) -> None:
        """End both, and remove everything but a store folder that the caller gave.

        Nobody reads what is removed, so it ends at once: Apache's brokers take ten seconds to end cleanly.
        """
        if self._broker is not None and self._store_is_scratch and not self._broker.makes_archive:
            self.kill()
        self.stop_broker()
        if self._namesrv is not None:
            self._namesrv.stop(_END_TIMEOUT_S if self._namesrv.makes_archive else 0.0)
            self._namesrv = None
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> ApacheCluster:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        if any(raised):
            print(self.complaints())  # its logs are gone with its home
        self.stop()

    def complaints(self) -> str:
        """What the servers have logged of troubles, and where the threads of a broker that runs stand."""
        lines = [
            line for log in sorted(self.home.rglob("*.log")) for line in log.read_text("utf-8", "replace").splitlines()
        ]
        said = [line for line in lines if re.search(r"\b(WARN|ERROR)\b|Exception|^\s+at ", line)][-200:]
        if self._broker is not None and self._broker.exit_code is None and (jcmd := shutil.which("jcmd")):
            stacks = subprocess.run(
                [jcmd, str(self.broker_pid), "Thread.print"], capture_output=True, text=True, check=False
            )
            said.append(stacks.stdout)
        return "\n".join(said)

    def _jvm(self, role: str, main_class: str, *args: str, heap: tuple[str, ...]) -> ServerJvm:
        flags = (*heap, *self._jvm_flags)
        return ServerJvm(
            self.java, role, main_class, *args, flags=flags, home=self.home, quickly=self.starts_quickly
        )  # fmt: skip

    def _write_conf(self, name: str, keys: Mapping[str, str | int | bool]) -> Path:
        if self.version != APACHE_4:
            keys = {"bindAddress": "127.0.0.1", **keys}
        path = self.home / f"{name}.conf"
        path.write_text("".join(f"{key}={_spelled(value)}\n" for key, value in keys.items()), "utf-8")
        return path


def as_slave(version: str, namesrv_addr: str, **broker_conf: Any) -> ApacheCluster:
    """A slave, number 1, of the master named broker-a; `start` returns before it has copied anything."""
    return ApacheCluster(version, namesrv_addr=namesrv_addr, brokerId=1, brokerRole="SLAVE", **broker_conf)


def mqadmin(
    version: str,
    *args: str,
    timeout_s: float = HANG_S,
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

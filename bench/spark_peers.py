# SPDX-License-Identifier: Apache-2.0
"""Peers of spark_bench.py: a local Kafka broker and Spark's Kafka connector.

The jars come from Maven Central by the pom files below maven/, into the cache of the interop peers. Peers that are not available are left
out, with the reason.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Final

from interop.apache_cluster import free_ports
from interop.child import Child, poll_until
from interop.java_peers import PeersUnavailable, maven_jars

__all__ = ["KafkaBroker", "PeersUnavailable", "kafka_connector_jars"]

_MAVEN: Final = Path(__file__).resolve().parent / "maven"
_HEAP: Final = ("-Xms1g", "-Xmx1g")
_QUEUES: Final = 8


def kafka_connector_jars() -> str:
    """Spark's Kafka connector, in the form of ``spark.jars``.

    Raises:
        PeersUnavailable: it is not available on this machine.
    """
    folder = maven_jars("spark-kafka", _MAVEN / "spark-kafka/pom.xml", "Spark's Kafka connector")
    return ",".join(map(str, sorted(folder.glob("*.jar"))))


class KafkaBroker:
    """One Kafka broker in KRaft mode on free ports, with its data in a temporary folder. Topics are created with the first write."""

    def __init__(self) -> None:
        if shutil.which("java") is None:
            raise PeersUnavailable("java is not on the PATH: Kafka needs a JDK")
        self._lib = maven_jars("kafka", _MAVEN / "kafka/pom.xml", "Kafka")
        self.home = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
        self.port = free_ports(1)
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self._child: Child | None = None

    def __enter__(self) -> KafkaBroker:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 1}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.port + 1}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.home / "data",
            "num.partitions": _QUEUES,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
        }
        conf = self.home / "server.properties"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(conf))
        self._child = Child(self._command("kafka.Kafka", str(conf)), self.home / "err.log", cwd=self.home)
        try:
            poll_until(self._listens, "Kafka listens", 90)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop(30)
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def _command(self, main_class: str, *args: str) -> list[str]:
        return ["java", *_HEAP, f"-Duser.home={self.home}", "-cp", f"{self._lib}/*", main_class, *args]

    def _java(self, main_class: str, *args: str) -> None:
        done = subprocess.run(self._command(main_class, *args), capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeersUnavailable(
                f"{main_class} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"
            )

    def _listens(self) -> bool:
        assert self._child is not None
        if self._child.exit_code is not None:
            raise PeersUnavailable(f"Kafka ended while starting: {self._child.last_words()}")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

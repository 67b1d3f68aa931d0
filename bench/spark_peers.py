# SPDX-License-Identifier: Apache-2.0
"""Peers of spark_bench.py: a local Kafka broker, Spark's Kafka connector, and a source that reads nothing.

The jars come from Maven Central by the pom files below maven/, into the cache of the interop peers. Peers that are not available are left
out, with the reason.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from interop.apache_cluster import free_ports
from interop.child import Child, poll_until
from interop.java_peers import PeersUnavailable, maven_jars

__all__ = ["CeilingSource", "KafkaBroker", "PeersUnavailable", "kafka_connector_jars"]

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


# -- the ceiling -----------------------------------------------------------------------------------------------------------------


class CeilingSource(DataSource):
    """Returns one finished Arrow batch repeatedly. No Python source can be faster.

    Options: ``rows``, ``bodyBytes``, ``tasks``, ``columns``, and ``properties`` as JSON; the schema is that of our own source.
    """

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        from sprocketmq.spark.source import message_schema

        return message_schema(tuple(self.options["columns"].split(",")))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self.options
        return _CeilingReader(
            schema, int(options["rows"]), int(options["bodybytes"]), int(options["tasks"]), options["properties"]
        )


class _CeilingReader(DataSourceReader):
    def __init__(self, schema: StructType, rows: int, body_bytes: int, tasks: int, properties: str) -> None:
        self._schema, self._rows, self._body_bytes, self._tasks = schema, rows, body_bytes, tasks
        self._properties = properties

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        batch = _ready_batch(to_arrow_schema(self._schema, timezone="UTC"), self._body_bytes, self._properties)
        left = self._rows // self._tasks
        while left > 0:
            yield batch if batch.num_rows <= left else batch.slice(0, left)
            left -= batch.num_rows


# Spark's Python workers are used for several tasks: only the first task of each makes the batch, in the round that does not count.
_ready: Final[dict[tuple[Any, ...], pa.RecordBatch]] = {}


def _ready_batch(schema: pa.Schema, body_bytes: int, properties: str) -> pa.RecordBatch:
    from spark_decode import pull_bodies
    from sprocketmq.spark.columns.decode import BatchDecoder

    key = (*schema.names, body_bytes, properties)
    if key not in _ready:
        bodies = pull_bodies(body_bytes, {"KEYS": "N1234567", **json.loads(properties)})
        (_ready[key],) = BatchDecoder(schema).decode(bodies)
    return _ready[key]

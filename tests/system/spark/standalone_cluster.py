# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster on this machine: a master and two workers, each a process from PySpark's own distribution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

import pyspark

from system.spark.spark_processes import Found, kill, session_of

WORKERS: Final = 2
MOST_CORES: Final = 3
# A worker has room for one executor of this size: each worker runs one, whatever its cores.
EXECUTOR_MEMORY, _WORKER_MEMORY = "600m", "1g"
_START_S: Final = 120.0
_HOME: Final = Path(pyspark.__file__).parent
_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class StandaloneCluster:
    """A context manager. Executors are children of their worker, have its environment, and end when it is killed.

    Args:
        directory: for logs (``master.log``, ``worker-0.log``), and ``work``, where each executor leaves its own.
        env: of all processes, beside this one's.
    """

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self._directory = directory
        self._env = {
            **os.environ, "SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(directory / "local"), "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _SMALL,
            **env,
        }  # fmt: skip
        self._leaders: list[int] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> StandaloneCluster:
        self._directory.mkdir(exist_ok=True)
        self._master = self._started("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        try:
            self.url = self._address()
            self._workers = [self._worker(number) for number in range(WORKERS)]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for found in self.processes():
            kill(found.pid)
        for process in (self._master, *self._workers):
            process.wait()

    def processes(self) -> list[Found]:
        """Of the cluster, and of all that its workers started."""
        return [found for leader in self._leaders for found in session_of(leader)]

    def revive(self) -> None:
        """Start again each worker that was killed."""
        if self._master.poll() is not None:
            raise AssertionError(f"the master ended by itself; see {self._directory}/master.log")
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[number] = self._worker(number)

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        size = ("--cores", str(MOST_CORES), "--memory", _WORKER_MEMORY, "--work-dir", str(self._directory / "work"))
        return self._started(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *size, self.url)

    def _started(self, name: str, java_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(_HOME / "bin/spark-class"), java_class, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with open(self._directory / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log, start_new_session=True)
        self._leaders.append(process.pid)
        return process

    def _address(self) -> str:
        """The master chooses its port, and logs it."""
        log, deadline_s = self._directory / "master.log", time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._master.poll() is None:
            if said := re.search(r"Starting Spark master at (spark://\S+:[1-9]\d*)", log.read_text("utf-8", "replace")):
                return said[1]
            time.sleep(0.05)
        raise AssertionError(f"no master came up; see {log}")

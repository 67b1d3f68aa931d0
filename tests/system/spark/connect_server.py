# SPDX-License-Identifier: Apache-2.0
"""A server of Spark Connect, a process of its own: on a free port, and for this machine alone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from interop.apache_cluster import free_ports
from interop.child import poll_until

_PATIENCE_S = 240.0


@contextlib.contextmanager
def connect_server(directory: Path, **variables: str) -> Iterator[str]:
    """Where clients find it, as ``sc://host:port``; it is gone at the end.

    Args:
        directory: where it works: its tables are in ``spark-warehouse`` there, what it says in ``connect-server.log``.
        variables: of its environment.
    """
    port = free_ports()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    command: list[str | Path] = [Path(sys.executable).with_name("spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    log = directory / "connect-server.log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environment, **variables},
            stdout=said,
            stderr=said,
            start_new_session=True,  # it and its Python workers end together
        )
    try:
        poll_until(lambda: _listens(server, port, log), "Spark Connect listens", _PATIENCE_S)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _listens(server: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    assert server.poll() is None, log.read_text("utf-8", "replace")[-4_000:]
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False

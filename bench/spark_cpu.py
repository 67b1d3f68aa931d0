# SPDX-License-Identifier: Apache-2.0
"""The processor time of the processes of a Spark session, and of other processes (Linux)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_pids(spark: SparkSession) -> list[int]:
    """The JVM, then the Python processes below it."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    found: list[int] = [gateway.proc.pid]
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        for line in proc_lines(pid, "stat"):
            children.setdefault(int(line.rpartition(")")[2].split()[1]), []).append(pid)
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of processes and of their children that ended."""
    ticks = 0
    for pid in pids:
        for line in proc_lines(pid, "stat"):
            ticks += sum(map(int, line.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def proc_lines(pid: int, name: str) -> list[str]:
    """The lines of a file of ``/proc/pid``; none of a process that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_text().splitlines()
    return []

# SPDX-License-Identifier: Apache-2.0
"""The processes of a Spark application or cluster, found by their session, and what they are for Spark. Linux: /proc."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_JAVA_ROLES: Final = {
    "org.apache.spark.deploy.master.Master": "master",
    "org.apache.spark.deploy.worker.Worker": "standalone worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend": "executor",
}


@dataclass(frozen=True)
class Found:
    """A living process. Role: ``driver`` (who leads the session), ``jvm``, one of ``_JAVA_ROLES``, or the Python module it runs."""

    pid: int
    role: str


def kill(pid: int) -> None:
    """SIGKILL; harmless when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def session_of(leader: int) -> Iterator[Found]:
    """The living processes of a session."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # pid (name) state parent group session ...
            state, parent, _, session = (entry / "stat").read_text().rpartition(") ")[2].split()[:4]
            said = (entry / "cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(session) != leader or state == "Z":
            continue
        pid = int(entry.name)
        if "java" in said[0]:
            yield Found(pid, next((role for name, role in _JAVA_ROLES.items() if name in said), "jvm"))
        elif pid == leader:
            yield Found(pid, "driver")
        elif "-m" in said and (module := said[said.index("-m") + 1]).startswith("pyspark."):
            if module != "pyspark.daemon":  # the source's own process
                yield Found(pid, module.rpartition(".")[2])
            else:
                what = said[said.index(module) + 1].rpartition(".")[2]
                yield Found(pid, what if _is_worker(int(parent)) else f"{what} daemon")


def _is_worker(parent: int) -> bool:
    """Whether a process with this parent was forked by a daemon."""
    try:
        return b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False

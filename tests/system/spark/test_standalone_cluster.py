# SPDX-License-Identifier: Apache-2.0
"""The cluster of the long kill storm is a real one: its master knows two workers, a killed one comes back, and no process stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.child import poll_until
from system.spark.spark_processes import kill
from system.spark.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_killed_worker_registers_again_and_no_process_stays(tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path, {}) as cluster:
        log = tmp_path / "master.log"

        def registered() -> int:
            cluster.revive()
            return log.read_text("utf-8", "replace").count("Registering worker 127.0.0.1:")

        poll_until(lambda: registered() == 2, "two workers", 120)
        first = cluster.processes()
        assert sorted(found.role for found in first) == ["master", "standalone worker", "standalone worker"]
        kill(next(found.pid for found in first if found.role == "standalone worker"))
        poll_until(lambda: registered() == 3, "the worker again", 120)
    assert cluster.processes() == []

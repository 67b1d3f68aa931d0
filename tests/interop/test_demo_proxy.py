# SPDX-License-Identifier: Apache-2.0
"""The demo at Apache's proxy: `sprocketmq demo --namesrv-addr PROXY`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interop.apache_proxy import ApacheProxy
from interop.peers import APACHE_55, ApacheCluster

pytestmark = pytest.mark.nightly

ROWS = 2_000


def _demo(namesrv_addr: str, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sprocketmq.cli", "demo", "--rows", str(ROWS), "--out", str(out)]
    return subprocess.run(
        [*command, "--namesrv-addr", namesrv_addr], capture_output=True, text=True, timeout=540, check=False
    )


@pytest.mark.spark
def test_every_number_reconciles_behind_a_proxy(java_peers, tmp_path):
    """Publishing, retries to the dead letters, order, and the Spark pipeline with row retry."""
    with ApacheCluster(APACHE_55) as cluster, ApacheProxy(cluster) as proxy:
        refused = _demo(proxy.namesrv_addr, tmp_path / "refused")
        assert refused.returncode == 2
        assert f"at the proxy {proxy.namesrv_addr}, which creates none; create it there" in refused.stderr
        proxy.create_topic("flights", 8)
        done = _demo(proxy.namesrv_addr, tmp_path / "out")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Every number reconciles" in done.stdout
        again = _demo(proxy.namesrv_addr, tmp_path / "again")
        assert again.returncode == 2
        assert f"has {ROWS:,} messages already" in again.stderr

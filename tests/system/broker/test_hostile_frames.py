# SPDX-License-Identifier: Apache-2.0
"""Twenty thousand hostile frames and six short floods beside honest clients; `make hostile` is long."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for bench/hostile.c")
def test_twenty_thousand_hostile_frames_and_floods_leave_the_server_up_and_small_and_other_clients_served():
    command = [
        sys.executable,
        "bench/hostile_frames.py",
        "--frames",
        "20000",
        "--seconds",
        "150",
        "--no-memory",
        "--flood-seconds",
        "1.5",
    ]
    done = subprocess.run(
        [*command, "--corpus", "8000"], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stderr[-4000:]

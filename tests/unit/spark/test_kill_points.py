# SPDX-License-Identifier: Apache-2.0
"""The streams that kill tests run stop at points inside the product, named as the product names them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_each_point_at_which_a_stream_may_die_is_there(tmp_path: Path) -> None:
    environment = {**os.environ, "KILL_IN": str(tmp_path), "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", "import system.spark.killed_pipelines"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")

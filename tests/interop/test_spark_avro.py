# SPDX-License-Identifier: Apache-2.0
"""``body_values`` against Spark's own ``from_avro``: random schemas, values, evolutions and broken bodies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.java_peers import PeersUnavailable, maven_jars

pytestmark = [pytest.mark.spark, pytest.mark.peer, pytest.mark.nightly, pytest.mark.timeout(900)]

HERE = Path(__file__).parent


def test_values_of_avro_are_those_of_sparks_from_avro(tmp_path):
    try:
        folder = maven_jars("spark-avro", HERE / "maven/spark-avro/pom.xml", "Spark's from_avro")
    except PeersUnavailable as reason:
        pytest.skip(str(reason))
    (jar,) = folder.glob("*.jar")
    command: list[str | Path] = [sys.executable, HERE / "spark_avro_judge.py", jar, tmp_path]
    environment = {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-6_000:]

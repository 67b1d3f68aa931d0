# SPDX-License-Identifier: Apache-2.0
"""The example that keeps a Delta table, with Delta's own jars, in the PySpark that they need (scripts/test-old-spark installs it)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from interop.java_peers import maven_jars
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".setup/spark-4.2/bin/python"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def test_changes_are_merged_into_a_delta_table(
    mq: EmbeddedRocketMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    import spark_merge_changes as merging

    subprocess.run([ROOT / "scripts/test-old-spark", "--version"], check=True, timeout=1200)
    jars = maven_jars("delta", ROOT / "tests/interop/maven/delta/pom.xml", "Delta Lake")
    submit = [
        "--jars",
        ",".join(map(str, jars.iterdir())),
        *(f"--conf={name}={value}" for name, value in DELTA.items()),
    ]
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": " ".join([*submit, "pyspark-shell"])}
    environment.pop("SPARK_HOME", None)  # of the other PySpark
    environment |= {"PYSPARK_PYTHON": str(PYTHON), "PYSPARK_DRIVER_PYTHON": str(PYTHON)}

    def run() -> list[tuple[str, str, str]]:
        command = [PYTHON, ROOT / "examples/spark_merge_changes_delta.py", "--namesrv-addr", mq.namesrv_addr]
        done = subprocess.run(
            [*command, "--out", tmp_path], env=environment, text=True, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-4_000:]
        print(done.stdout)
        return re.findall(r"^\| *(N\w+)\| *(\w+)\| *(\d+)\|", done.stdout, re.MULTILINE)

    merging.publish(mq.namesrv_addr, *merging.CHANGES)
    assert run() == [("N14228", "United", "150"), ("N668DN", "Delta", "178")]
    (dead,) = mq.messages("%DLQ%planes-delta")
    assert b"many" in dead.body
    merging.publish(mq.namesrv_addr, *merging.CHANGES[:4])  # as Canal repeats them after a crash
    later = {**merging.transaction(7), "type": "UPDATE", "data": [merging.plane("N668DN", "Delta", "180")]}
    merging.publish(mq.namesrv_addr, {**later, "old": [{"seats": "178"}]})
    assert run() == [("N14228", "United", "150"), ("N668DN", "Delta", "180")]

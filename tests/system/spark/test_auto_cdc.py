# SPDX-License-Identifier: Apache-2.0
"""The example of AUTO CDC (examples/spark_auto_cdc), run by the PySpark that scripts/test-old-spark installs. Its tables are those with
which Spark tests AUTO CDC itself: no table format that is released offers what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_deploying import table_of

from interop.java_peers import maven_jars
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
BIN = ROOT / ".setup/spark-4.2/bin"
CATALOG = "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"

# The tables are in the memory of the server, which ends with the command: both runs and what comes of them, in one process.
RUNS = """
import sys
from pathlib import Path

from pyspark.pipelines import cli
from pyspark.sql import SparkSession

if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    import spark_merge_changes as merging

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.sql("CREATE NAMESPACE lake.fleet")
    type(spark).stop = lambda self: None
    later = {**merging.transaction(7), "type": "UPDATE", "data": [merging.plane("N668DN", "Delta", "180")]}
    gone = {**merging.transaction(8), "type": "DELETE", "data": [merging.plane("N14228", "United", "150")]}
    for changes in (merging.CHANGES, [*merging.CHANGES[:4], {**later, "old": [{"seats": "178"}]}], [gone]):
        merging.publish(sys.argv[2], *changes)
        cli.run(Path("spark-pipeline.yml"), full_refresh=[], full_refresh_all=False, refresh=[], dry=False)
        rows = spark.table("lake.fleet.planes").select("tailnum", "airline", "seats").collect()
        print("table:", sorted(map(tuple, rows)), flush=True)
"""


def test_changes_become_a_table_by_auto_cdc(mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts/test-old-spark", "--version"], check=True, timeout=1200)
    (jar,) = maven_jars("auto-cdc", ROOT / "tests/interop/maven/auto-cdc/pom.xml", "Spark's test catalogs").iterdir()
    place = tmp_path / "pipeline"
    shutil.copytree(ROOT / "examples/spark_auto_cdc", place)
    spec = place / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/sprocketmq-planes", f"file://{tmp_path}/storage"))
    (place / "runs.py").write_text(RUNS)
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.connect.grpc.binding.address 127.0.0.1\nspark.driver.extraClassPath {jar}\nspark.sql.catalog.lake {CATALOG}\n"
    )
    environment = {
        **os.environ,
        "NAMESRV_ADDR": mq.namesrv_addr,
        "PYSPARK_PYTHON": str(BIN / "python"),
        "PYSPARK_DRIVER_PYTHON": str(BIN / "python"),
        "SPARK_CONF_DIR": str(tmp_path),
    }
    environment.pop("SPARK_HOME", None)  # of the other PySpark
    command = [BIN / "python", "runs.py", ROOT / "examples", mq.namesrv_addr]
    done = subprocess.run(command, cwd=place, env=environment, text=True, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4_000:]
    assert [line for line in done.stdout.splitlines() if line.startswith("table:")] == [
        "table: [('N14228', 'United', 150), ('N668DN', 'Delta', 178)]",
        "table: [('N14228', 'United', 150), ('N668DN', 'Delta', 180)]",
        "table: [('N668DN', 'Delta', 180)]",
    ]
    (unread,) = table_of(place / "spark-warehouse/unread_changes").to_pylist()
    assert b"many" in unread["body"]

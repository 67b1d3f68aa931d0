# SPDX-License-Identifier: Apache-2.0
"""Spark as it is deployed: packages shipped with --py-files to workers that have them not, an environment that is not activated, and Spark
Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from system.spark.connect_server import connect_server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
SOURCES = Path(rmq.__file__).parents[1]


@pytest.fixture
def flights(mq: EmbeddedRocketMQ) -> EmbeddedRocketMQ:
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", str(number).encode(), tags="UA") for number in range(10)])
    return mq


def run(command: list[str | Path], environment: dict[str, str | None], cwd: Path) -> dict[str, Any]:
    """What the last line of the job says. None in the environment: not set."""
    variables = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    # No test's warnings filter reaches it; Java says what it likes on stderr.
    done = subprocess.run(command, env=variables, cwd=cwd, text=True, capture_output=True, timeout=800)
    assert done.returncode == 0, done.stderr[-4_000:]
    said: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return said


def table_of(folder: Path) -> Any:
    """What Spark wrote as Parquet, without Spark."""
    import pyarrow.dataset as dataset

    return dataset.dataset(str(folder), format="parquet", exclude_invalid_files=True).to_table()


def test_a_zip_of_the_packages_is_all_that_workers_need(flights: EmbeddedRocketMQ, tmp_path: Path) -> None:
    shipped = tmp_path / "sprocketmq.zip"
    with zipfile.ZipFile(shipped, "w") as packed:
        for package in ("sprocketmq", "pyspark_rocketmq"):
            for file in sorted((SOURCES / package).rglob("*.py")):
                packed.write(file, file.relative_to(SOURCES))
    # Without its site module Python does not look into .pth files, so an editable install is not seen; what is beside it is.
    libraries = Path(pyspark.__file__).parents[1]
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    submit = Path(sys.executable).with_name("spark-submit")
    command = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", "--py-files", shipped]
    environment: dict[str, str | None] = {
        "PYSPARK_PYTHON": str(bare),
        "PYSPARK_DRIVER_PYTHON": str(bare),
        "PYTHONPATH": "",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "PATH": f"{submit.parent}:{os.environ['PATH']}",
    }
    said = run([*command, HERE / "job_with_py_files.py", flights.namesrv_addr], environment, tmp_path)
    assert said["count"] == 10
    assert ".zip" in said["home"]
    assert len(flights.messages("copy")) == 10


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["before", "after"])
def test_workers_run_the_python_of_an_environment_that_is_not_activated_if_the_import_comes_before_the_session(
    flights: EmbeddedRocketMQ, tmp_path: Path, when: str
) -> None:
    other = tmp_path / "bin/python3"  # the first one of PATH: without what is installed, as a system's own
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    environment = {
        "PYSPARK_PYTHON": None,
        "PYSPARK_DRIVER_PYTHON": None,
        "PYTHONPATH": None,
        "PATH": f"{other.parent}:{os.environ['PATH']}",
    }
    said = run([sys.executable, HERE / "not_activated.py", flights.namesrv_addr, when], environment, tmp_path)
    if when == "before":
        assert said == {"found": "10", "logged": []}
        return
    assert "DATA_SOURCE_NOT_FOUND" in said["found"]  # as without the import
    [line] = said["logged"]
    assert line.startswith(f"Spark's workers run {other}, which does not have sprocketmq")
    assert f"PYSPARK_PYTHON to {sys.executable} before Spark starts" in line


def test_connect_reads_writes_gives_rows_back_and_runs_pipelines(flights: EmbeddedRocketMQ, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    change = b'{"database": "a", "table": "b", "type": "insert", "ts": 1, "data": {"id": 7, "seen": null}}'
    with flights.producer() as producer:
        producer.send(rmq.Message("changes", change))
    command: list[str | Path] = [sys.executable, HERE / "connected.py", flights.namesrv_addr, str(tmp_path)]
    with connect_server(tmp_path, NAMESRV_ADDR=flights.namesrv_addr) as remote:
        said = run(command, {"SPARK_REMOTE": remote}, tmp_path)
    assert said["session"].startswith("pyspark.sql.connect")
    assert (said["count"], said["table"], said["good"]) == (10, 10, 9)
    assert "the query's source has group 'delays' and includeRetry false" in said["refused"]
    # "0" to "9" are 24, -25, 25, -26 and so on in Avro, and no objects of JSON
    assert said["values"] == [sum((n >> 1) ^ -(n & 1) for n in b"0123456789"), 10]
    by_sql, by_python = tmp_path / "spark-warehouse", tmp_path / "spark-warehouse/of_python.db"
    for folder in (by_sql, by_python):
        assert table_of(folder / "delays").to_pylist() == [{"carrier": "UA", "flights": 10, "mean_delay": 4.5}]
    late = sorted((message.tags, message.body) for message in flights.messages("late-flights"))
    assert late == [("UA", b"%d" % number) for number in range(5, 10)]
    assert table_of(by_python / "changes").to_pylist() == [{"operation": "insert", "id": 7}]
    assert len(table_of(by_python / "values_of_bodies")) == 10
    refused = [(row["times"], "StructType" in row["sentence"]) for row in table_of(by_python / "refused").to_pylist()]
    assert set(refused) == {(2, True)}
    assert len(flights.messages("copy")) == 10
    assert [(dead.body, dead.properties["RETRY_REASON"]) for dead in flights.messages("%DLQ%delays")] == [
        (b"7", "seven")
    ]

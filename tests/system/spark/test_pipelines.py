# SPDX-License-Identifier: Apache-2.0
"""The declarative pipeline of the examples, run by Spark's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_deploying import table_of

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_declarative_pipeline_in_python_and_sql_runs_by_its_command(mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="spark-pipelines needs pyspark[pipelines]")
    with mq.producer() as producer:
        flights = [("UA", b"4"), ("UA", b"8"), ("DL", b"-1")]
        producer.send_batch([rmq.Message("flights", delay, tags=carrier) for carrier, delay in flights])
    place = tmp_path / "pipeline"
    shutil.copytree(EXAMPLES / "spark_pipeline", place)
    spec = place / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/sprocketmq-pipeline", f"file://{tmp_path}/storage"))
    command = Path(sys.executable).with_name("spark-pipelines")
    environment = {
        **os.environ,
        "NAMESRV_ADDR": mq.namesrv_addr,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
    }
    # The server that the command brings would listen on all addresses; its port is 15002, the only one where the command looks.
    alone = ["--conf", "spark.connect.grpc.binding.address=127.0.0.1"]
    done = subprocess.run(
        [command, *alone, "run"], cwd=place, env=environment, text=True, capture_output=True, timeout=800
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    made = table_of(place / "spark-warehouse/delays").to_pylist()
    rows = {(row["carrier"], row["flights"], row["mean_delay"]) for row in made}
    assert rows == {("UA", 2, 6.0), ("DL", 1, -1.0)}
    assert [(message.tags, message.body) for message in mq.messages("late-flights")] == [("UA", b"8")]

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

# What is made of bodies, in functions in which Spark analyses nothing.
OF_BODIES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import body_values, change_events

COLUMNS = StructType.fromDDL("id int, seen array<int>")


def rows(topic):
    return SparkSession.active().readStream.format("rocketmq").options(topic=topic, startingOffsets="earliest").load()


@dp.table
def changes():
    return change_events(rows("changes"), "maxwell", COLUMNS).selectExpr("operation", "after.id")


@dp.table
def values_of_bodies():
    return body_values(rows("flights"), "json", COLUMNS).selectExpr("value.id", "reason")


@dp.table
def refused():
    said = []
    for function, format in ((change_events, "maxwell"), (body_values, "json")):
        try:
            function(rows("flights"), format, "id int")
        except ConfigurationError as error:
            said.append(str(error))
    return rows("flights").selectExpr(f"{len(said)} AS times", f"'{said[0]}' AS sentence".replace("'id int'", "id int"))
"""


def test_a_declarative_pipeline_in_python_and_sql_runs_by_its_command(mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="spark-pipelines needs pyspark[pipelines]")
    with mq.producer() as producer:
        flights = [("UA", b"4"), ("UA", b"8"), ("DL", b"-1")]
        producer.send_batch([rmq.Message("flights", delay, tags=carrier) for carrier, delay in flights])
        producer.send(
            rmq.Message(
                "changes",
                b'{"database": "a", "table": "b", "type": "insert", "ts": 1, "data": {"id": 7, "seen": null}}',
            )
        )
    place = tmp_path / "pipeline"
    shutil.copytree(EXAMPLES / "spark_pipeline", place)
    spec = place / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/sprocketmq-pipeline", f"file://{tmp_path}/storage"))
    (place / "transformations/of_bodies.py").write_text(OF_BODIES)
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
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    made = table_of(place / "spark-warehouse/delays").to_pylist()
    rows = {(row["carrier"], row["flights"], row["mean_delay"]) for row in made}
    assert rows == {("UA", 2, 6.0), ("DL", 1, -1.0)}
    assert [(message.tags, message.body) for message in mq.messages("late-flights")] == [("UA", b"8")]
    assert table_of(place / "spark-warehouse/changes").to_pylist() == [{"operation": "insert", "id": 7}]
    assert len(table_of(place / "spark-warehouse/values_of_bodies")) == 3
    assert {
        (row["times"], "StructType" in row["sentence"])
        for row in table_of(place / "spark-warehouse/refused").to_pylist()
    } == {(2, True)}

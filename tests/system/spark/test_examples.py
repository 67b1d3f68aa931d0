# SPDX-License-Identifier: Apache-2.0
"""The Spark examples do what they say, on the tests' own session; test_deploying runs the pipelines."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _as_scripts_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.fixture
def patient() -> Iterator[EmbeddedRocketMQ]:
    """One that does not ask about half messages while a slow machine runs its first batch."""
    with EmbeddedRocketMQ(clock="system", transactionTimeOut=600_000) as embedded:
        yield embedded


def example(name: str) -> Any:
    return importlib.import_module(name)


def test_flights_become_a_table_and_cancelled_ones_dead_letters(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    flights = example("spark_flights_to_parquet")
    example("stage").publish_flights(mq.namesrv_addr, 1_000)
    with mq.producer() as producer:
        producer.send(rmq.Message("flights", b"UA 1545"))
    cancelled = sum(b'"dep_time":null' in message.body for message in mq.messages("flights"))
    assert cancelled > 2
    for tries in range(3):
        example("stage").wait(flights.run(spark, mq.namesrv_addr, tmp_path))
        mq.wait_until(lambda tries=tries: len(mq.messages("%RETRY%delays")) == min(tries + 1, 2) * (cancelled + 1))
    assert sum(row.flights for row in flights.delays(spark, tmp_path).collect()) == 1_000 - cancelled
    letters = flights.dead_letters(spark, mq.namesrv_addr).collect()
    assert sorted((row.reason, row.tries, row["count"]) for row in letters) == [
        ("no departure time", 3, cancelled),
        ("not a flight", 3, 1),
    ]


@pytest.mark.nightly
def test_an_example_is_one_command_and_ends_in_order_with_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "spark_flights_to_parquet.py", "--rows", "300", "--follow"]
    said, troubles = tmp_path / "said", tmp_path / "troubles"
    with said.open("w") as out, troubles.open("w") as err:
        run = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=err, start_new_session=True)
    try:
        deadline_s = time.monotonic() + 300
        while "batch 0: 300 rows" not in said.read_text():
            assert run.poll() is None, troubles.read_text()
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)  # a terminal's Ctrl-C is for all that run in it
        assert run.wait(300) == 0, troubles.read_text()
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    assert "stopped" in said.read_text()
    assert "|     UA|" in said.read_text()
    # Spark's runner of a source may say that Spark closed its connection before it was ended itself.
    assert str(EXAMPLES) not in troubles.read_text()
    assert "KeyboardInterrupt" not in troubles.read_text()


def test_ctrl_c_ends_an_example_in_order_before_spark_is_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(given: object) -> None:
        raise KeyboardInterrupt

    stage = example("stage")
    monkeypatch.setattr(sys, "argv", ["spark_enrich.py"])
    with pytest.raises(SystemExit) as ended, stage.stage(stage.arguments(None), interrupted):
        pytest.fail("there is nothing to run yet")
    assert (ended.value.code, capsys.readouterr().err) == (130, "stopped\n")


def test_an_example_says_in_one_sentence_what_is_wrong_with_its_arguments() -> None:
    command = [sys.executable, EXAMPLES / "spark_enrich.py", "--namesrv-addr", "127.0.0.1:1"]
    run = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert run.returncode != 0
    assert "error: cannot connect to 127.0.0.1:1" in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


def test_a_change_stream_is_kept_as_a_table(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    merging, wait = example("spark_merge_changes"), example("stage").wait
    merging.publish(mq.namesrv_addr, *merging.CHANGES)
    wait(merging.run(spark, mq.namesrv_addr, tmp_path))
    assert rows(merging, spark, tmp_path) == [("N14228", "United", 150), ("N668DN", "Delta", 178)]
    (dead,) = mq.messages("%DLQ%planes-table")
    assert json.loads(dead.body)["data"] == [merging.plane("N668DN", "Delta", "many")]
    at = [merging.transaction(number) for number in range(7, 11)]
    merging.publish(
        mq.namesrv_addr,
        {**at[0], "type": "DELETE", "data": [merging.plane("N14228", "United", "150")]},
        {**at[1], "type": "INSERT", "data": [merging.plane("N24211", "Delta", "90")]},  # deleted before, here again
        {**at[2], "type": "REPAINT", "data": [merging.plane("N668DN", "Delta", "178")]},  # changes no row
        {**at[3], "type": "TRUNCATE", "isDdl": True, "data": None},
        *merging.CHANGES[:4],  # as Canal repeats them after a crash; they would bring N14228 back
    )
    wait(merging.run(spark, mq.namesrv_addr, tmp_path))
    assert rows(merging, spark, tmp_path) == [("N24211", "Delta", 90), ("N668DN", "Delta", 178)]
    assert "begin in a new folder" in mq.messages("%DLQ%planes-table")[-1].properties["RETRY_REASON"]


def test_avro_of_two_schemas_is_one_table_and_what_cannot_be_read_a_dead_letter(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    orders = example("spark_avro_to_parquet")
    orders.publish_some(mq.namesrv_addr)
    example("stage").wait(orders.run(spark, mq.namesrv_addr, tmp_path))
    table = spark.read.parquet(str(tmp_path / "orders")).orderBy("id").collect()
    assert [(row.id, str(row.price), row.currency) for row in table] == [
        (1, "12.50", "EUR"),
        (2, "7.00", "EUR"),
        (3, "99.90", "CNY"),
    ]
    (dead,) = mq.messages("%DLQ%orders-table")
    assert dead.properties["RETRY_REASON"] == "the body does not fit: registry has no schema of the id 7"


def rows(merging: Any, spark: SparkSession, folder: Path) -> list[tuple[str, str, int]]:
    kept = merging.table(spark, folder)[1].where("NOT deleted").select("tailnum", "airline", "seats")
    return sorted(tuple(row) for row in kept.collect())


def test_merged_changes_take_effect_by_position_and_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    merging = example("spark_merge_changes")

    def merge(batch: int, *changes: tuple[str, int, int, str, int | None]) -> None:
        made = [
            (kind, [at], offset, None, (tailnum, "UA", seats))
            if kind != "delete"
            else (kind, [at], offset, (tailnum, "UA", 0), None)
            for kind, at, offset, tailnum, seats in changes
        ]
        row = "struct<tailnum:string,airline:string,seats:int>"
        schema = f"operation string, position array<bigint>, queueOffset bigint, before {row}, after {row}"
        merging.merge(spark.createDataFrame(made, schema).selectExpr("*", "0 AS row"), batch, tmp_path)

    merge(
        0,
        ("update", 7, 3, "N1", 150),
        ("delete", 9, 5, "N2", None),
        ("insert", 5, 1, "N1", 149),
        ("insert", 8, 4, "N2", 90),
    )
    assert rows(merging, spark, tmp_path) == [("N1", "UA", 150)]
    merge(0, ("delete", 9, 6, "N1", None))  # a batch that is in the table
    assert rows(merging, spark, tmp_path) == [("N1", "UA", 150)]
    merge(
        1,
        ("insert", 5, 7, "N1", 149),
        ("insert", 8, 8, "N2", 90),
        ("update", 20, 8, "N3", 1),
        ("update", 20, 9, "N3", 2),
    )  # two repeated, one tie
    assert rows(merging, spark, tmp_path) == [("N1", "UA", 150), ("N3", "UA", 2)]
    for batch in range(2, 5):
        (tmp_path / f"v{batch}").mkdir()  # left by a driver that died before it pointed CURRENT there
        merge(batch, ("update", 20 + batch, 20 + batch, "N1", 150 + batch))
    assert rows(merging, spark, tmp_path) == [("N1", "UA", 154), ("N3", "UA", 2)]
    assert sorted(path.name for path in tmp_path.glob("v*")) == ["v2", "v3", "v4"]
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        merging.run(spark, "127.0.0.1:1", tmp_path)


@pytest.mark.parametrize(
    ("delivery", "repeated"), [pytest.param("transactional", 1, marks=pytest.mark.nightly), ("idempotent", 2)]
)
def test_flights_are_enriched_in_the_order_of_their_plane(
    spark: SparkSession, patient: EmbeddedRocketMQ, tmp_path: Path, delivery: str, repeated: int
) -> None:
    enrich, wait = example("spark_enrich"), example("stage").wait
    example("stage").publish_flights(patient.namesrv_addr, 200)
    wait(enrich.run(spark, patient.namesrv_addr, str(tmp_path), delivery))
    for commit in (tmp_path / "commits").glob("*0*"):
        commit.unlink()  # as after a driver that died before Spark wrote that the batch is done
    wait(enrich.run(spark, patient.namesrv_addr, str(tmp_path), delivery))
    found = patient.messages("flights-enriched")
    assert len(found) == 200 * repeated
    numbered = {tuple(message.properties[f"SPARK_{name}"] for name in ("PARTITION", "SEQUENCE")) for message in found}
    assert len(numbered) == 200
    told = [json.loads(message.body) for message in found]
    assert {flight.get("airline") for flight in told} == {name for _, name in enrich.AIRLINES} | {None}
    if repeated == 1:
        counted = enrich.enriched(spark, patient.namesrv_addr).collect()
        assert sum(row["count"] for row in counted) == 200
        asked = [json.loads(message.body) for message in patient.messages("flights")]
        for plane in {flight["tailnum"] for flight in asked if flight["tailnum"]}:
            given = [flight["flight"] for flight in asked if flight["tailnum"] == plane]
            assert [flight["flight"] for flight in told if flight.get("tailnum") == plane] == given


def test_a_backfill_takes_its_span_of_time_and_replaces_itself(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    backfill = example("spark_backfill")

    def publish(*bodies: bytes) -> None:
        with mq.producer() as producer:
            producer.send_batch([rmq.Message("flights", body) for body in bodies])

    publish(b"before")
    begin = newest(mq) + 1
    wait_past(begin)
    publish(b"that", b"night")
    end = newest(mq) + 1
    wait_past(end)
    publish(b"after")
    for _ in range(2):
        backfill.run(spark, mq.namesrv_addr, str(begin), str(end), str(tmp_path / "flights"))
        assert sum(row.messages for row in backfill.by_hour(spark, str(tmp_path / "flights")).collect()) == 2
    bodies = {bytes(row.body) for row in spark.read.parquet(str(tmp_path / "flights")).collect()}
    assert bodies == {b"that", b"night"}
    backfill.run(spark, mq.namesrv_addr, str(begin - 2_000), str(begin - 1_000), str(tmp_path / "nothing"))
    assert backfill.by_hour(spark, str(tmp_path / "nothing")).collect() == []


def newest(mq: EmbeddedRocketMQ) -> int:
    return max(message.store_timestamp_ms for message in mq.messages("flights"))


def wait_past(moment_ms: int) -> None:
    while time.time_ns() // 1_000_000 <= moment_ms:
        time.sleep(0.001)


@pytest.mark.filterwarnings("ignore")  # matplotlib's own, and pandas' through Spark
def test_the_notebook_draws_mends_and_replays_dead_letters(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads((EXAMPLES / "spark_dead_letters.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    names: dict[str, Any] = {"__name__": "notebook"}
    figures = []
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda: figures.append(pyplot.gcf()))
    try:
        for cell in cells:
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102 - they are ours
    finally:
        if names.get("own") is not None:
            names["own"].stop()
    by_reason = dict(zip(names["summary"]["reason"], names["summary"]["letters"], strict=True))
    assert by_reason.keys() == {"no departure time", "no plane", "not a flight"}
    assert by_reason["not a flight"] == 2
    assert names["replayed"] == by_reason["no departure time"] > 2
    assert [len(figure.axes) for figure in figures] == [1, 2]
    assert [len(bars) for bars in figures[0].axes[0].containers] == [3]
    assert sum(bar.get_width() for bar in figures[0].axes[0].patches) == sum(by_reason.values())

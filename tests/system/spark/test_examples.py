"""The Spark examples do what they say, on the tests' own session; the pipelines run by their own command."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_change_stream_is_kept_as_a_table(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    merging = example("spark_merge_changes")
    merging.publish(
        mq,
        ("INSERT", "N1", '{"tailnum": "N1", "airline": "UA", "seats": 149}'),
        ("INSERT", "N2", '{"tailnum": "N2", "airline": "UA", "seats": 149}'),
        ("UPDATE", "N1", '{"tailnum": "N1", "airline": "UA", "seats": 150}'),
    )
    merging.run(spark, mq.namesrv_addr, tmp_path)
    merging.publish(
        mq,
        ("DELETE", "N2", '{"tailnum": "N2"}'),
        ("INSERT", "N3", '{"tailnum": "N3", "airline": "DL", "seats": 90}'),
    )
    merging.run(spark, mq.namesrv_addr, tmp_path)
    merged, rows = merging.table(spark, tmp_path)
    assert sorted(tuple(row) for row in rows.collect()) == [("N1", "UA", 150), ("N3", "DL", 90)]
    bad = spark.createDataFrame([("DELETE", 99, b'{"tailnum": "N1"}')], "tags string, queueOffset bigint, body binary")
    merging.merge(bad, merged, tmp_path)  # that batch again, as after a crash
    assert merging.table(spark, tmp_path)[1].count() == 2


def test_flights_are_enriched_in_the_order_of_their_plane(
    spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    enrich = example("spark_enrich")
    enrich.publish(mq, 30)
    enrich.run(spark, mq.namesrv_addr, str(tmp_path))
    rows = [json.loads(message.body) for message in mq.messages("flights-enriched")]
    assert {(row["carrier"], row["airline"]) for row in rows} == {
        ("UA", "United Air Lines"),
        ("DL", "Delta Air Lines"),
    }
    for plane in ("N14228", "N668DN"):
        delays = [row["dep_delay"] for row in rows if row["tailnum"] == plane]
        assert delays == sorted(delays)
    assert len(rows) == 30


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
        assert backfill.run(spark, mq.namesrv_addr, str(begin), str(end), tmp_path / "flights") == 2
    bodies = {bytes(row.body) for row in spark.read.parquet(str(tmp_path / "flights")).collect()}
    assert bodies == {b"that", b"night"}


def newest(mq: EmbeddedRocketMQ) -> int:
    return max(message.store_timestamp_ms for message in mq.messages("flights"))


def wait_past(moment_ms: int) -> None:
    while time.time_ns() // 1_000_000 <= moment_ms:
        time.sleep(0.001)


@pytest.mark.filterwarnings("ignore")  # matplotlib's own
def test_dead_letters_are_drawn_mended_and_replayed(spark: SparkSession, mq: EmbeddedRocketMQ, tmp_path: Path) -> None:
    triage = example("spark_dead_letters")
    triage.publish(mq)
    triage.run(spark, mq.namesrv_addr, tmp_path / "letters.png")
    assert (tmp_path / "letters.png").read_bytes().startswith(b"\x89PNG")
    letters = triage.dead_letters(spark, mq.namesrv_addr).collect()
    assert sorted((row.topic, row.reason, row.tags) for row in letters) == [
        ("flights", "no departure time", "AA"),
        ("flights", "no departure time", "UA"),
        ("flights", "not a flight", "??"),
    ]
    first = {message.message_id: message for message in mq.messages("flights")[:4]}
    replayed = mq.messages("flights")[4:]
    by_body = {message.body: message for message in mq.messages("flights")}
    assert {b"UA 1714 0530", b"AA 1141 0530"} <= by_body.keys()
    for body in (b"UA 1714 0530", b"AA 1141 0530"):
        again = by_body[body]
        assert (again.tags, again.reconsume_times) == (body[:2].decode(), 0)
        assert "RETRY_REASON" not in again.properties
        assert [one for one in (*first.values(), *replayed) if one.message_id == again.message_id and one is not again]

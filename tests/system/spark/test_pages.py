# SPDX-License-Identifier: Apache-2.0
"""Every Python snippet of the pages about Spark runs, in the order of its page, and does what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs/spark"
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def flights(mq: EmbeddedRocketMQ) -> EmbeddedRocketMQ:
    """What the pages read: delays of planes, one of which is none."""
    mq.create_topic("flights", queues=2)
    with mq.producer() as producer:
        bodies = [b"-1", b"4", b"NA", b"25"]
        producer.send_batch([rmq.Message("flights", body, tags="UA", keys="N14228") for body in bodies])
    return mq


@pytest.fixture
def names(spark: SparkSession, flights: EmbeddedRocketMQ, tmp_path: Path) -> Iterator[dict[str, Any]]:
    (tmp_path / "keys").write_text("accessKey: Spark777\nsecretKey: spark-secret\n")
    mq = {"namesrvAddr": flights.namesrv_addr}
    yield {
        "spark": spark,
        "mq": mq,
        "checkpoint": str(tmp_path / "checkpoint"),
        "path": str(tmp_path / "table"),
        "keys_file": str(tmp_path / "keys"),
        "flights": spark.read.format("rocketmq").options(**mq, topic="flights").load(),
    }
    spark.sql("DROP TABLE IF EXISTS flights_topic")


def run_page(page: str, names: dict[str, Any]) -> None:
    """Its snippets one after the other."""
    run_snippets((PAGES / page).read_text("utf-8"), page, names)


def run_snippets(text: str, page: str, names: dict[str, Any]) -> None:
    """A stream that one starts has done its work before the next one, and still runs, as with a reader who does not stop it."""
    streams = names["spark"].streams
    try:
        for found in SNIPPET.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            exec(compile("\n" * line + found[1], page, "exec"), names)  # noqa: S102 - they are ours
            names["mq"]["namesrvAddr"] = names["spark_address"]
            for query in streams.active:
                query.processAllAvailable()
    finally:
        for query in streams.active:
            query.stop()


def test_the_readme_reads_a_topic_as_a_table(names: dict[str, Any], flights: EmbeddedRocketMQ) -> None:
    text = (ROOT / "README.md").read_text("utf-8").replace("127.0.0.1:9876", flights.namesrv_addr)
    begin, end = text.index("## A topic as a table"), text.index("## From a clone")
    made = {**names, "spark_address": flights.namesrv_addr}
    run_snippets(text[begin:end], "README.md", made)
    assert sum(row["count"] for row in made["per_tag"].collect()) == 4


def test_the_first_page_reads_counts_and_copies(names: dict[str, Any], flights: EmbeddedRocketMQ) -> None:
    run_page("index.md", {**names, "spark_address": flights.namesrv_addr})
    assert len(names["spark"].read.parquet(names["path"]).collect()) == 3
    assert sorted(message.body for message in flights.messages("flights-copy")) == [b"-1", b"25", b"4", b"NA"]


def test_the_page_about_writing_is_true(names: dict[str, Any], flights: EmbeddedRocketMQ) -> None:
    run_page("write.md", {**names, "spark_address": flights.namesrv_addr})
    assert len(flights.messages("departures")) == 9
    (refused,) = flights.messages("%DLQ%loads")
    assert "has an empty body" in refused.properties["RETRY_REASON"]
    flights.wait_until(lambda: flights.messages("reminders"))


def test_a_bad_row_is_retried_given_up_and_replayed_as_the_page_says(
    names: dict[str, Any], flights: EmbeddedRocketMQ
) -> None:
    run_page("retry.md", {**names, "spark_address": flights.namesrv_addr})
    good = names["spark"].read.parquet(names["path"]).collect()
    assert sorted(row.delay for row in good) == [-1, 4, 25]
    retried = flights.messages("%RETRY%delays")
    assert {(copy.body, copy.properties["RETRY_REASON"]) for copy in retried} == {(b"NA", "not a number")}


def test_the_page_about_tables_and_keys_is_true(names: dict[str, Any], flights: EmbeddedRocketMQ) -> None:
    run_page("deploy.md", {**names, "spark_address": flights.namesrv_addr})
    assert names["spark"].table("flights_topic").count() == 4
    assert sorted(message.body for message in flights.messages("departures")) == [b"-1", b"25", b"4", b"NA"]

# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq spark-checkpoint`` on checkpoints that a real Spark wrote, and that it goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from click.testing import CliRunner
from jobs import Numbers, run_available_now, streaming
from pyspark.errors import StreamingQueryException

import sprocketmq as rmq
from sprocketmq.cli.main import app
from sprocketmq.errors import ConfigurationError, GroupNotExist
from sprocketmq.testing import EmbeddedRocketMQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES_OF_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FIRST, SECOND = "flights/broker-a/0", "flights/broker-a/1"


@pytest.fixture
def flights(mq: EmbeddedRocketMQ) -> EmbeddedRocketMQ:
    mq.create_topic("flights", queues=2)
    publish(mq, range(10), 0)
    publish(mq, range(100, 110), 1)
    return mq


def publish(mq: EmbeddedRocketMQ, numbers: range, queue_id: int) -> None:
    with mq.producer() as producer:
        queue = rmq.MessageQueue("flights", "broker-a", queue_id)
        producer.send_batch([rmq.Message("flights", b"%d" % number) for number in numbers], queue=queue)


def run(spark: SparkSession, mq: EmbeddedRocketMQ, checkpoint: Path) -> list[int]:
    """What one run of the query reads."""
    found, source = Numbers(), streaming(spark, mq)
    if spark.conf.get(NAMES_OF_SOURCES, "false") == "true":
        source = source.name("departures")
    run_available_now(source.load(), found, checkpoint)
    return sorted(found.seen)


def tool(*words: object) -> str:
    """What the tool prints. Raises what it raises."""
    result = CliRunner().invoke(
        app, ["spark-checkpoint", *map(str, words)], catch_exceptions=False, standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture
def source(spark: SparkSession) -> Iterator[int | str]:
    """What the tool calls the source. With names Spark writes version 2 of the offset log; before 4.3 it knows none."""
    if pyspark.__version__ < "4.3":
        yield 0
        return
    spark.conf.set(NAMES_OF_SOURCES, "true")
    yield "departures"
    spark.conf.unset(NAMES_OF_SOURCES)


def test_a_stream_continues_at_the_offset_set_by_the_tool(
    spark: SparkSession, flights: EmbeddedRocketMQ, tmp_path: Path, source: int | str
) -> None:
    assert run(spark, flights, tmp_path) == [*range(10), *range(100, 110)]
    shown = json.loads(tool("show", tmp_path, "--json"))
    assert shown["sources"] == [{"source": source, "initial": None, "queues": {FIRST: 10, SECOND: 10}}]
    assert shown["planned"] == shown["done"]
    assert f"{FIRST}  10" in tool("show", tmp_path)

    assert f"{FIRST}: 10 -> 7, 3 messages are read again" in tool("rewind", tmp_path, FIRST, 7, "--source", source)
    assert run(spark, flights, tmp_path) == [7, 8, 9]

    publish(flights, range(10, 20), 0)
    assert "10 -> 15, 5 messages are skipped" in tool("skip", tmp_path, FIRST, 15)
    assert run(spark, flights, tmp_path) == list(range(15, 20))

    tool("rewind", tmp_path, SECOND, "earliest", "-n", flights.namesrv_addr)
    tool("skip", tmp_path, SECOND, "latest", "-n", flights.namesrv_addr)
    assert f"{SECOND}: dropped at 10" in tool("drop", tmp_path, SECOND)
    assert json.loads(tool("show", tmp_path, "--json"))["sources"][0]["queues"] == {FIRST: 20}
    assert run(spark, flights, tmp_path) == list(range(100, 110)), "it is there, so it begins again as a new one"


def test_a_batch_that_is_not_done_is_finished_first(
    spark: SparkSession, flights: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    run(spark, flights, tmp_path)
    publish(flights, range(10, 20), 0)

    def dies(rows: DataFrame, _: int) -> None:
        raise RuntimeError("killed")

    with pytest.raises(StreamingQueryException, match="killed"):
        run_available_now(streaming(spark, flights).load(), dies, tmp_path)
    with pytest.raises(ConfigurationError, match="is planned and not done, and would run again as planned"):
        tool("rewind", tmp_path, FIRST, 5)
    shown = json.loads(tool("show", tmp_path, "--json"))
    assert shown["planned"] == shown["done"] + 1
    tool("finish", tmp_path, "plan-anew")
    tool("rewind", tmp_path, FIRST, 5)
    publish(flights, range(20, 25), 0)
    assert run(spark, flights, tmp_path) == [*range(5, 25)]


def test_rows_of_a_batch_that_is_planned_anew_reach_a_sink_that_knows_the_numbers_of_batches(
    spark: SparkSession, flights: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """Spark's files: the batch was written and not committed, and more has come since."""
    checkpoint, files = tmp_path / "checkpoint", str(tmp_path / "files")

    def write() -> None:
        rows = streaming(spark, flights).load().selectExpr("cast(body as string) as body")
        writer = rows.writeStream.format("json").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start(files).awaitTermination()

    write()
    publish(flights, range(10, 15), 0)
    write()
    last = json.loads(tool("show", checkpoint, "--json"))["done"]
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    publish(flights, range(15, 20), 0)
    tool("finish", checkpoint, "plan-anew")
    write()
    found = {int(row.body) for row in spark.read.schema("body string").json(files).collect()}
    assert found == {*range(20), *range(100, 110)}


def test_a_running_query_of_a_group_is_noticed(spark: SparkSession, flights: EmbeddedRocketMQ, tmp_path: Path) -> None:
    query = (
        streaming(spark, flights, group="delays")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    query.processAllAvailable()
    named = ("--group", "delays", "-n", flights.namesrv_addr)
    with pytest.raises(GroupNotExist, match="no broker knows the consumer group 'dealys'"):
        tool("rewind", tmp_path, FIRST, 5, "--group", "dealys", "-n", flights.namesrv_addr)
    with pytest.raises(
        ConfigurationError,
        match="a query of group delays is running, its member .+ is online; stop it first",
    ):
        tool("rewind", tmp_path, FIRST, 5, *named)
    query.stop()
    query.awaitTermination()
    flights.wait_until(lambda: "read again" in _rewound(tmp_path, *named))


def _rewound(checkpoint: Path, *named: str) -> str:
    try:
        return tool("rewind", checkpoint, FIRST, 5, *named)
    except ConfigurationError as error:
        return str(error)


def test_rows_are_written_once_though_the_offsets_of_a_decided_batch_were_lost(
    spark: SparkSession, flights: EmbeddedRocketMQ, tmp_path: Path
) -> None:
    """The file of the batch is lost with its commit, as after a power cut, and five more rows have come."""
    flights.create_topic("copies", queues=1)

    def write() -> None:
        writer = (
            streaming(spark, flights)
            .load()
            .select("body")
            .writeStream.format("rocketmq")
            .options(namesrvAddr=flights.namesrv_addr, topic="copies", group="exact")
        )
        writer = writer.option("delivery", "transactional").option("checkpointLocation", str(tmp_path))
        writer.option("settleTimeoutMs", "1s").trigger(availableNow=True).start().awaitTermination()

    write()
    publish(flights, range(10, 15), 0)
    write()
    last = json.loads(tool("show", tmp_path, "--json"))["done"]
    for log in ("offsets", "commits"):
        (tmp_path / log / str(last)).unlink()
        (tmp_path / log / f".{last}.crc").unlink(missing_ok=True)
    publish(flights, range(15, 20), 0)
    with pytest.raises(
        StreamingQueryException, match=rf"batch {last} of .* was decided with 5 rows, and now it has 10"
    ):
        write()
    tool("finish", tmp_path, "done")
    tool("rewind", tmp_path, FIRST, 15)
    write()
    flights.wait_until(lambda: len(flights.messages("copies")) >= 30)
    assert sorted(int(message.body) for message in flights.messages("copies")) == [*range(20), *range(100, 110)]

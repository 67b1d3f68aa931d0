# SPDX-License-Identifier: Apache-2.0
"""What Spark's interface for Python sources asks of one, as far as it shows without a Spark: docs/internals/spark-pitfalls.md."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.datasource_internal import ReadLimitRegistry
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.options.source_columns import COLUMNS
from sprocketmq.spark.read.reader import BatchReader, _arrow_schema
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.source import RocketMQDataSource, message_schema
from sprocketmq.spark.write.writer import BatchWriter, StreamWriter
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import encode_record

ROOT = Path(__file__).parents[3]
BASE = {"namesrvaddr": "127.0.0.1:1", "topic": "flights"}  # nobody listens there: what asked a broker would fail
OVERRIDDEN = [
    (RocketMQDataSource, DataSource),
    (BatchReader, DataSourceReader),
    (StreamReader, DataSourceStreamReader),
    (BatchWriter, DataSourceArrowWriter),
    (StreamWriter, DataSourceStreamArrowWriter),
]
ROWS = message_schema(("body",))


def source(**options: str) -> RocketMQDataSource:
    return RocketMQDataSource({**BASE, **options})


@pytest.mark.parametrize(("ours", "sparks"), OVERRIDDEN, ids=lambda one: one.__name__)
def test_parameters_have_sparks_names_as_it_calls_some_of_them_by_name(ours: type, sparks: type) -> None:
    for name, method in vars(ours).items():
        if not name.startswith("_") and callable(method) and hasattr(sparks, name):
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(getattr(sparks, name)).parameters
            ), name


def test_no_filter_is_pushed_down() -> None:
    assert BatchReader.pushFilters is DataSourceReader.pushFilters


def test_a_stream_is_seen_to_take_limits_and_to_know_available_now() -> None:
    assert len(inspect.signature(StreamReader.latestOffset).parameters) == 3  # self, start, limit
    assert issubclass(StreamReader, SupportsTriggerAvailableNow)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "ReadAllAvailable"),
        ({"maxOffsetsPerTrigger": "7", "maxBytesPerTrigger": "9", "minOffsetsPerTrigger": "2"}, "ReadMaxRows"),
        ({"maxBytesPerTrigger": "9", "minOffsetsPerTrigger": "2"}, "ReadMaxBytes"),
        ({"minOffsetsPerTrigger": "2"}, "ReadMinRows"),
    ],
)
def test_the_default_limit_is_one_that_spark_has(options: dict[str, str], kind: str) -> None:
    limit = source(**options).streamReader(message_schema()).getDefaultReadLimit()
    again: ReadLimit = ReadLimitRegistry().get({"_type": type(limit).__name__, **vars(limit)})
    assert (again, type(limit).__name__) == (limit, kind)


def test_nothing_needs_a_stop_because_spark_stops_a_stream_without_a_call() -> None:
    assert StreamReader.stop.__code__.co_names == ()


def test_an_empty_batch_is_read_from_sparks_own_partition() -> None:
    for reader in (source().reader(message_schema()), source().streamReader(message_schema())):
        assert list(reader.read(InputPartition(None))) == []


@pytest.mark.parametrize("columns", [tuple(COLUMNS), ("body", "storeTimestamp"), ("properties", "queueId", "topic")])
def test_batches_have_exactly_the_schema_that_spark_compares(columns: tuple[str, ...]) -> None:
    schema = message_schema(columns)
    queue = MessageQueue("flights", "broker-a", 0)
    properties = encode_properties({"TAGS": "UA", "KEYS": "N1", "a": "b"})
    record = encode_record(
        b"flights", b"x", properties, queue_id=0, flag=0, sys_flag=0, born_timestamp_ms=4, born_host=(b"\x7f\0\0\1", 1),
        store_timestamp_ms=5, store_host=(b"\x7f\0\0\1", 2), reconsume_times=0, prepared_transaction_offset=0, queue_offset=0,
        physical_offset=0,
    )  # fmt: skip
    decoder = BatchDecoder(_arrow_schema(schema), frozenset())
    for batch in (*decoder.decode([PulledChunk(queue, 0, 1, record)]), *decoder.decode([])):
        assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"), check_metadata=True)
        assert not any(
            pa.types.is_large_binary(field.type) or pa.types.is_large_string(field.type) for field in batch.schema
        )


def test_a_task_without_rows_answers_and_an_abort_bears_tasks_that_did_not() -> None:
    batch, stream = source().writer(ROWS, False), source().streamWriter(ROWS, False)
    for writer in (batch, stream):
        assert isinstance(writer.write(iter([])), WriterCommitMessage)
    done = batch.write(iter([]))
    batch.abort([None, done])
    stream.abort([None, done], 3)
    batch.commit([None, done])
    stream.commit([None, done], 3)


def test_the_journal_of_many_queues_stays_small() -> None:
    queues = {MessageQueue("flights", f"broker-{at // 100}", at % 100): 10**9 + at for at in range(6_400)}
    assert len(json.dumps(StreamOffset(queues).to_json())) < 150_000


def test_the_module_that_spark_imports_for_everybody_is_cheap_and_silent_and_needs_no_arrow() -> None:
    program = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
sys.modules["pyarrow"] = None  # importing it fails
import pyspark_rocketmq
assert pyspark_rocketmq.DefaultSource.name() == "rocketmq"
new = set(sys.modules) - before
heavy = {"asyncio", "numpy", "pandas", "ssl", "prometheus_client", "sprocketmq.net", "sprocketmq.client", "sprocketmq.broker"}
assert not new & heavy, new & heavy
assert len(new) < 60, sorted(new)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

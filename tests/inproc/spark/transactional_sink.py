# SPDX-License-Identifier: Apache-2.0
"""A broker, and the transactional sink called as Spark calls it: what tests of it share."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_task import leave_group
from sprocketmq.core.transactions.decision_ledger import Decision
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.write.writer import BatchWriter, StreamWriter
from sprocketmq.testing import EmbeddedRocketMQ

GROUP = "exact"
LEDGER = "SPROCKETMQ_DECISIONS_exact"
SCHEMA = StructType([StructField("body", BinaryType()), StructField("shardingKey", StringType())])
NEVER_ASKED = {"transactionTimeOut": 600_000}
# Too short for anything to be ended directly; asked for as long as a slow machine takes.
ASKED_AT_ONCE = {"transactionTimeOut": 300, "transactionCheckInterval": 300, "transactionCheckMax": 1_000}


@contextmanager
def rocketmq(store_dir: Path | None = None, **config: Any) -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system", store_dir=store_dir, **config) as mq:
        mq.create_topic("flights", queues=2)
        try:
            yield mq
        finally:
            leave_group()


def stream_writer(mq: EmbeddedRocketMQ, **options: str) -> StreamWriter:
    given = {"namesrvaddr": mq.namesrv_addr, "topic": "flights", "group": GROUP, "delivery": "transactional", **options}
    return RocketMQDataSource(given).streamWriter(SCHEMA, overwrite=False)


def rows(*numbers: int, key: str | None = None) -> Iterator[pa.RecordBatch]:
    body = pa.array([b"%d" % number for number in numbers], pa.binary())
    yield pa.record_batch([body, pa.array([key] * len(numbers), pa.string())], names=["body", "shardingKey"])


def write(writer: StreamWriter | BatchWriter, *parts: Iterable[int], key: str | None = None) -> list[Any]:
    """All tasks of a batch; their messages travel as Spark sends them."""
    return [pickle.loads(pickle.dumps(writer.write(rows(*part, key=key)))) for part in parts]


def appeared(mq: EmbeddedRocketMQ) -> Counter[int]:
    return Counter(int(message.body) for message in mq.messages("flights"))


def decisions(mq: EmbeddedRocketMQ) -> list[Decision | None]:
    return [Decision.decode(message.body) for message in mq.messages(LEDGER)]


def once(*numbers: int) -> Counter[int]:
    return Counter(numbers)


def open_halves(mq: EmbeddedRocketMQ) -> int:
    """Half messages that nobody has ended."""
    return mq._on_loop(lambda: mq.broker.transactions.open_count)

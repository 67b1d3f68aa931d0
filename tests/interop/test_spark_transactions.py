"""The transactional sink at Apache's broker 4.9, called as Spark calls it: what an ordinary consumer gets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from interop.peers import ApacheCluster, poll_until
from sprocketmq.spark import exactly_once
from sprocketmq.spark.responder import Responder
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.writer import StreamWriter

SCHEMA = StructType([StructField("body", BinaryType())])
# Rounds each 60 s in 4.9, each 30 s in 5.x, and halves are asked for when they are 6 s old.
TWO_ROUNDS_S = 150


class Task:
    """What Spark tells a task of itself."""

    query = ""
    batch = 0

    @classmethod
    def get(cls) -> type[Task]:
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str | None:
        return {"sql.streaming.queryId": cls.query, "streaming.sql.batchId": str(cls.batch)}.get(name)

    @classmethod
    def partitionId(cls) -> int:
        return 0


class Died(Exception):
    """A process was killed here."""


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(exactly_once, "TaskContext", Task)
    monkeypatch.setattr(Task, "query", f"q-{time.time_ns()}")
    monkeypatch.setattr(Task, "batch", 0)
    yield
    for member in list(Responder._by_process.values()):
        member.close()


def rows(*numbers: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([b"%d" % number for number in numbers], pa.binary())], names=["body"])


def test_each_row_appears_once_at_apaches_brokers(apache4: ApacheCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = f"exact-{time.time_ns()}"
    apache4.create_topic(topic, 4)
    given = {"namesrvaddr": apache4.namesrv_addr, "topic": topic, "group": topic, "delivery": "transactional"}

    def writer() -> StreamWriter:
        return RocketMQDataSource(given).streamWriter(SCHEMA, overwrite=False)

    def batch(number: int, *numbers: int) -> list[Any]:
        Task.batch = number
        return [writer().write(rows(*numbers))]

    seen: list[int] = []
    consumer = rmq.PushConsumer(
        f"{topic}-reader",
        namesrv_addr=apache4.namesrv_addr,
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(topic)
    consumer.on_message(lambda message: seen.append(int(message.body)))
    with consumer:
        writer().commit(batch(0, *range(20)), 0)
        poll_until(lambda: len(seen) >= 20, "the first batch", 60)
        assert Counter(seen) == Counter(range(20))

        batch(1, *range(20, 30))  # a try whose message is lost: rolled back when the broker asks
        sent = batch(1, *range(20, 30))
        with monkeypatch.context() as patched:

            async def dies(*_: object) -> None:
                raise Died

            patched.setattr(exactly_once.ExactlyOnce, "_end", dies)
            with pytest.raises(Died):
                writer().commit(sent, 1)  # decided, and killed before anything was ended

        again = batch(1, *range(20, 30))
        assert [message.skipped for message in again] == [True]
        writer().commit(again, 1)  # waits until the broker has asked
        poll_until(lambda: len(seen) >= 30, "the batch whose driver was killed", TWO_ROUNDS_S)
        assert Counter(seen) == Counter(range(30))

        writer().commit(batch(2, *range(30, 40)), 2)
        poll_until(lambda: len(seen) >= 40, "the third batch", TWO_ROUNDS_S)
    assert Counter(seen) == Counter(range(40))

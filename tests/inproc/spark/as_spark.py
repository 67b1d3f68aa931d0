# SPDX-License-Identifier: Apache-2.0
"""Calls readers as Spark does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sprocketmq as rmq
from sprocketmq.spark.read.lag import SourceLag, source_lag
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ

Readers = Callable[..., StreamReader]


def send(mq: EmbeddedRocketMQ, *numbers: int, topic: str = "flights", queue: rmq.MessageQueue | None = None) -> None:
    with mq.producer() as producer:
        for number in numbers:
            producer.send(rmq.Message(topic, str(number).encode()), queue=queue)


def batch_rows(**options: str) -> list[dict[str, Any]]:
    """What a batch reads."""
    source = RocketMQDataSource(options)
    reader = source.reader(source.schema())
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def ask(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """As Spark asks the only source of a query: at once after its last answer."""
    reader._planner._idle_at_s, reader._planner._short_gaps = None, 2
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def ask_until_news(mq: EmbeddedRocketMQ, reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch that holds something, or loses it."""
    found = start

    def moved() -> bool:
        nonlocal found
        found = ask(reader, start)
        return found != start

    mq.wait_until(moved)
    return found


def lag_at(reader: StreamReader, end: dict[str, Any]) -> SourceLag:
    """As a listener reads it from the progress of the batch that ends there."""
    lag = source_lag([(None, json.dumps(end), json.dumps(reader.reportLatestOffset()))])
    assert lag is not None
    return lag


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return sorted(
        int(body)
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for body in batch.column("body").to_pylist()
    )


def first_batch(reader: StreamReader) -> tuple[dict[str, Any], list[int]]:
    """The journaled end of the first batch, and what the batch reads."""
    start = reader.initialOffset()
    end = ask(reader, start)
    return end, read(reader, start, end)


def next_batch(reader: StreamReader, end: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    after = ask(reader, end)
    return after, read(reader, end, after)

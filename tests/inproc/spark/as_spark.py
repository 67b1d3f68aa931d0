# SPDX-License-Identifier: Apache-2.0
"""Calls a stream reader as Spark does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sprocketmq as rmq
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.testing import EmbeddedRocketMQ

Readers = Callable[..., StreamReader]


def send(mq: EmbeddedRocketMQ, *numbers: int, topic: str = "flights") -> None:
    with mq.producer() as producer:
        for number in numbers:
            producer.send(rmq.Message(topic, str(number).encode()))


def ask(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """As Spark asks the only source of a query: at once after its last answer."""
    reader._planner._idle_at_s, reader._planner._short_gaps = None, 2
    return reader.latestOffset(start, reader.getDefaultReadLimit())


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

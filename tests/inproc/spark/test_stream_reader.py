"""The stream reader against a real broker, called as Spark calls it, without a Spark session: what is read and what is committed when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.stream_reader import StreamReader
from sprocketmq.testing import EmbeddedRocketMQ

Readers = Callable[..., StreamReader]


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as embedded:
        embedded.create_topic("flights", queues=2)
        yield embedded


@pytest.fixture
def readers(mq: EmbeddedRocketMQ) -> Iterator[Readers]:
    """Makes readers, each as new as after a restart of the query."""
    made: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, "topic": "flights", **options})
        made.append(source.streamReader(source.schema()))
        return made[-1]

    yield make
    for reader in made:
        if reader._membership is not None:
            reader._membership.stop()


def send(mq: EmbeddedRocketMQ, *numbers: int) -> None:
    with mq.producer() as producer:
        for number in numbers:
            producer.send(rmq.Message("flights", str(number).encode()))


def ask(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return sorted(
        int(body)
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for body in batch.column("body").to_pylist()
    )


def committed(mq: EmbeddedRocketMQ) -> int:
    return sum(mq.consumer_offset("delays", "flights").values())


def test_a_query_that_dies_before_its_first_batch_is_done_reads_the_same_again(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1)
    first = readers(startingoffsets="latest")
    start = first.initialOffset()
    journaled = ask(first, start)
    send(mq, 2, 3)  # between the two attempts: asking for "latest" anew would skip these
    again = readers(startingoffsets="latest")
    assert again.initialOffset() == start
    assert read(again, again.initialOffset(), journaled) == []
    end = ask(again, journaled)
    assert read(again, journaled, end) == [2, 3]


def test_the_start_of_the_first_batch_is_read_from_its_journaled_end(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    first = readers(startingoffsets="earliest")
    journaled = ask(first, first.initialOffset())
    again = readers(startingoffsets="earliest")
    assert read(again, again.initialOffset(), journaled) == [0, 1, 2]


def test_a_batch_is_committed_when_the_next_one_is_asked_for_and_not_before(
    mq: EmbeddedRocketMQ, readers: Readers
) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays")
    end = ask(reader, reader.initialOffset())
    assert committed(mq) == 0  # the batch may still fail
    assert ask(reader, end) == end
    assert committed(mq) == 3  # with no new batch to follow: lag is 0
    reader.commit(end)
    assert committed(mq) == 3


def test_lagged_commits_wait_for_sparks_own_word(mq: EmbeddedRocketMQ, readers: Readers) -> None:
    send(mq, 0, 1, 2)
    reader = readers(startingoffsets="earliest", group="delays", commitoffsets="lagged")
    end = ask(reader, reader.initialOffset())
    assert ask(reader, end) == end
    assert committed(mq) == 0
    reader.commit(end)
    assert committed(mq) == 3

# SPDX-License-Identifier: Apache-2.0
"""A broker whose master is away and whose replica is behind: nothing that only the master has is lost, skipped or called lost."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sprocketmq as rmq
from inproc.spark.as_spark import Readers, ask, first_batch, next_batch
from sprocketmq.broker.broker import Broker
from sprocketmq.broker.replication import registration
from sprocketmq.errors import NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.offsets import QueueRange
from sprocketmq.spark.read.partitions import TaskPartition
from sprocketmq.spark.read.reader import BatchReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import MessageQueue

QUEUE = MessageQueue("flights", "broker-a", 0)
STORED, COPIED = 20, 12
COMMIT_LOG_BYTES = 8 << 20  # of a file, which is copied with all its zeros


@pytest.fixture
def mq(tmp_path: Path) -> Iterator[EmbeddedRocketMQ]:
    """A master with twenty messages."""
    with EmbeddedRocketMQ(
        clock="system", store_dir=tmp_path / "master", mappedFileSizeCommitLog=COMMIT_LOG_BYTES
    ) as embedded:
        embedded.create_topic("flights", queues=1)
        send(embedded, range(COPIED))
        shutil.copytree(tmp_path / "master", tmp_path / "replica")
        (tmp_path / "replica" / "lock").unlink(missing_ok=True)
        send(embedded, range(COPIED, STORED))
        yield embedded


@pytest.fixture
def replica_only(mq: EmbeddedRocketMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Call it, and of the broker only a replica is left that has twelve of its messages."""
    started: list[Broker] = []

    def begin() -> None:
        broker = Broker(mq.namesrv_addr, "127.0.0.1", 0, tmp_path / "replica", "broker-a")
        with monkeypatch.context() as patched:
            patched.setattr(registration, "MASTER_ID", 1)
            broker.start()
        started.append(broker)
        mq.broker.stop()
        Cluster.at(mq.namesrv_addr).routes.forget()

    yield begin
    for broker in started:
        with monkeypatch.context() as patched:
            patched.setattr(registration, "MASTER_ID", 1)
            broker.stop()


def send(mq: EmbeddedRocketMQ, numbers: range) -> None:
    with mq.producer() as producer:
        producer.send_batch([rmq.Message("flights", b"%d" % number) for number in numbers])


def batch_reader(mq: EmbeddedRocketMQ, **options: str) -> BatchReader:
    given = {"namesrvaddr": mq.namesrv_addr, "topic": "flights", "retrytimeoutms": "300", **options}
    source = RocketMQDataSource(given)
    return source.reader(source.schema())


def numbers_of(reader: BatchReader, partition: TaskPartition) -> list[int]:
    return [int(body) for batch in reader.read(partition) for body in batch.column("body").to_pylist()]


def test_a_batch_does_not_end_where_a_replica_ends(mq: EmbeddedRocketMQ, replica_only: Callable[[], None]) -> None:
    replica_only()
    with pytest.raises(
        NetworkError, match="broker 'broker-a' has no master now, only replicas, which may be behind it"
    ):
        batch_reader(mq).partitions()


def test_a_task_loses_nothing_that_only_the_master_has(mq: EmbeddedRocketMQ, replica_only: Callable[[], None]) -> None:
    replica_only()
    reader = batch_reader(mq, failondataloss="false")
    assert numbers_of(reader, TaskPartition((QueueRange(QUEUE, 3, COPIED),))) == list(range(3, COPIED))
    with pytest.raises(NetworkError, match=r"has no master now, and its replica does not give offset 12 of flights"):
        numbers_of(reader, TaskPartition((QueueRange(QUEUE, 3, STORED),)))


def test_a_task_continues_when_the_master_is_back(mq: EmbeddedRocketMQ, replica_only: Callable[[], None]) -> None:
    replica_only()
    found: list[int] = []
    reader = batch_reader(mq, retrytimeoutms="60s")
    task = threading.Thread(
        target=lambda: found.extend(numbers_of(reader, TaskPartition((QueueRange(QUEUE, 0, STORED),))))
    )
    task.start()
    mq.restart_broker()
    task.join()
    assert found == list(range(STORED))


def test_a_stream_waits_for_the_master_and_reads_on(
    mq: EmbeddedRocketMQ, readers: Readers, replica_only: Callable[[], None]
) -> None:
    options = {
        "startingoffsets": "earliest",
        "maxoffsetspertrigger": "16",
        "failondataloss": "false",
        "retrytimeoutms": "300",
    }
    end, numbers = first_batch(readers(**options))
    assert len(numbers) == 16
    replica_only()
    waiting = readers(**options)
    assert ask(waiting, end) == end, "a replica that ends at 12 is no loss of what was read to 16"
    mq.restart_broker()
    Cluster.at(mq.namesrv_addr).routes.forget()
    after, rest = next_batch(waiting, end)
    assert (rest, after.get("lost")) == ([16, 17, 18, 19], None)

# SPDX-License-Identifier: Apache-2.0
"""The transactional sink at Apache's brokers, both generations, called as Spark calls it: what an ordinary consumer gets.

The servers of these tests ask each second about halves that are older than 6 s (4.9 rounds up to a minute); 5.4 notes what was ended only
3 s later, so it asks again about halves whose rows are shown.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from interop.peers import APACHE_5, ApacheCluster, poll_until
from spark_task import Died, Task, dies, leave_group
from sprocketmq.client.remoting.queue_offsets import committed_offset
from sprocketmq.core.resource_names import HALF_TOPIC
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import transactional_write
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.write.writer import StreamWriter
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.offsets import GET_MAX_OFFSET

SCHEMA = StructType([StructField("body", BinaryType())])
# Rounds each 60 s in 4.9, and halves are asked for when they are 6 s old.
TWO_ROUNDS_S = 150


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Task.begin(monkeypatch, f"q-{time.time_ns()}")
    yield
    leave_group()


class Sink:
    """A topic that a query writes to, and what a consumer of it has seen."""

    def __init__(self, apache: ApacheCluster) -> None:
        self.topic, self._apache = f"exact-{time.time_ns()}", apache
        apache.create_topic(self.topic, 4)
        self._given = {
            "namesrvaddr": apache.namesrv_addr, "topic": self.topic, "group": self.topic, "delivery": "transactional"
        }  # fmt: skip
        self.seen: list[int] = []
        self.consumer = rmq.PushConsumer(
            f"{self.topic}-reader",
            namesrv_addr=apache.namesrv_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        self.consumer.subscribe(self.topic)
        self.consumer.on_message(lambda message: self.seen.append(int(message.body)))

    def writer(self) -> StreamWriter:
        return RocketMQDataSource(self._given).streamWriter(SCHEMA, overwrite=False)

    def batch(self, number: int, *rows: int) -> list[Any]:
        """One task of a batch, its message to the driver."""
        Task.batch = number
        bodies = pa.array([b"%d" % row for row in rows], pa.binary())
        return [self.writer().write(iter([pa.record_batch([bodies], names=["body"])]))]

    def shows(self, count: int, what: str, timeout_s: float = TWO_ROUNDS_S) -> None:
        poll_until(lambda: len(self.seen) >= count, what, timeout_s)
        assert Counter(self.seen) == Counter(range(count))

    def is_settled(self) -> bool:
        """Whether the broker has nothing left to ask, by its own progress."""
        cluster = Cluster.at(self._apache.namesrv_addr)
        halves = MessageQueue(HALF_TOPIC, "broker-a", 0)

        async def asked() -> bool:
            asked = await committed_offset(cluster, "CID_RMQ_SYS_TRANS", halves, at=self._apache.broker_addr)
            return (asked or 0) >= (await cluster.ask_queue(GET_MAX_OFFSET, halves, at=self._apache.broker_addr)).offset

        return cluster.engine.run(asked())

    def stored(self) -> int:
        with rmq.Admin(namesrv_addr=self._apache.namesrv_addr) as admin:
            return sum(admin.max_offset(queue) for queue in admin.queues(self.topic))


def test_each_row_appears_once_at_apaches_brokers(apache, monkeypatch):
    sink = Sink(apache)
    with sink.consumer:
        sink.writer().commit(sink.batch(0, *range(20)), 0)
        sink.shows(20, "the first batch")

        sink.batch(1, *range(20, 30))  # a try whose message is lost: rolled back when the broker asks
        sent = sink.batch(1, *range(20, 30))
        with monkeypatch.context() as patched:
            patched.setattr(transactional_write.TransactionalWrite, "_end", dies)
            with pytest.raises(Died):
                sink.writer().commit(sent, 1)  # decided, and killed before anything was ended

        again = sink.batch(1, *range(20, 30))
        assert [message.skipped for message in again] == [True]
        sink.writer().commit(again, 1)  # waits until the broker has asked
        sink.shows(30, "the batch whose driver was killed")

        sink.writer().commit(sink.batch(2, *range(30, 40)), 2)
        sink.shows(40, "the third batch")
        poll_until(sink.is_settled, "no half is open", TWO_ROUNDS_S)
    assert sink.stored() == 40
    assert Counter(sink.seen) == Counter(range(40))


@pytest.mark.nightly
def test_a_broker_that_asks_before_it_noted_the_end_shows_no_row_twice(servers):
    """Asked about after 2 s, noted each 10 s: most rows that were ended at once are asked about again."""
    sink = Sink(servers.apache(APACHE_5, transactionTimeOut=2000, transactionOpBatchInterval=10_000))
    with sink.consumer:
        number = count = 0
        while number < 20 and not was_told_back():
            sink.writer().commit(sink.batch(number, *range(count, count + 10)), number)
            number, count = number + 1, count + 10
            sink.shows(count, "the batch")
            time.sleep(4)  # in which the broker asks, or notes
        assert was_told_back(), "the broker asked about a row that is shown"
        poll_until(sink.is_settled, "no half is open", TWO_ROUNDS_S)
    assert sink.stored() == count
    assert Counter(sink.seen) == Counter(range(count))


@pytest.mark.nightly
def test_a_broker_that_was_killed_before_it_noted_the_end_shows_no_row_twice(java_peers):
    """It kept its notes in memory: after its start it knows nothing of the ends, and asks.

    Each second, until the member is there again: with its next heartbeat, up to 30 s later. Apache asks 15 times by default and sets the
    halves aside then, so that nothing would be left to ask (TransactionalMessageServiceImpl.needDiscard).
    """
    conf: dict[str, Any] = {
        "transactionCheckInterval": 1000,
        "transactionTimeOut": 10_000,
        "transactionOpBatchInterval": 3_600_000,  # no note is written before the kill, however slow the machine
        "transactionCheckMax": 10_000,
    }
    with ApacheCluster(APACHE_5, **conf) as apache:
        sink = Sink(apache)
        with sink.consumer:
            sink.writer().commit(sink.batch(0, *range(5)), 0)
            sink.shows(5, "the first batch")
            sink.writer().commit(sink.batch(1, *range(5, 30)), 1)
            sink.shows(30, "the second batch")
            apache.kill()
            apache.start_broker()
            poll_until(was_told_back, "a question about a row that is shown", TWO_ROUNDS_S)
            sink.writer().commit(sink.batch(2, *range(30, 40)), 2)
            sink.shows(40, "the third batch")
        assert sink.stored() == 40
        assert Counter(sink.seen) == Counter(range(40))


def was_told_back() -> bool:
    """Whether a question was answered with the end of a copy whose row is shown."""
    return any(member.answers["ROLLBACK_MESSAGE"] for member in Responder.shared.values())

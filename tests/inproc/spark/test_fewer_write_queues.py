# SPDX-License-Identifier: Apache-2.0
"""A topic with fewer queues to write than to read, at a broker whose table names the queues to write alone (Apache before 5.3)."""

from __future__ import annotations

from typing import Any

import pytest

from inproc.spark.as_spark import Readers, ask, batch_rows, first_batch, read, send
from sprocketmq.net.connection import Connection
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import Reason
from sprocketmq.spark.read.queue_bounds import gone_queues
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import TopicStatsTable
from sprocketmq.wire.codes import RequestCode, Version
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue

READ_ALONE = MessageQueue("flights", "broker-a", 1)


@pytest.fixture
def old_apache(mq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> EmbeddedRocketMQ:
    """Three messages in each of two queues, of which one is not written to any more."""
    invoke = Connection.invoke

    async def as_4_9(self: Connection, command: Command, *more: Any) -> Command:
        answer = await invoke(self, command, *more)
        answer.version, answer.language = Version.V4_9_8, "JAVA"
        if command.code == RequestCode.GET_TOPIC_STATS_INFO and command.ext_fields["topic"] == "flights":
            table = TopicStatsTable.decode(answer.body)
            table.offset_table = {queue: held for queue, held in table.offset_table.items() if queue.queue_id < 1}
            answer.body = table.encode()
        return answer

    for queue_id in (0, 1):
        send(mq, *range(10 * queue_id, 10 * queue_id + 3), queue=MessageQueue("flights", "broker-a", queue_id))
    with mq.admin() as admin:
        admin.create_topic("flights", read_queues=2, write_queues=1)
    Cluster.at(mq.namesrv_addr).routes.forget()
    monkeypatch.setattr(Connection, "invoke", as_4_9)
    return mq


def test_a_batch_reads_the_queues_that_are_not_written_to(old_apache: EmbeddedRocketMQ) -> None:
    rows = batch_rows(namesrvaddr=old_apache.namesrv_addr, topic="flights")
    assert sorted(int(row["body"]) for row in rows) == [0, 1, 2, 10, 11, 12]


def test_a_stream_keeps_the_queues_that_are_not_written_to(old_apache: EmbeddedRocketMQ, readers: Readers) -> None:
    reader = readers(startingoffsets="earliest")
    end, numbers = first_batch(reader)
    assert numbers == [0, 1, 2, 10, 11, 12]
    assert ask(reader, end) == end
    send(old_apache, 3)
    after = ask(reader, end)
    assert read(reader, end, after) == [3]
    assert after["q"] == {"flights": {"broker-a": {"0": 4, "1": 3}}}


def test_a_queue_is_gone_when_it_is_not_to_be_read_either(old_apache: EmbeddedRocketMQ) -> None:
    cluster = Cluster.at(old_apache.namesrv_addr)
    assert gone_queues(cluster, [READ_ALONE], "spark") == {}
    with old_apache.admin() as admin:
        admin.create_topic("flights", queues=1)
    found: dict[MessageQueue, Reason] = {}
    old_apache.wait_until(lambda: bool(found.update(gone_queues(cluster, [READ_ALONE], "spark")) or found))
    assert found == {READ_ALONE: "queue gone"}

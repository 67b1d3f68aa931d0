# SPDX-License-Identifier: Apache-2.0
"""How a stream commits its progress."""

from __future__ import annotations

import asyncio

import pytest

from sprocketmq.errors import NetworkError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read import group_progress
from sprocketmq.spark.read.group_progress import GroupProgress
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import MessageQueue

QUEUES = [MessageQueue(topic, "broker-a", number) for topic in ("flights", "delays") for number in range(3)]


class Commits:
    """In place of ``commit_offset``: like Apache's broker, it makes a table of its own for each of several first
    commits at the same moment, and keeps the last one."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[MessageQueue, int]] = {}
        self.calls = 0
        self.error: NetworkError | None = None

    async def __call__(self, cluster: Cluster, group: str, queue: MessageQueue, offset: int, at: str) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error
        table = self.tables.get(queue.topic, {})
        await asyncio.sleep(0.01)
        table[queue] = offset
        self.tables[queue.topic] = table


@pytest.fixture
def cluster(mq: EmbeddedRocketMQ) -> Cluster:
    mq.create_topic("delays", queues=3)
    return Cluster.at(mq.namesrv_addr)


def test_no_first_commit_of_a_queue_is_lost(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits()
    monkeypatch.setattr(group_progress, "commit_offset", commits)
    progress = GroupProgress("delays")
    for offset in (5, 6):
        progress.commit(cluster, dict.fromkeys(QUEUES, offset), 0.0)
        stored = {queue: at for table in commits.tables.values() for queue, at in table.items()}
        assert stored == progress.offsets == dict.fromkeys(QUEUES, offset)


def test_a_broker_that_is_away_is_asked_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits()
    commits.error = NetworkError("no connection")
    monkeypatch.setattr(group_progress, "commit_offset", commits)
    progress = GroupProgress("delays")
    progress.commit(cluster, dict.fromkeys(QUEUES, 5), 0.0)
    assert (progress.offsets, commits.calls) == ({}, 2)  # for each of two topics
    progress.commit(cluster, dict.fromkeys(QUEUES, 5), 1.0)
    assert commits.calls == 2

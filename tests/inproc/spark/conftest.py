# SPDX-License-Identifier: Apache-2.0
"""An embedded RocketMQ and stream readers on it, each as new as after a restart of the query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inproc.spark.as_spark import Readers
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.cluster.shared_clients import SharedClients
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture(autouse=True)
def no_cluster_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps what it knows of a cluster by its address, and another test's broker may have had the same port."""
    monkeypatch.setattr(Cluster, "shared", SharedClients())


@pytest.fixture
def mq() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as embedded:
        embedded.create_topic("flights", queues=2)
        yield embedded


@pytest.fixture
def readers(mq: EmbeddedRocketMQ) -> Iterator[Readers]:
    """Makes readers; ``topic`` is ``flights`` unless the options name topics otherwise."""
    made: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        topic = {} if options.keys() & {"topics", "topicspattern"} else {"topic": "flights"}
        source = RocketMQDataSource({"namesrvaddr": mq.namesrv_addr, **topic, **options})
        made.append(source.streamReader(source.schema()))
        return made[-1]

    yield make
    for reader in made:
        if reader._membership is not None:
            reader._membership.stop()

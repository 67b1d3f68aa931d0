# SPDX-License-Identifier: Apache-2.0
"""An embedded RocketMQ and stream readers on it, each as new as after a restart of the query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inproc.spark.as_spark import Readers
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.cluster.shared_clients import SharedClients
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.troubles import troubles
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.testing import EmbeddedRocketMQ


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process keeps its clients for the next task. Here the next test's broker may have the same port, and a client whose broker is gone
    would look for it as long as the process runs."""
    producers: SharedClients[Any, Any] = SharedClients()
    responders: SharedClients[Any, Any] = SharedClients(drops=False)
    monkeypatch.setattr(troubles, "_open", {})
    monkeypatch.setattr(Cluster, "shared", SharedClients())
    monkeypatch.setattr(MessageSender, "producers", producers)
    monkeypatch.setattr(Responder, "shared", responders)
    yield
    for client in (*producers.values(), *responders.values()):
        Engine.shared().run(client.producer.shutdown())


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

# SPDX-License-Identifier: Apache-2.0
"""A broker beside the one of an embedded RocketMQ."""

from __future__ import annotations

from pathlib import Path

from inproc.spark.as_spark import send
from sprocketmq.broker.broker import Broker
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.records.message import MessageQueue


class SecondBroker:
    """``broker-b``, which comes and goes; it keeps its messages and its address."""

    def __init__(self, mq: EmbeddedRocketMQ, store_dir: Path) -> None:
        self._mq, self._store_dir = mq, store_dir
        self._broker: Broker | None = None
        self._port = 0

    def start(self) -> None:
        self._broker = Broker(self._mq.namesrv_addr, "127.0.0.1", self._port, self._store_dir, "broker-b")
        self._broker.start()
        self._port = self._broker.port
        Cluster.at(self._mq.namesrv_addr).routes.forget()

    @property
    def address(self) -> str:
        assert self._broker is not None
        return self._broker.address

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None
        Cluster.at(self._mq.namesrv_addr).routes.forget()

    def send(self, *numbers: int, topic: str = "flights") -> None:
        send(self._mq, *numbers, topic=topic, queue=MessageQueue(topic, "broker-b", 0))

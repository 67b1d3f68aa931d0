# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of one process that differ in their time limits: each keeps its own, and they share what costs a connection."""

from __future__ import annotations

import pytest

from sprocketmq.errors import RemoteError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.sink_options import SinkOptions, sink_options
from sprocketmq.spark.send.row_messages import outgoing_rows
from sprocketmq.spark.transactions.half_messages import HalfSender
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.testing import EmbeddedRocketMQ


def test_a_later_client_does_not_change_the_retry_timeout_of_earlier_ones(mq: EmbeddedRocketMQ) -> None:
    patient, hasty = Cluster.at(mq.namesrv_addr), Cluster.at(mq.namesrv_addr, 300)
    assert (patient.retry_timeout_ms, hasty.retry_timeout_ms) == (60_000, 300)
    assert Cluster.at(mq.namesrv_addr) is patient
    assert Cluster.at(mq.namesrv_addr, 300) is hasty
    assert {queue.queue_id for queue in patient.queues(["flights"])} == {0, 1}
    assert hasty.pool is patient.pool
    assert hasty.engine.run(hasty.routes.recent("flights")) is patient.engine.run(patient.routes.recent("flights"))


def test_transactional_writes_of_one_group_with_other_limits_have_producers_of_their_own(mq: EmbeddedRocketMQ) -> None:
    def options(**limits: str) -> SinkOptions:
        return sink_options({"namesrvaddr": mq.namesrv_addr, "group": "writers", "topic": "flights", **limits})

    first = Responder.at(options())
    second = Responder.at(options(sendtimeoutms="1s"))
    third = Responder.at(options(retrytimeoutms="7s"))
    assert Responder.at(options()) is first
    assert Responder.at(options(sendtimeoutms="1s")) is second
    assert len({id(first.producer), id(second.producer), id(third.producer)}) == 3
    assert (first.cluster.retry_timeout_ms, third.cluster.retry_timeout_ms) == (60_000, 7_000)


def test_transactional_writes_of_one_group_keep_their_own_limit_and_compression(mq: EmbeddedRocketMQ) -> None:
    def write(body: bytes, **of_rows: str) -> HalfSender:
        given = {"namesrvaddr": mq.namesrv_addr, "group": "writers", "topic": "flights", "delivery": "transactional"}
        options = sink_options({**given, **of_rows})
        sender = HalfSender(options, Responder.at(options, frozenset({"flights"})).producer, {}, "attempt")
        sender.send(list(outgoing_rows({"body": [body]}, "flights", max_bytes=options.max_message_bytes)))
        return sender

    write(b"x" * 10_000)
    write(b"x" * 10_000, compressType="zlib")
    first, second = mq.messages("RMQ_SYS_TRANS_HALF_TOPIC")
    assert first.store_size_bytes > 10_000 > second.store_size_bytes
    with pytest.raises(RemoteError, match="maxMessageSize"):  # of the broker, not of the first write
        write(b"x" * (5 << 20), maxMessageBytes=str(8 << 20))

# SPDX-License-Identifier: Apache-2.0
"""A process that lives long and meets many accounts, groups and settings keeps few clients: threads, tasks and sockets are counted."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from spark_task import leave_group
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.net.connection import Connection
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.access import Access
from sprocketmq.spark.options.sink_options import SinkOptions, sink_options
from sprocketmq.spark.send.row_messages import outgoing_rows
from sprocketmq.spark.transactions.half_messages import HalfSender
from sprocketmq.spark.transactions.responder import Responder
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.testing import EmbeddedRocketMQ

MANY, FEW = 20, 8
ROWS = pa.record_batch([pa.array([b"x"], pa.binary())], names=["body"])


def options(mq: EmbeddedRocketMQ, number: int, **others: str) -> SinkOptions:
    return sink_options({"namesrvaddr": mq.namesrv_addr, "group": f"writers-{number}", "topic": "flights", **others})


def open_connections() -> int:
    """Of this process, those that the broker has of it among them."""
    return sum(isinstance(thing, Connection) and not thing.is_closed for thing in gc.get_objects())


def instances() -> int:
    return sum(not instance._closed for instance in ClientInstance._instances.values())


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        gc.collect()
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


def test_clusters_of_many_accounts(mq: EmbeddedRocketMQ) -> None:
    before = open_connections()
    used = Cluster.at(mq.namesrv_addr, access=Access("key-0", "secret"))
    for number in range(MANY):
        cluster = Cluster.at(mq.namesrv_addr, access=Access(f"key-{number}", "secret"))
        assert cluster.queues(["flights"])
        cluster.run(lambda cluster=cluster: cluster.name_servers.cluster_info())  # type: ignore[misc]
    del cluster
    wait_until(lambda: open_connections() - before <= 2 * (FEW + 1))  # both ends of each are here
    assert used.queues(["flights"])
    assert Cluster.at(mq.namesrv_addr, access=Access("key-0", "secret")) is used
    assert Cluster.at(mq.namesrv_addr, 5, Access("key-0", "secret")).pool is used.pool


def test_producers_of_many_groups(mq: EmbeddedRocketMQ) -> None:
    before, threads = instances(), threading.active_count()
    used = MessageSender(options(mq, 0))
    for number in range(MANY):
        MessageSender(options(mq, number)).send(ROWS)
    wait_until(lambda: instances() - before <= FEW + 1)
    used.send(ROWS)  # its producer is open
    assert used.sent == 1
    assert len(mq.messages("flights")) == MANY + 1
    assert threading.active_count() <= threads + 1  # the engine


def test_members_of_many_groups_that_sent_nothing(mq: EmbeddedRocketMQ) -> None:
    before, threads = instances(), threading.active_count()
    used = Responder.at(options(mq, 0), frozenset({"flights"}))
    for number in range(MANY):
        Responder.at(options(mq, number), frozenset({"flights"}))
    wait_until(lambda: instances() - before <= FEW + 1)
    assert Responder.at(options(mq, 0), frozenset({"flights"})) is used
    assert used.engine.run(used.producer.publish_queues("flights"))
    wait_until(lambda: threading.active_count() - threads <= FEW + 1)


@pytest.mark.parametrize("are_open", [True, False])
def test_members_whose_halves_may_be_open_stay(are_open: bool) -> None:
    never = {"transactionTimeOut": 600_000} if are_open else {"transactionTimeOut": 0, "transactionCheckMax": 1}
    with EmbeddedRocketMQ(clock="system", transactionCheckInterval=20, **never) as mq:
        mq.create_topic("flights", queues=2)
        before = instances()
        for number in range(MANY):
            given = options(mq, number, delivery="transactional")
            responder = Responder.at(given, frozenset({"flights"}))
            responder.record_half_messages({"flights"})
            HalfSender(given, responder.producer, {}, "attempt").send(list(outgoing_rows({"body": [b"x"]}, "flights")))
            del responder
        if are_open:
            gc.collect()
            assert instances() - before == MANY
        else:  # the broker gave the first ones up long ago
            wait_until(lambda: bool(Responder.at(options(mq, 99))) and instances() - before <= FEW + 1)
        leave_group()


def test_a_member_that_gets_one_more_topic_stays_open_for_its_user(mq: EmbeddedRocketMQ) -> None:
    mq.create_topic("trains", queues=2)
    first = Responder.at(options(mq, 1), frozenset({"flights"}))
    second = Responder.at(options(mq, 1), frozenset({"trains"}))
    assert second.topics == {"flights", "trains"}
    assert Responder.at(options(mq, 1), frozenset({"flights"})) is second
    assert first.engine.run(first.producer.publish_queues("flights"))  # not closed under its user
    before = instances()
    del first
    wait_until(lambda: instances() == before - 1)


def test_a_member_that_was_dropped_and_sends_halves_then_is_kept_again(mq: EmbeddedRocketMQ) -> None:
    """Another thread may drop it between the moment a task got it and its first half."""
    responder = Responder.at(options(mq, 0), frozenset({"flights"}))
    for number in range(1, MANY):
        Responder.at(options(mq, number))
    responder.record_half_messages({"flights"})
    kept = id(responder)
    del responder
    for number in range(1, MANY):
        Responder.at(options(mq, number))
    gc.collect()
    assert id(Responder.at(options(mq, 0), frozenset({"flights"}))) == kept

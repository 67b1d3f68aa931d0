# SPDX-License-Identifier: Apache-2.0
"""The embedded RocketMQ as users' tests use it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.errors import ClosedError, ConfigurationError, RocketMQError
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import SENDS, EmbeddedRocketMQ, RequestCode, ResponseCode

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Seen:
    """Deliveries, appended on listener threads and read by the test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.deliveries: list[tuple[bytes, int]] = []

    def add(self, message: rmq.MessageExt) -> None:
        with self._lock:
            self.deliveries.append((message.body, message.reconsume_times))


def test_a_10_s_retry_takes_no_real_time(rocketmq):
    rocketmq.create_topic("orders", queues=1)
    seen = Seen()
    consumer = rocketmq.push_consumer("billing", consume_from_where=FIRST)
    consumer.subscribe("orders")

    @consumer.on_message
    def fail_once(message: rmq.MessageExt) -> None:
        seen.add(message)
        if message.reconsume_times == 0:
            raise ValueError("not yet")

    with rocketmq.producer() as producer, consumer:
        producer.send(rmq.Message("orders", b"order"))
        rocketmq.wait_until(lambda: rocketmq.messages("SCHEDULE_TOPIC_XXXX"))
        sent_back_ms = rocketmq.clock.now_ms()
        rocketmq.advance(9_000)
        assert rocketmq.messages("%RETRY%billing") == []
        rocketmq.advance(1_000)
        rocketmq.wait_until(lambda: len(seen.deliveries) == 2)
        assert rocketmq.clock.now_ms() - sent_back_ms == 10_000
    assert seen.deliveries == [(b"order", 0), (b"order", 1)]


def test_a_lost_answer_makes_a_duplicate(rocketmq):
    rocketmq.create_topic("orders", queues=1)
    with rocketmq.producer(send_msg_max_timeout_per_request_ms=300) as producer:
        rocketmq.faults.drop_answer(SENDS)
        producer.send(rmq.Message("orders", b"order"), timeout_ms=5_000)
    first, *copies = rocketmq.messages(
        "orders"
    )  # more than one when the machine is busy: the next try must be answered in 300 ms
    assert copies
    assert {copy.message_id for copy in copies} == {first.message_id}


def test_faults_reach_the_name_server_too(rocketmq):
    rocketmq.create_topic("orders", queues=1)
    fault = rocketmq.faults.fail(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR, "out of order")
    with rocketmq.producer() as producer:
        with pytest.raises(RocketMQError, match="out of order"):
            producer.send(rmq.Message("orders", b"order"))
        producer.send(rmq.Message("orders", b"order"))
    assert fault.hits == 1


@pytest.mark.rocketmq(messageDelayLevel="7s 9s", autoCreateTopicEnable=False)
def test_the_marker_sets_the_brokers_settings(rocketmq):
    assert rocketmq.broker.config.message_delay_level == "7s 9s"
    assert rocketmq.broker.config.auto_create_topic_enable is False


@pytest.mark.rocketmq("system")
def test_the_marker_takes_options_by_name_only(request):
    with pytest.raises(ConfigurationError, match="^the mark rocketmq is given 'system'; options by name are allowed"):
        request.getfixturevalue("rocketmq")


def test_a_broker_with_a_store_keeps_its_messages_over_a_restart(tmp_path):
    with EmbeddedRocketMQ(store_dir=tmp_path / "store") as rocketmq:
        rocketmq.create_topic("orders", queues=1)
        with rocketmq.producer() as producer:
            producer.send(rmq.Message("orders", b"before"))
            address = rocketmq.broker_addr
            rocketmq.restart_broker()
            assert rocketmq.broker_addr == address
            producer.send(rmq.Message("orders", b"after"), timeout_ms=10_000)
        assert [message.body for message in rocketmq.messages("orders")] == [b"before", b"after"]


def test_two_embedded_rocketmqs_are_independent():
    with EmbeddedRocketMQ() as one, EmbeddedRocketMQ() as other:
        one.create_topic("orders", queues=1)
        with one.producer() as producer:
            producer.send(rmq.Message("orders", b"order"))
        assert len(one.messages("orders")) == 1
        assert other.messages("orders") == []


def test_stopping_leaves_no_thread_behind():
    with EmbeddedRocketMQ():
        pass
    before = set(threading.enumerate())
    with EmbeddedRocketMQ():
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before


def test_wrong_use_is_one_sentence():
    no_clock: Any = 7
    with pytest.raises(ConfigurationError, match="'mesageDelayLevel' is given"):
        EmbeddedRocketMQ(mesageDelayLevel="1s")
    with pytest.raises(ConfigurationError, match="^clock is 7, .*manual.*system.* or a Clock is allowed"):
        EmbeddedRocketMQ(clock=no_clock)
    with pytest.raises(ConfigurationError, match="clock is 'fast'"):
        EmbeddedRocketMQ(clock="fast")  # type: ignore[arg-type]
    with pytest.raises(ClosedError, match="not started"):
        _ = EmbeddedRocketMQ().namesrv_addr
    with EmbeddedRocketMQ(clock="system") as rocketmq, pytest.raises(ConfigurationError, match="manual clock"):
        rocketmq.advance(1)


def test_the_clock_does_not_run_ahead_of_a_loop_that_has_work(rocketmq):
    """As on a busy machine, where a request and its answer take longer than a test has patience."""
    rocketmq.create_topic("flights", queues=1)
    with rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"first"))
        Engine.shared().call(lambda: threading.Event().wait(0.05))
        future = producer.send_async(rmq.Message("flights", b"x"))
        assert rocketmq.advance_until(future.done, patience_ms=0) == 0

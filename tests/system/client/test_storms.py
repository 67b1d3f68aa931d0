# SPDX-License-Identifier: Apache-2.0
"""Wishes that come by the thousand: consumers whose topics are missing, brokers that forgot everybody. In real time, on real sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from interop.child import poll_until
from interop.middleman import Middleman
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.testing import HEARTBEATS, PULLS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command

pytestmark = pytest.mark.timeout(120)

WATCHED_S = 3.0


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a rebalance of any consumer began."""
    seen: list[float] = []
    rebalance = RunningConsumer.rebalance

    async def counted(running: RunningConsumer) -> bool:
        seen.append(time.monotonic())
        return await rebalance(running)

    monkeypatch.setattr(RunningConsumer, "rebalance", counted)
    return seen


@pytest.fixture
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system", autoCreateTopicEnable=False) as started:
        yield started


def consumer_of(address: str, group: str, topic: str, **options: object) -> rmq.PushConsumer:
    consumer = rmq.PushConsumer(group, namesrv_addr=address, **options)
    consumer.subscribe(topic)
    consumer.on_message(lambda message: None)
    consumer.start()
    return consumer


def watch() -> None:
    """Let time pass: what must not happen cannot be waited for."""
    threading.Event().wait(WATCHED_S)


def test_consumers_that_wait_for_missing_topics_ask_once_a_second_each(server, rounds):
    with Middleman(server.namesrv_addr) as asked:
        consumers = [
            consumer_of(asked.address, f"waiting-{number}", f"missing-{number}", instance_name="one")
            for number in range(6)
        ]
        try:
            begin_s = time.monotonic()
            watch()
            of_rounds = len([at_s for at_s in rounds if at_s >= begin_s])
            of_routes = asked.count(RequestCode.GET_ROUTEINFO_BY_TOPIC, begin_s)
            # Each consumer: a round a second, each of which asks for the topic and for the retry topic.
            assert 6 <= of_rounds <= 6 * (WATCHED_S + 2), "a round a second and consumer"
            assert of_routes <= 2 * of_rounds + 20
            server.stop()
            rounds.clear()
            watch()
            assert len(rounds) <= 6 * (WATCHED_S + 2), "nor when everything has died"
        finally:
            for consumer in consumers:
                consumer.shutdown()


def test_256_queues_of_a_broker_that_forgot_us_make_few_heartbeats(server):
    server.create_topic("flights", 256)
    heartbeats: list[float] = []

    def look(command: Command) -> bool:
        heartbeats.append(time.monotonic())
        return False

    server.faults.drop(HEARTBEATS, times=None, when=look)
    # What a broker says that was restarted, until it has heard of the group.
    forgot = server.faults.fail(PULLS, ResponseCode.SUBSCRIPTION_NOT_EXIST, "the group is unknown", times=512)
    consumer = consumer_of(server.namesrv_addr, "forgotten", "flights", pull_time_delay_when_exception_ms=100)
    try:
        poll_until(lambda: forgot.hits == 512, "each queue was refused twice")
        watch()
        assert len(heartbeats) <= 20, "one for each second that pulls failed, not one for each of 256 queues"
    finally:
        consumer.shutdown()

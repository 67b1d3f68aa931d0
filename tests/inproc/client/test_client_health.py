# SPDX-License-Identifier: Apache-2.0
"""``consumer.health()``: what a restart would mend, and nothing else."""

from __future__ import annotations

import threading

import pytest
from recorder import held_port, parts_of, send_all

import sprocketmq as rmq


def test_a_running_consumer_is_healthy_and_a_stopped_one_is_not(rocketmq, consumers):
    rocketmq.create_topic("flights", queues=2)
    consumer = consumers(lambda message: None, start=False)
    assert consumer.health() == rmq.ConsumerHealth(state="not started")
    assert not consumer.health().is_healthy
    consumer.start()
    assert consumer.health().is_healthy
    consumer.pause()
    rocketmq.advance(600_000)
    assert consumer.health().is_healthy, "paused on purpose"
    consumer.resume()
    consumer.shutdown()
    assert consumer.health() == rmq.ConsumerHealth(state="shut down"), "a state, and no problem"
    assert not consumer.health().is_healthy


@pytest.mark.parametrize("kind", ["message", "orderly"])
def test_a_listener_that_hangs_is_a_problem_until_it_returns(rocketmq, consumers, producer, kind):
    send_all(producer, ["x"])
    hangs, go_on = threading.Event(), threading.Event()

    def listener(*args: object) -> rmq.ConsumeOrderlyStatus:
        hangs.set()
        go_on.wait(60)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumer = consumers(
        (lambda message: listener()) if kind == "message" else (lambda messages, context: listener()),
        kind=kind,
        consume_timeout_ms=60_000,
    )
    try:
        rocketmq.advance_until(hangs.is_set)
        assert consumer.health().is_healthy
        rocketmq.advance(90_000)
        (problem,) = consumer.health().problems
        assert problem.startswith("1 listener calls run longer than the consume timeout of 60000 ms, for up to 9")
        consumer.set_consume_timeout_ms(0)
        assert consumer.health().is_healthy, "no limit"
        consumer.set_consume_timeout_ms(60_000)
    finally:
        go_on.set()
    rocketmq.wait_until(lambda: consumer.health().is_healthy)


def test_a_queue_that_nobody_pulls_is_a_problem(rocketmq, consumers):
    consumer = consumers(lambda message: None)
    running = parts_of(consumer)

    async def stop_a_loop() -> None:
        for loop in list(running._loops.values()):
            if loop.queue.topic == "flights":
                loop.process_queue.last_pull_ms -= 150_000
                await loop.stop()

    assert rocketmq._engine is not None
    consumer._engine.run(stop_a_loop())
    (problem,) = consumer.health().problems
    assert problem == "1 of 2 queues were not pulled for up to 150 s, flights/broker-a/0 for one"


def test_a_broker_that_is_away_is_no_problem(rocketmq, consumers):
    consumer = consumers(lambda message: None)
    rocketmq.broker.stop()
    with held_port(rocketmq.broker.port):
        rocketmq.advance(60_000)
        assert consumer.health().is_healthy
    rocketmq.restart_broker()


async def test_on_a_loop_and_iterated(rocketmq):
    consumer = rocketmq.async_push_consumer("delays")
    consumer.subscribe("flights")
    assert not consumer.health().is_healthy
    async with consumer.messages():
        assert consumer.health() == rmq.ConsumerHealth()

# SPDX-License-Identifier: Apache-2.0
"""What clients and servers do that no timer begins: until it has ended the manual clock is not at rest, and ``advance_until`` waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.broker import lazy_imports
from sprocketmq.errors import NetworkError
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.clock import ManualClock, SystemClock, Watched, watch
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import SENDS, EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
LONG_MS = 100_000
"""A patience that no test can pay for each step."""


class Gate:
    """A callback that waits until it is opened."""

    def __init__(self, answer: object = None) -> None:
        self._answer = answer
        self.is_reached, self._open = threading.Event(), threading.Event()

    def __call__(self, *arguments: object) -> Any:
        self.is_reached.set()
        self._open.wait(60)
        return self._answer

    async def wait_on_loop(self, *arguments: object) -> None:
        self.is_reached.set()
        while not self._open.is_set():
            await asyncio.sleep(0.001)

    def is_passed(self, rocketmq: EmbeddedRocketMQ) -> None:
        """It is reached, the clock is not at rest before it is opened, and then it is."""
        rocketmq.wait_until(self.is_reached.is_set)
        assert not [None for _ in range(20) if rocketmq.clock.is_at_rest()]
        self._open.set()
        rocketmq.wait_until(rocketmq.clock.is_at_rest)


def consumer(rocketmq: EmbeddedRocketMQ, listener: Callable[..., Any], **options: Any) -> rmq.PushConsumer:
    made = rocketmq.push_consumer("delays", consume_from_where=FIRST, **options)
    made.subscribe("flights")
    made.on_message(listener)
    return made


class HastyClock(ManualClock):
    """Asks each part as soon as it knows of it, as the test's thread may while a client starts on another one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def _watch(self, part: Watched) -> None:
        super()._watch(part)
        assert part.is_busy in (True, False)
        assert not part.calls
        assert not list(part.connections)
        self.asked.add(type(part).__name__)


def test_a_part_is_whole_when_the_clock_learns_of_it():
    clock = HastyClock()
    with EmbeddedRocketMQ(clock=clock) as rocketmq:

        async def run() -> None:
            iterated = rocketmq.async_push_consumer("iterated")
            iterated.subscribe("flights")
            listening = rocketmq.async_push_consumer("listening")
            listening.subscribe("flights")

            @listening.on_message
            async def listen(message: rmq.MessageExt) -> None:
                pass

            polling = rocketmq.async_pull_consumer("polling")
            async with iterated.messages(), listening, polling, rocketmq.async_admin() as admin:
                await admin.topics()

        asyncio.run(run())
        with consumer(rocketmq, lambda message: None):
            pass
    made = {"AsyncListenerPool", "ConnectionPool", "DemandPool", "PollService", "Server", "ThreadListenerPool"}
    assert clock.asked == made


def test_servers_and_clients_that_only_wait_for_the_clock_are_at_rest(rocketmq):
    rocketmq.create_topic("flights", queues=4)
    with (
        consumer(rocketmq, lambda message: None) as push,
        rocketmq.producer("ops") as producer,
        rocketmq.admin() as admin,
    ):
        producer.send(rmq.Message("flights", b"1"))
        assert admin.consumer_ids("delays") == [push.client_id]
        rocketmq.wait_until(lambda: rocketmq._on_loop(lambda: len(rocketmq.broker.parked)) >= 4)
        rocketmq.wait_until(rocketmq.clock.is_at_rest, timeout_ms=15_000)  # after 30 s a pull gives up


@pytest.mark.parametrize("kind", ["blocking", "async", "orderly"])
def test_a_listener_that_runs_is_waited_for(rocketmq, kind):
    rocketmq.create_topic("flights", queues=1)
    gate = Gate()
    push = rocketmq.push_consumer("delays", consume_from_where=FIRST)
    push.subscribe("flights")
    if kind == "orderly":
        push.orderly_listener(gate)
    else:
        push.on_message(gate.wait_on_loop if kind == "async" else gate)
    with push, rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"1"))
        gate.is_passed(rocketmq)


def test_a_message_of_an_iteration_is_waited_for_until_it_is_settled(rocketmq):
    rocketmq.create_topic("flights", queues=1)
    push = rocketmq.push_consumer("delays", consume_from_where=FIRST)
    push.subscribe("flights")
    gate = Gate()

    def iterate() -> None:
        with push.messages() as messages:
            for message in messages:
                gate()
                message.ack()

    iterating = threading.Thread(target=iterate)
    iterating.start()
    try:
        with rocketmq.producer("ops") as producer:
            producer.send(rmq.Message("flights", b"1"))
            gate.is_passed(rocketmq)
    finally:
        push.shutdown()
        iterating.join(30)


def test_a_check_of_a_transaction_is_waited_for(rocketmq):
    rocketmq.create_topic("flights", queues=1)
    gate = Gate(rmq.LocalTransactionState.COMMIT_MESSAGE)
    with rmq.TransactionProducer(
        "ops", check=gate, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock
    ) as producer:
        producer.send_in_transaction(
            rmq.Message("flights", b"1"), execute=lambda message: rmq.LocalTransactionState.UNKNOWN
        )
        rocketmq.advance_until(gate.is_reached.is_set)
        gate.is_passed(rocketmq)
    assert len(rocketmq.messages("flights")) == 1


def test_a_listener_for_changed_queues_is_waited_for(rocketmq):
    rocketmq.create_topic("flights", queues=1)
    gate = Gate()
    pulling = rocketmq.pull_consumer("delays")
    pulling.subscribe("flights", on_queues_changed=gate)
    with pulling:
        gate.is_passed(rocketmq)


def test_an_answer_that_has_not_come_is_waited_for(rocketmq):
    rocketmq.create_topic("flights", queues=1)
    with rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"1"))
        rocketmq.wait_until(rocketmq.clock.is_at_rest)
        fault = rocketmq.faults.delay(SENDS, 500)
        sending = producer.send_async(rmq.Message("flights", b"2"), timeout_ms=60_000)
        rocketmq.wait_until(lambda: fault.hits)
        assert not [None for _ in range(20) if rocketmq.clock.is_at_rest()]
        rocketmq.advance(500)
        sending.result(30)
        rocketmq.wait_until(rocketmq.clock.is_at_rest)


def test_bytes_that_a_peer_does_not_read_are_waited_for(rocketmq):
    """A pull: its answer may be far away, but that it arrives at the broker is not."""
    rocketmq.create_topic("flights", queues=1)
    with consumer(rocketmq, lambda message: None), rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"1"))
        rocketmq.wait_until(rocketmq.clock.is_at_rest)
        on_loop = rocketmq._on_loop
        connections = on_loop(lambda: rocketmq.broker.ports._server.connections)  # type: ignore[union-attr]
        on_loop(lambda: [connection.pause() for connection in connections])
        sending = producer.send_async(rmq.Message("flights", b"2"), timeout_ms=60_000)
        assert not [None for _ in range(20) if rocketmq.clock.is_at_rest()]
        on_loop(lambda: [connection.unpause() for connection in connections])
        sending.result(30)
        rocketmq.wait_until(rocketmq.clock.is_at_rest)


def test_a_connection_that_is_being_opened_is_waited_for(rocketmq):
    with socket.create_server(("127.0.0.1", 0)) as silent:

        async def pool_of_this_clock() -> ConnectionPool:
            return ConnectionPool(ssl_context=ssl.create_default_context())

        engine = Engine.shared()
        pool = engine.run(pool_of_this_clock())
        watch(rocketmq.clock, pool)
        opening = engine.submit(pool.connection(f"127.0.0.1:{silent.getsockname()[1]}"))
        accepted, _ = silent.accept()
        assert not rocketmq.clock.is_at_rest()
        accepted.close()
        with pytest.raises(NetworkError):
            opening.result(30)
        rocketmq.wait_until(rocketmq.clock.is_at_rest)
        engine.run(pool.aclose())


def test_a_library_that_a_request_needs_is_waited_for(rocketmq, monkeypatch):
    """The first subscription by SQL92 of a process: pulls wait for the parser, and not for messages."""
    gate = Gate()
    monkeypatch.setattr(lazy_imports, "_loaded", set())
    monkeypatch.setattr(lazy_imports, "_LOADERS", {**lazy_imports._LOADERS, lazy_imports.Library.SQL92: gate})
    rocketmq.create_topic("flights", queues=1)
    push = rocketmq.push_consumer("delays", consume_from_where=FIRST)
    push.subscribe("flights", rmq.sql92("a > 1"))
    push.on_message(lambda message: None)
    with contextlib.ExitStack() as stack:
        starting = threading.Thread(target=lambda: stack.enter_context(push))
        starting.start()
        gate.is_passed(rocketmq)
        starting.join(30)


def test_a_client_without_this_clock_needs_real_time(rocketmq):
    """As one of another process does."""
    rocketmq.create_topic("flights", queues=1)
    rocketmq.wait_until(rocketmq.clock.is_at_rest)
    host, _, port = rocketmq.broker_addr.rpartition(":")
    with socket.create_connection((host, int(port))):
        rocketmq.wait_until(lambda: rocketmq.broker.connection_count == 1)
        assert not [None for _ in range(20) if rocketmq.clock.is_at_rest()]
    rocketmq.wait_until(rocketmq.clock.is_at_rest)
    with rocketmq.admin(clock=SystemClock()) as admin:
        assert "flights" in admin.topics()
        assert not [None for _ in range(20) if rocketmq.clock.is_at_rest()]
    rocketmq.wait_until(rocketmq.clock.is_at_rest)


# -- advance_until ---------------------------------------------------------------------------------------------------------------


def test_retries_are_called_when_they_are_due_and_cost_no_patience(rocketmq):
    rocketmq.create_topic("flights", queues=1)
    called_ms: list[int] = []

    def fail(message: rmq.MessageExt) -> None:
        called_ms.append(rocketmq.clock.now_ms())
        raise ValueError("not yet")

    with consumer(rocketmq, fail), rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"1"))
        rocketmq.wait_until(rocketmq.clock.is_at_rest)
        rocketmq.advance_until(lambda: len(called_ms) == 4, patience_ms=LONG_MS)
    # On a busy machine a step may be made before an answer is there, but no retry waits for the next one's time.
    assert [(called - called_ms[0]) // 10_000 for called in called_ms] == [0, 1, 4, 10]


def steps(rocketmq: EmbeddedRocketMQ, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float | None]]:
    """Of each step from now on its length, and how far the next timer was."""
    made: list[tuple[float, float | None]] = []
    advance = rocketmq.clock.advance

    def noted(delay_ms: float) -> None:
        made.append((delay_ms, rocketmq.clock.next_timer_ms()))
        advance(delay_ms)

    monkeypatch.setattr(rocketmq.clock, "advance", noted)
    return made


def test_a_step_goes_to_the_next_timer(rocketmq, monkeypatch):
    made = steps(rocketmq, monkeypatch)
    began_ms = rocketmq.clock.now_ms()
    limit_ms = 120_000
    with pytest.raises(AssertionError, match="after 120000 ms of the manual clock"):
        rocketmq.advance_until(lambda: False, step_ms=50, limit_ms=limit_ms, patience_ms=0)
    assert [length for length, next_ms in made[:-1]] == [max(50, next_ms or 0) for length, next_ms in made[:-1]]
    assert any(length > 50 for length, _ in made)
    assert sum(length for length, _ in made) == limit_ms == rocketmq.clock.now_ms() - began_ms


def test_the_last_step_ends_at_the_limit(rocketmq, monkeypatch):
    made = steps(rocketmq, monkeypatch)
    with pytest.raises(AssertionError, match="after 2500 ms of the manual clock"):
        rocketmq.advance_until(lambda: False, step_ms=1_000_000, limit_ms=2_500, patience_ms=0)
    assert [length for length, _ in made] == [2_500]


def test_a_listener_that_waits_does_not_stop_the_clock(rocketmq, monkeypatch):
    """What it waits for may be the clock."""
    rocketmq.create_topic("flights", queues=1)
    gate = Gate()
    with consumer(rocketmq, gate), rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("flights", b"1"))
        rocketmq.wait_until(gate.is_reached.is_set)
        made = steps(rocketmq, monkeypatch)
        until_ms = rocketmq.clock.now_ms() + 3_000
        assert rocketmq.advance_until(lambda: rocketmq.clock.now_ms() >= until_ms, step_ms=500, patience_ms=1) == 3_000
        assert [length for length, _ in made] == [500] * 6
        gate.is_passed(rocketmq)


def test_a_thread_that_the_clock_does_not_know_has_real_time_before_the_wait_is_in_vain(rocketmq):
    until_ms = rocketmq.clock.now_ms() + 5_000
    is_done = threading.Event()

    def work() -> None:
        while rocketmq.clock.now_ms() < until_ms:
            threading.Event().wait(0.001)
        threading.Event().wait(0.02)
        is_done.set()

    working = threading.Thread(target=work)
    working.start()
    assert rocketmq.advance_until(is_done.is_set, limit_ms=5_000, patience_ms=10_000) == 5_000
    working.join(30)

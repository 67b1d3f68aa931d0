# SPDX-License-Identifier: Apache-2.0
"""Offset resets while members run: pushed by a 4.9 broker (code 220), and by the answer to the next pull (5.x)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from recorder import HELD_S, QUEUE, Held, Recorder, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import request
from sprocketmq.wire.headers import ResetOffsetRequestHeader

SUCCESS = rmq.ConsumeOrderlyStatus.SUCCESS


@pytest.fixture(params=["pushed", "by the next pull"])
def rocketmq(request: pytest.FixtureRequest) -> Iterator[EmbeddedRocketMQ]:
    """Both generations' way, with two queues of ``flights``."""
    with EmbeddedRocketMQ(useServerSideResetOffset=request.param != "pushed") as embedded:
        embedded.create_topic("flights", queues=2)
        with embedded.admin() as admin:  # a 4.9 broker moves only queues of which it knows an offset
            admin.create_group("delays")
            for queue in admin.queues("flights"):
                admin.set_consumer_offset("delays", queue, 0)
        yield embedded


def _reset(rocketmq: EmbeddedRocketMQ, timestamp_ms: int, *, language: str = "JAVA") -> None:
    """As mqadmin resetOffsetByTime does it, with force."""
    with rocketmq.admin() as admin:
        header = ResetOffsetRequestHeader("flights", "delays", timestamp_ms, True)
        command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        command.language = language
        answer = Engine.shared().run(admin._async._cluster.invoke(rocketmq.broker_addr, command, 60_000))
    assert answer.code == 0, answer.remark


def _committed(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> dict[int, int]:
    consumer.persist_offsets()
    return rocketmq.consumer_offset("delays", "flights")


def _send(producer: rmq.Producer, queue_id: int, *bodies: str) -> None:
    send_all(producer, list(bodies), queue=rmq.MessageQueue("flights", "broker-a", queue_id))


def test_a_reset_to_a_time_gives_everything_from_then_on_again(rocketmq, producer, consumers):
    _send(producer, 0, "a0")
    _send(producer, 1, "b0")
    rocketmq.advance(10_000)
    at_ms = rocketmq.clock.now_ms()
    _send(producer, 0, "a1", "a2")
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.wait_until(lambda: len(recorder) == 4)
    rocketmq.advance_until(lambda: _committed(rocketmq, consumer) == {0: 3, 1: 1})
    _reset(rocketmq, at_ms)
    rocketmq.advance_until(lambda: len(recorder) == 6)
    assert sorted(recorder.bodies[4:]) == ["a1", "a2"]
    rocketmq.advance_until(lambda: _committed(rocketmq, consumer) == {0: 3, 1: 1})
    assert recorder.times == [0] * 6


def test_a_reset_that_a_pull_under_an_older_version_is_told_counts(rocketmq, producer, consumers):
    _send(producer, 0, "a0")
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.wait_until(lambda: len(recorder) == 1 and len(rocketmq.broker.parked) == 3)
    running = parts_of(consumer)
    rocketmq._engine.run(_call(running.members_changed))  # the pulls that wait keep their version
    _reset(rocketmq, 0)
    rocketmq.advance_until(lambda: len(recorder) == 2)
    assert recorder.bodies == ["a0", "a0"]


async def _call(function: Callable[[], None]) -> None:
    function()


def test_a_queue_that_was_reset_is_read_again_at_once_and_not_with_the_next_round(rocketmq, producer, consumers):
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.advance_until(lambda: len(consumer.assigned_queues) == 3)
    rocketmq.advance(2_000)  # past the round that follows a start; the next one comes 20 s after it
    _send(producer, 0, "a0", "a1")
    _send(producer, 1, "b0")
    rocketmq.wait_until(lambda: len(recorder) == 3)
    _reset(rocketmq, 0)
    _send(producer, 0, "a2")  # the pulls that a 5.x broker holds are answered
    _send(producer, 1, "b1")
    rocketmq.advance_until(
        lambda: recorder.bodies.count("a0") == recorder.bodies.count("b0") == 2, limit_ms=15_000, patience_ms=1_000
    )


def test_a_reset_to_the_end_skips_what_is_in_hand_and_a_late_listener_does_not_undo_it(rocketmq, producer, consumers):
    held = Held(b"a0", ValueError("too late to matter"))
    consumer = consumers(held, consume_thread_count=1)
    rocketmq.advance_until(lambda: len(consumer.assigned_queues) == 3)
    _send(producer, 0, "a0", "a1", "a2")
    assert held.running.wait(20)
    in_hand = parts_of(consumer).rebalancer.table.active()[QUEUE]
    _reset(rocketmq, -1)
    rocketmq.advance_until(lambda: in_hand.dropped)  # at its next pull, where the broker does not push
    rocketmq.advance_until(lambda: _committed(rocketmq, consumer).get(0) == 3)
    held.release.set()
    _send(producer, 0, "a3")
    rocketmq.advance_until(lambda: "a3" in held.bodies)
    rocketmq.advance_until(lambda: _committed(rocketmq, consumer).get(0) == 4)
    consumer.shutdown()
    assert held.bodies == ["a0", "a3"]
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []  # what was skipped is not retried either


def test_an_orderly_queue_is_reset_when_its_listener_has_ended_and_stays_in_order(rocketmq, producer, consumers):
    release, running = threading.Event(), threading.Event()
    seen: list[str] = []
    inside: list[int] = []

    def listener(messages: list[rmq.MessageExt], context: Any) -> rmq.ConsumeOrderlyStatus:
        inside.append(1)
        assert len(inside) == 1  # never two at a time
        seen.append(messages[0].body.decode())
        if seen == ["a0", "a1"]:
            running.set()
            release.wait(HELD_S)
        inside.clear()
        return SUCCESS

    _send(producer, 0, "a0")
    consumer = consumers(listener, kind="orderly")
    rocketmq.advance_until(lambda: _committed(rocketmq, consumer).get(0) == 1)  # another offset than that of the reset
    _send(producer, 0, "a1", "a2")
    rocketmq.advance_until(running.is_set)
    _reset(rocketmq, 0)
    for _ in range(5):  # rounds of rebalance, and ticks of the periodic writing
        rocketmq.advance(5_000)
    assert seen == ["a0", "a1"]
    release.set()
    rocketmq.advance_until(lambda: seen.count("a2") >= 1 and seen.count("a0") == 2)
    rocketmq.advance_until(lambda: seen[-1] == "a2" and _committed(rocketmq, consumer).get(0) == 3)
    last = len(seen) - 1 - seen[::-1].index("a0")
    assert seen[last:] == ["a0", "a1", "a2"]


def test_a_reset_that_a_cpp_tool_asked_for_is_understood_too(rocketmq, producer, consumers):
    _send(producer, 0, "a0")
    _send(producer, 1, "b0")
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.advance_until(lambda: _committed(rocketmq, consumer) == {0: 1, 1: 1})
    _reset(rocketmq, 0, language="CPP")
    rocketmq.advance_until(lambda: len(recorder) == 4)
    assert sorted(recorder.bodies) == ["a0", "a0", "b0", "b0"]

"""A listener call over the consume timeout: who is told, with which stack, and that exactly one copy of the message comes back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from recorder import send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

Consumers = Callable[..., rmq.PushConsumer]
LIMIT_MS = 60_000


class Stuck:
    """A listener that hangs with each message on its first delivery until ``release``; remembers (body, reconsume_times)."""

    def __init__(self, late: Callable[[], Any] = lambda: None) -> None:
        self.seen: list[tuple[str, int]] = []
        self.release = threading.Event()
        self.ended = threading.Event()
        self.late = late

    def __call__(self, message: rmq.MessageExt) -> Any:
        self.seen.append((message.body.decode(), message.reconsume_times))
        if message.body != b"stuck" or message.reconsume_times > 0:
            return None
        try:
            self.hangs_here()
            return self.late()
        finally:
            self.ended.set()

    def hangs_here(self) -> None:
        self.release.wait(30)


def _copies(rocketmq: EmbeddedRocketMQ) -> int:
    return len(rocketmq.messages("SCHEDULE_TOPIC_XXXX"))


def _committed(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> int:
    consumer.persist_offsets()
    return sum(rocketmq.consumer_offset("delays", "flights").values())


def test_the_user_is_told_of_a_stuck_call_with_its_stack_once_at_its_deadline(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    rocketmq.create_topic("flights", queues=1)
    listener, told = Stuck(), list[rmq.StuckListener]()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS, start=False)
    consumer.on_consume_timeout(told.append)
    consumer.start()
    (result,) = send_all(producer, ["stuck"])
    rocketmq.wait_until(lambda: len(listener.seen) == 1)
    rocketmq.advance(LIMIT_MS - 1_000)
    assert (told, _copies(rocketmq)) == ([], 0)
    with caplog.at_level(logging.WARNING, "sprocketmq.client"):
        rocketmq.advance(1_000)
        rocketmq.wait_until(lambda: told and _copies(rocketmq) == 1)
    (stuck,) = told
    assert (stuck.group, stuck.message_queue) == ("delays", rmq.MessageQueue("flights", "broker-a", 0))
    assert [message.message_id for message in stuck.messages] == [result.message_id]
    assert (stuck.running_ms, stuck.limit_ms) == (LIMIT_MS, LIMIT_MS)
    assert stuck.stack.splitlines()[1].strip() == "self.hangs_here()"  # begins in the listener, not in our machinery
    assert "hangs_here" in stuck.stack
    assert stuck.worker.startswith("sprocketmq-delays-")
    (line,) = [record.getMessage() for record in caplog.records if "consume timeout" in record.getMessage()]
    assert result.message_id in line
    assert "self.hangs_here()" in line
    assert consumer.statistics.timed_out_msgs("flights") == 1

    rocketmq.advance(3 * LIMIT_MS)
    listener.release.set()
    assert len(told) == 1


def test_the_stack_of_an_async_listener_goes_down_to_what_it_waits_for(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    told: list[rmq.StuckListener] = []
    started = threading.Event()

    async def ask_the_tower() -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    async def listener(message: rmq.MessageExt) -> None:
        if message.reconsume_times == 0:
            await ask_the_tower()

    async def on_timeout(stuck: rmq.StuckListener) -> None:
        told.append(stuck)

    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS, start=False, await_termination_ms=0)
    consumer.on_consume_timeout(on_timeout)
    consumer.start()
    send_all(producer, ["stuck"])
    assert started.wait(20)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: told)
    assert "await ask_the_tower()" in told[0].stack
    assert "create_future()" in told[0].stack


def test_a_callback_that_fails_changes_nothing(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    listener = Stuck()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS, start=False)

    @consumer.on_consume_timeout
    def fails(stuck: rmq.StuckListener) -> None:
        raise RuntimeError("a bad callback")

    consumer.start()
    send_all(producer, ["stuck", "next"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: _copies(rocketmq) == 1)
    rocketmq.wait_until(lambda: _committed(rocketmq, consumer) == 2)
    listener.release.set()


def _raise() -> None:
    raise ValueError("too late")


@pytest.mark.parametrize(
    "late",
    [lambda: None, lambda: rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER, _raise],
    ids=["success", "again", "raises"],
)
def test_a_listener_that_ends_late_makes_no_second_copy_whatever_it_answers(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, late: Callable[[], Any]
) -> None:
    rocketmq.create_topic("flights", queues=1)
    listener = Stuck(late)
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS)
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: _committed(rocketmq, consumer) == 2)
    listener.release.set()
    assert listener.ended.wait(20)
    rocketmq.advance_until(lambda: ("stuck", 1) in listener.seen)
    consumer.shutdown()  # everything under way has ended
    assert _copies(rocketmq) == 1
    assert listener.seen.count(("stuck", 1)) == 1


def test_broadcasting_gives_a_stuck_message_up_and_goes_on(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, tmp_path: Any
) -> None:
    rocketmq.create_topic("flights", queues=1)
    listener, told = Stuck(), list[rmq.StuckListener]()
    consumer = consumers(
        listener,
        consume_timeout_ms=LIMIT_MS,
        message_model=rmq.MessageModel.BROADCASTING,
        local_offset_store_dir=str(tmp_path),
        start=False,
    )
    consumer.on_consume_timeout(told.append)
    consumer.start()
    queue = rmq.MessageQueue("flights", "broker-a", 0)
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    assert consumer.process_queues[queue].commit_offset == 0
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: consumer.process_queues[queue].commit_offset == 2)
    rocketmq.wait_until(lambda: len(told) == 1)
    listener.release.set()
    assert listener.ended.wait(20)
    assert _copies(rocketmq) == 0

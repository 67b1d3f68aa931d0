# SPDX-License-Identifier: Apache-2.0
"""A listener call over the consume timeout: who is told, with which stack, and that exactly one copy of the message comes back."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from recorder import HELD_S, QUEUE, committed, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command

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
        self.release.wait(HELD_S)


def _copies(rocketmq: EmbeddedRocketMQ) -> int:
    return len(rocketmq.messages("SCHEDULE_TOPIC_XXXX"))


def test_a_stuck_call_is_reported_once_at_its_deadline_with_its_stack(rocketmq, producer, consumers, caplog):
    listener, told = Stuck(), list[rmq.StuckListener]()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS, start=False)
    consumer.on_consume_timeout(told.append)
    consumer.start()
    rocketmq.advance(10_000)  # the running calls are checked each LIMIT_MS, and this one has a deadline of its own
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


def test_a_stuck_call_with_a_batch_is_reported_once_with_all_its_messages(rocketmq, producer, consumers):
    release, told = threading.Event(), list[rmq.StuckListener]()

    def hangs(messages: list[rmq.MessageExt], context: Any) -> Any:
        if messages[0].reconsume_times == 0:
            release.wait(HELD_S)
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    producer.send_batch([rmq.Message("flights", body) for body in (b"0", b"1")])
    consumer = consumers(hangs, kind="concurrent", batch_size=2, consume_timeout_ms=LIMIT_MS, start=False)
    consumer.on_consume_timeout(told.append)
    consumer.start()
    rocketmq.wait_until(lambda: QUEUE in consumer.process_queues and consumer.process_queues[QUEUE].count == 2)
    rocketmq.advance_until(lambda: _copies(rocketmq) == 2 and told)
    release.set()
    consumer.shutdown()  # all callbacks have run
    (stuck,) = told
    assert [message.body for message in stuck.messages] == [b"0", b"1"]
    assert "release.wait(HELD_S)" in stuck.stack


def test_the_stack_of_an_async_listener_goes_down_to_what_it_waits_for(rocketmq, producer, consumers):
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


def test_a_stuck_call_whose_send_back_fails_is_reported_once(rocketmq, producer, consumers):
    tried_ms: list[int] = []

    def is_noted(command: Command) -> bool:
        tried_ms.append(rocketmq.clock.now_ms())
        return len(tried_ms) <= 2

    rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None, when=is_noted)
    rocketmq.faults.fail(
        RequestCode.SEND_MESSAGE_V2,
        ResponseCode.MESSAGE_ILLEGAL,
        times=2,
        when=lambda command: command.ext_fields["b"].startswith("%RETRY%"),
    )
    listener, told = Stuck(), list[rmq.StuckListener]()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS, start=False)
    consumer.on_consume_timeout(told.append)
    consumer.start()
    send_all(producer, ["stuck"])
    rocketmq.wait_until(lambda: len(listener.seen) == 1)
    rocketmq.advance_until(lambda: _copies(rocketmq) == 1)
    assert len(tried_ms) == 3
    assert all(later - earlier >= 5_000 for earlier, later in itertools.pairwise(tried_ms))
    listener.release.set()
    consumer.shutdown()  # all callbacks have run
    assert len(told) == 1


def test_a_callback_that_fails_changes_nothing(rocketmq, producer, consumers):
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
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)
    listener.release.set()


def _raise() -> None:
    raise ValueError("too late")


@pytest.mark.parametrize(
    "late",
    [lambda: None, lambda: rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER, _raise],
    ids=["success", "again", "raises"],
)
def test_a_listener_that_ends_late_makes_no_second_copy_whatever_it_answers(rocketmq, producer, consumers, late):
    listener = Stuck(late)
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS)
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)
    listener.release.set()
    assert listener.ended.wait(20)
    rocketmq.advance_until(lambda: ("stuck", 1) in listener.seen)
    assert consumer._async._running is not None
    service: Any = consumer._async._running.service
    consumer.shutdown()  # everything under way has ended
    assert (dict(service._tracked), dict(getattr(service, "_running", {})), len(service._timeouts)) == ({}, {}, 0)
    assert _copies(rocketmq) == 1
    assert listener.seen.count(("stuck", 1)) == 1


def test_progress_passes_a_stuck_message_only_when_its_copy_is_stored(rocketmq, producer, consumers):
    slow = rocketmq.faults.delay(RequestCode.CONSUMER_SEND_MSG_BACK, 2_000)
    listener = Stuck()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS)
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: slow.hits == 1)
    assert (committed(rocketmq, consumer), _copies(rocketmq)) == (0, 0)
    rocketmq.advance(2_000)
    rocketmq.wait_until(lambda: _copies(rocketmq) == 1 and committed(rocketmq, consumer) == 2)
    listener.release.set()


@pytest.mark.parametrize("late", [lambda: None, _raise], ids=["success", "raises"])
def test_a_result_that_comes_while_a_send_back_fails_counts(rocketmq, producer, consumers, late):
    unanswered = rocketmq.faults.drop(RequestCode.CONSUMER_SEND_MSG_BACK)
    refused = rocketmq.faults.fail(
        RequestCode.SEND_MESSAGE_V2,
        ResponseCode.MESSAGE_ILLEGAL,
        when=lambda command: command.ext_fields["b"].startswith("%RETRY%"),
    )
    listener = Stuck(late)
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS)
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: unanswered.hits == 1)
    listener.release.set()
    assert listener.ended.wait(20)
    running = parts_of(consumer)
    rocketmq.wait_until(lambda: not running.service.running_since_ms())  # its result has come
    assert committed(rocketmq, consumer) == 0  # and waits
    rocketmq.faults.close_connection(RequestCode.UPDATE_CONSUMER_OFFSET)
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)
    assert refused.hits == 1
    assert _copies(rocketmq) == (late is _raise)


@pytest.mark.parametrize("with_hook", [False, True], ids=["", "with a hook"])
def test_of_a_call_that_was_found_running_and_ended_in_time_nothing_is_kept(rocketmq, producer, consumers, with_hook):
    class Hook:
        def before_consume(self, consumption: rmq.ConsumeMessageContext) -> None: ...

        def after_consume(self, consumption: rmq.ConsumeMessageContext) -> None: ...

    listener = Stuck()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS, start=False)
    if with_hook:
        consumer.add_hook(Hook())
    consumer.start()
    rocketmq.advance(10_000)
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    running = parts_of(consumer)
    service: Any = running.service
    rocketmq.advance(LIMIT_MS - 10_000)  # all running calls are looked at
    rocketmq.wait_until(lambda: len(service._tracked) == 1)
    listener.release.set()
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 2)
    assert (dict(service._tracked), dict(getattr(service, "_running", {})), len(service._timeouts)) == ({}, {}, 0)
    rocketmq.advance(LIMIT_MS)
    assert _copies(rocketmq) == 0


def test_broadcasting_gives_a_stuck_message_up_and_goes_on(rocketmq, producer, consumers, tmp_path):
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
    send_all(producer, ["stuck", "a"])
    rocketmq.wait_until(lambda: len(listener.seen) == 2)
    assert consumer.process_queues[QUEUE].commit_offset == 0
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].commit_offset == 2)
    rocketmq.wait_until(lambda: len(told) == 1)
    listener.release.set()
    assert listener.ended.wait(20)
    assert _copies(rocketmq) == 0


def test_a_queue_given_up_during_the_send_back_of_a_stuck_message_ends_quietly(rocketmq, producer, consumers, caplog):
    slow = rocketmq.faults.delay(RequestCode.CONSUMER_SEND_MSG_BACK, 2_000)
    listener = Stuck()
    consumer = consumers(listener, consume_timeout_ms=LIMIT_MS)
    send_all(producer, ["stuck"])
    rocketmq.wait_until(lambda: len(listener.seen) == 1)
    rocketmq.advance(LIMIT_MS)
    rocketmq.wait_until(lambda: slow.hits == 1)
    consumer.subscribe("weather")
    consumer.unsubscribe("flights")
    rocketmq.advance_until(
        lambda: "flights" not in {queue.topic for queue in consumer.process_queues}, step_ms=200, patience_ms=500
    )
    with caplog.at_level(logging.ERROR, "sprocketmq.client"):
        listener.release.set()
        assert listener.ended.wait(20)
        rocketmq.advance(2_000)
        rocketmq.wait_until(lambda: _copies(rocketmq) == 1)
        consumer.shutdown()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_stuck_orderly_call_is_reported_and_keeps_its_queue_in_order(rocketmq, producer, consumers, kind):
    release, seen, told = threading.Event(), list[str](), list[rmq.StuckListener]()

    def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        seen.append(messages[0].body.decode())
        if seen[-1] == "stuck":
            release.wait(HELD_S)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    async def in_order_async(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        seen.append(messages[0].body.decode())
        while seen[-1] == "stuck" and not release.is_set():
            await asyncio.sleep(0.005)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    send_all(producer, ["1", "stuck", "2"])
    listener = in_order if kind == "blocking" else in_order_async
    consumer = consumers(listener, kind="orderly", consume_timeout_ms=15_000, start=False)
    consumer.on_consume_timeout(told.append)
    consumer.start()
    rocketmq.advance_until(lambda: seen == ["1", "stuck"])
    rocketmq.advance_until(lambda: len(told) == 1)
    (stuck,) = told
    assert [message.body for message in stuck.messages] == [b"stuck"]
    assert stuck.running_ms >= 15_000
    assert listener.__name__ in stuck.stack.splitlines()[0]
    consumer.set_consume_timeout_ms(1_000)
    rocketmq.advance(10_000)
    assert (len(told), seen) == (1, ["1", "stuck"])
    assert consumer.statistics.timed_out_msgs("flights") == 1
    release.set()
    rocketmq.advance_until(lambda: seen == ["1", "stuck", "2"])
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 3)
    assert _copies(rocketmq) == 0

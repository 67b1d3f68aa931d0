# SPDX-License-Identifier: Apache-2.0
"""A network and brokers that misbehave under a consumer: connections cut in either half of a request, answers late, twice, out of order,
for somebody else, or in part. No message is lost, none comes twice for it, and an ordered queue stays in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from recorder import HELD_S, QUEUE, Recorder, committed, send_all

import sprocketmq as rmq
from sprocketmq.client.consume import pull_loop
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.client.results import PullResult
from sprocketmq.core.consume.pull_cursor import PullStatus
from sprocketmq.testing import PULLS, EmbeddedRocketMQ
from sprocketmq.testing.faults import Fault
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command

Strike = Callable[[EmbeddedRocketMQ, Any, int, Any], Fault]


# What strikes a request: on the way there, or on the way back.
STRIKES: dict[str, Strike] = {
    "cut before it is handled": lambda rmq_, code, times, when: rmq_.faults.close_connection(code, times, when=when),
    "cut before the answer": lambda rmq_, code, times, when: rmq_.faults.cut_answer(code, 0, times, when=when),
    "cut in the length": lambda rmq_, code, times, when: rmq_.faults.cut_answer(code, 3, times, when=when),
    "cut in the header": lambda rmq_, code, times, when: rmq_.faults.cut_answer(code, 40, times, when=when),
    "cut in the last byte": lambda rmq_, code, times, when: rmq_.faults.cut_answer(code, -1, times, when=when),
    "answered twice": lambda rmq_, code, times, when: rmq_.faults.repeat_answer(code, times, when=when),
    "answered for nobody first": lambda rmq_, code, times, when: rmq_.faults.mislabel_answer(code, times, when=when),
    "answered late and out of order": lambda rmq_, code, times, when: rmq_.faults.delay_answer(code, 700, times, when=when),
}  # fmt: skip


def _of_flights(command: Command) -> bool:
    return command.ext_fields.get("topic") == "flights"


@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
@pytest.mark.parametrize("strike", STRIKES)
def test_faults_in_pulls_lose_and_repeat_no_message(rocketmq, producer, consumers, strike, kind):
    rocketmq.create_topic("flights", queues=2)
    recorder = Recorder()

    def listen(messages: list[rmq.MessageExt], context: Any) -> Any:
        for message in messages:
            recorder(message)
        return (
            rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS if kind == "concurrent" else rmq.ConsumeOrderlyStatus.SUCCESS
        )

    fault = STRIKES[strike](rocketmq, PULLS, 5, _of_flights)
    consumer = consumers(listen, kind=kind, pull_batch_size=4)
    sent = [str(n) for n in range(40)]
    send_all(producer, sent)
    rocketmq.advance_until(lambda: len(recorder) >= 40 and fault.hits == 5, step_ms=500)
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 40)
    assert sorted(recorder.bodies, key=int) == sent
    if kind == "orderly":
        for queue_id in (0, 1):
            offsets = [message.queue_offset for message in recorder.messages if message.queue_id == queue_id]
            assert offsets == sorted(offsets)


ASKED_AT_START = [
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.HEART_BEAT,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.LOCK_BATCH_MQ,
]


@pytest.mark.parametrize("code", ASKED_AT_START, ids=lambda code: code.name)
@pytest.mark.parametrize(
    "strike", ["cut before it is handled", "cut in the header", "answered twice", "answered for nobody first"]
)
def test_requests_of_a_running_consumer_are_repeated_after_faults(rocketmq, producer, consumers, code, strike):
    rocketmq.create_topic("trains", queues=2)
    recorder = Recorder()

    def listen(messages: list[rmq.MessageExt], context: Any) -> Any:
        recorder(messages[0])
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumer = consumers(listen, kind="orderly")
    send_all(producer, ["0", "1"])
    send_all(producer, ["2", "3"], topic="trains")
    rocketmq.wait_until(lambda: len(recorder) == 2)
    fault = STRIKES[strike](rocketmq, code, 2, None)
    consumer.subscribe("trains")  # asks for everything anew
    rocketmq.advance_until(lambda: len(recorder) == 4 and fault.hits == 2)
    assert sorted(recorder.bodies) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("strike", STRIKES)
def test_after_a_fault_in_a_send_back_the_message_is_tried_again(rocketmq, producer, consumers, strike):
    recorder = Recorder(lambda message: None if message.reconsume_times else 1 / 0)
    fault = STRIKES[strike](rocketmq, RequestCode.CONSUMER_SEND_MSG_BACK, 1, None)
    consumer = consumers(recorder)
    send_all(producer, ["0"])
    # An answer that was lost leaves two copies (the broker's and the one sent in its place); else there is one.
    copies = 2 if strike.startswith("cut") and "handled" not in strike else 1
    rocketmq.advance_until(lambda: len(recorder) == 1 + copies)
    assert fault.hits == 1
    assert {message.message_id for message in recorder.messages} == {recorder.messages[0].message_id}
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 1)
    rocketmq.advance(60_000)
    assert len(rocketmq.messages("%RETRY%delays")) == copies


def test_a_pull_whose_answer_comes_after_its_time_is_out_is_pulled_again_once(
    rocketmq, producer, consumers, monkeypatch
):
    monkeypatch.setattr(RunningConsumer, "pull_timeout_ms", 200)
    send_all(producer, [str(n) for n in range(10)])
    late = rocketmq.faults.delay_answer(PULLS, 3_000, when=_of_flights)
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.wait_until(lambda: late.hits == 1)
    rocketmq.advance_until(
        lambda: len(recorder) == 10, step_ms=500
    )  # by the second pull, 1 s after the first was given up
    rocketmq.advance(5_000)  # the answer nobody waits for any more
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 10)
    assert recorder.bodies == [str(n) for n in range(10)]


@pytest.mark.parametrize(
    "body", [b"\x00\x00\x00\x07garbage", b"\xff" * 200], ids=["a short record", "no record at all"]
)
def test_a_pull_body_that_is_no_record_is_pulled_again(rocketmq, producer, consumers, body, monkeypatch):
    pull, left = pull_loop.pull_message, [2]

    async def broken(*args: Any, **how: Any) -> PullResult:
        result = await pull(*args, **how)
        if result.status is PullStatus.FOUND and left[0]:
            left[0] -= 1
            return PullResult(result.status, result.next_begin_offset, result.min_offset, result.max_offset, body=body)
        return result

    monkeypatch.setattr(pull_loop, "pull_message", broken)
    recorder = Recorder()
    consumer = consumers(recorder)
    send_all(producer, ["0", "1", "2"])
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 3)
    assert sorted(recorder.bodies) == ["0", "1", "2"]
    assert left == [0]


def test_a_bug_in_one_pull_costs_a_second_and_not_the_queue(rocketmq, producer, consumers, monkeypatch):
    pull, left = pull_loop.pull_message, [3]

    async def broken(*args: Any, **how: Any) -> PullResult:
        if left[0]:
            left[0] -= 1
            raise LookupError("a bug")
        return await pull(*args, **how)

    monkeypatch.setattr(pull_loop, "pull_message", broken)
    recorder = Recorder()
    consumers(recorder)
    send_all(producer, ["0"])
    assert rocketmq.advance_until(lambda: recorder.bodies == ["0"]) < 120_000, "a round took the queue up anew"


def test_a_consumer_that_does_not_keep_up_lets_the_broker_keep_the_messages(rocketmq, producer, consumers):
    release = threading.Event()
    recorder = Recorder(lambda message: release.wait(HELD_S) and None)
    consumer = consumers(
        recorder, pull_threshold_for_queue=20, pull_batch_size=8, consume_thread_count=2, await_termination_ms=20_000
    )
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(300)])
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count > 20)
    asked = rocketmq.faults.delay_answer(PULLS, 0, times=None, when=_of_flights)
    rocketmq.advance(
        5_000
    )  # a hundred looks, no pull: neither this process nor the socket holds what cannot be consumed
    assert asked.hits == 0
    assert consumer.process_queues[QUEUE].count <= 20 + 8
    release.set()
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 300)
    assert sorted(recorder.bodies, key=int) == [str(n) for n in range(300)]

# SPDX-License-Identifier: Apache-2.0
"""Progress of an orderly queue whose listener runs while it is given up, shut down, reset or looked at: nothing that ended comes again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from recorder import QUEUE, HeldInOrder, OrderlyRecorder, noted, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import ResetOffsetBody
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command

SUCCESS = rmq.ConsumeOrderlyStatus.SUCCESS
LAST = 20


@pytest.fixture
def long_call() -> Iterator[HeldInOrder]:
    """Its call for message ``LAST`` runs until ``release``."""
    call = HeldInOrder(b"%d" % LAST)
    yield call
    call.release.set()


def _stored(rocketmq: EmbeddedRocketMQ) -> int:
    """Progress at the broker."""
    return rocketmq.consumer_offset("delays", "flights").get(0, -1)


def _send(producer: rmq.Producer) -> None:
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(LAST + 5)])


def test_shutdown_under_a_running_listener_keeps_what_ended_before(rocketmq, producer, consumers, long_call):
    _send(producer)
    consumer = consumers(long_call, kind="orderly", await_termination_ms=50)
    assert long_call.running.wait(20)
    consumer.shutdown()
    assert _stored(rocketmq) == LAST


def test_a_queue_given_up_under_a_running_listener_keeps_what_ended_before(rocketmq, producer, consumers, long_call):
    _send(producer)
    consumer = consumers(long_call, kind="orderly", start=False)
    consumer.subscribe("weather")
    consumer.start()
    assert long_call.running.wait(20)
    consumer.unsubscribe("flights")  # dropped by the round that this begins
    rocketmq.advance_until(lambda: _stored(rocketmq) == LAST, limit_ms=60_000)
    for _ in range(6):
        rocketmq.advance(5_000)  # each tick of the periodic writing
    long_call.release.set()
    rocketmq.advance_until(lambda: rocketmq.broker.locks.owner("delays", QUEUE, rocketmq.clock.now_ms()) is None)
    assert _stored(rocketmq) == LAST


def test_progress_that_a_broker_did_not_take_is_written_while_the_listener_keeps_the_queue(
    rocketmq, producer, consumers, long_call
):
    with rocketmq.faults.fail(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, times=None):
        _send(producer)
        consumer = consumers(long_call, kind="orderly")
        assert long_call.running.wait(20)
        consumer.subscribe("weather")
        consumer.unsubscribe("flights")
        rocketmq.advance_until(lambda: QUEUE not in consumer.assigned_queues, limit_ms=60_000)
        consumer.persist_offsets()  # as each tick of the periodic writing
        assert _stored(rocketmq) == -1
    rocketmq.advance_until(lambda: _stored(rocketmq) == LAST, limit_ms=60_000)
    running = parts_of(consumer)
    assert QUEUE in running.rebalancer.held()
    long_call.release.set()
    rocketmq.advance_until(lambda: QUEUE not in running.rebalancer.held(), limit_ms=60_000)  # a later round asks again


@pytest.mark.parametrize("way", ["persist", "unsubscribe", "give up"])
def test_what_ended_is_recorded_before_each_writing(rocketmq, producer, consumers, way):
    first, second = HeldInOrder(b"5"), HeldInOrder(b"%d" % LAST)
    is_ours = threading.Event()
    is_ours.set()

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        return (first if int(messages[0].body) <= 5 else second)(messages, context)

    def strategy(
        group: str, client_id: str, queues: list[rmq.MessageQueue], client_ids: list[str]
    ) -> list[rmq.MessageQueue]:
        return list(queues) if is_ours.is_set() else []

    _send(producer)
    consumer = consumers(
        listener, kind="orderly", start=False, allocate_strategy=strategy, mq_client_api_timeout_ms=120_000
    )
    consumer.subscribe("weather")  # does not exist: a round begins each second
    consumer.start()
    try:
        assert first.running.wait(20)
        consumer.persist_offsets()
        rocketmq.wait_until(lambda: _stored(rocketmq) == 5)
        if way == "give up":  # by a round that waits for the broker while the calls go on
            held = rocketmq.faults.delay(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 1_000)
            rocketmq.advance_until(lambda: held.hits == 1, step_ms=500)  # shorter than the delay: it is held still
            is_ours.clear()  # not sooner: the round before, if it goes on yet, would give the queue up
        first.release.set()
        assert second.running.wait(20)
        if way == "persist":
            consumer.persist_offsets()
        elif way == "unsubscribe":
            consumer.unsubscribe("flights")
            rocketmq.advance_until(lambda: QUEUE not in consumer.assigned_queues, patience_ms=500)
        else:
            rocketmq.advance(1_000)
        # Without the clock: the next periodic writing would record it as well.
        rocketmq.wait_until(lambda: _stored(rocketmq) == LAST)
    finally:
        first.release.set()
        second.release.set()


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_a_pushed_reset_of_a_busy_queue_holds(producer, consumers, long_call, rocketmq, again):
    _send(producer)
    consumer = consumers(long_call, kind="orderly")
    assert long_call.running.wait(20)
    consumer.persist_offsets()
    for offset in (3, 7) if again else (7,):
        _push_reset(rocketmq, offset)
        rocketmq.wait_until(lambda offset=offset: _stored(rocketmq) == offset)
    for _ in range(5):
        rocketmq.advance(5_000)
    assert _stored(rocketmq) == 7
    seen_before = len(long_call.bodies)
    long_call.release.set()
    rocketmq.advance_until(lambda: _stored(rocketmq) == LAST + 5)
    assert long_call.bodies[seen_before:] == [str(n) for n in range(7, LAST + 5)]


def _push_reset(rocketmq: EmbeddedRocketMQ, offset: int) -> None:
    """As a 4.9 broker does it (code 220)."""
    body = ResetOffsetBody(offset_table={QUEUE: offset}).encode()
    fields = {"topic": "flights", "group": "delays", "timestamp": "0", "isForce": "true"}

    async def push() -> None:
        group = rocketmq.broker.consumers.get("delays")
        assert group is not None
        for connection in group.members:
            connection.start_invoke(
                Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext_fields=dict(fields), body=body)
            )

    rocketmq._engine.run(push())  # type: ignore[union-attr]


def _owner(rocketmq: EmbeddedRocketMQ) -> str | None:
    return rocketmq.broker.locks.owner("delays", QUEUE, rocketmq.clock.now_ms())


def _suspends(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
    """No call runs for most of the time, and messages are cached."""
    context.suspend_current_queue_time_ms = 30_000
    return rmq.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


def _given_up(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> int:
    """Leave the topic; when that was, on the broker's clock."""
    consumer.subscribe("weather")
    consumer.unsubscribe("flights")
    rocketmq.advance_until(lambda: QUEUE not in consumer.assigned_queues, step_ms=200, patience_ms=500)
    return rocketmq.clock.now_ms()


def test_a_queue_given_up_with_messages_cached_is_unlocked_20_s_later(rocketmq, producer, consumers):
    consumer = consumers(_suspends, kind="orderly")
    send_all(producer, ["0", "1"])
    rocketmq.wait_until(lambda: _cached(consumer) == 2)
    given_up_ms = _given_up(rocketmq, consumer)
    rocketmq.wait_until(lambda: QUEUE not in consumer._async._running.rebalancer.held())  # type: ignore[union-attr]
    while rocketmq.clock.now_ms() - given_up_ms < 19_000:
        rocketmq.advance(1_000)
        assert _owner(rocketmq) == consumer.client_id
    rocketmq.advance_until(lambda: _owner(rocketmq) is None, limit_ms=10_000)


def test_a_queue_given_up_with_nothing_cached_is_unlocked_at_once(rocketmq, producer, consumers):
    recorder = OrderlyRecorder()
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, ["0"])
    rocketmq.wait_until(lambda: recorder.bodies == ["0"] and _cached(consumer) == 0)
    _given_up(rocketmq, consumer)
    rocketmq.wait_until(lambda: _owner(rocketmq) is None)


def test_a_member_that_leaves_unlocks_at_once_the_queues_it_released_before(rocketmq, producer, consumers):
    consumer = consumers(_suspends, kind="orderly")
    send_all(producer, ["0", "1"])
    rocketmq.wait_until(lambda: _cached(consumer) == 2)
    _given_up(rocketmq, consumer)
    consumer.shutdown()
    rocketmq.wait_until(lambda: _owner(rocketmq) is None)


def test_a_queue_that_comes_back_keeps_its_lock(rocketmq, producer, consumers):
    consumer = consumers(_suspends, kind="orderly")
    send_all(producer, ["0", "1"])
    rocketmq.wait_until(lambda: _cached(consumer) == 2)
    given_up_ms = _given_up(rocketmq, consumer)
    rocketmq.wait_until(lambda: QUEUE not in consumer._async._running.rebalancer.held())  # type: ignore[union-attr]
    consumer.subscribe("flights")
    rocketmq.advance_until(lambda: QUEUE in consumer.assigned_queues, limit_ms=10_000, patience_ms=1_000)
    lock_codes = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
    asked = noted(rocketmq, lock_codes, lambda command: (command.code, rocketmq.clock.now_ms() - given_up_ms))
    # The owner alone does not tell: the first renewal takes back what an unlock of the same moment gave away.
    rocketmq.advance_until(lambda: any(at_ms > 20_000 for _, at_ms in asked), limit_ms=60_000)
    assert {code for code, _ in asked} == {RequestCode.LOCK_BATCH_MQ}
    assert _owner(rocketmq) == consumer.client_id


def _cached(consumer: rmq.PushConsumer) -> int:
    found = consumer.process_queues.get(QUEUE)
    return -1 if found is None else found.count

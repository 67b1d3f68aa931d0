# SPDX-License-Identifier: Apache-2.0
"""Orderly consumption end to end: order, suspension, commit and rollback, the lock, the retry limit."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from recorder import HELD_S, QUEUE, HeldInOrder, OrderlyRecorder, committed, noted, send_all

import sprocketmq as rmq
from sprocketmq.client.listen import orderly_service
from sprocketmq.core.statistics import Measure
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.bodies import OffsetSerializeWrapper
from sprocketmq.wire.codes import RequestCode, ResponseCode

Status = rmq.ConsumeOrderlyStatus


@pytest.mark.parametrize("batch_size", [1, 7])
def test_messages_of_a_queue_come_in_order_one_call_at_a_time(rocketmq, producer, consumers, batch_size):
    rocketmq.create_topic("flights", queues=3)
    keys = {key: [f"{key}-{n}" for n in range(60)] for key in ("N1", "N2", "N3", "N4")}
    recorder = OrderlyRecorder()
    consumer = consumers(recorder, kind="orderly", batch_size=batch_size)
    for n in range(60):
        for key, bodies in keys.items():
            producer.send(rmq.Message("flights", bodies[n].encode()), sharding_key=key)

    rocketmq.wait_until(lambda: len(recorder.seen) == 240)

    for key, bodies in keys.items():
        assert [body for body in recorder.bodies if body.startswith(f"{key}-")] == bodies
    assert set(recorder.most_at_once.values()) == {1}
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 240)


def test_while_a_listener_runs_its_queue_waits_and_the_others_go_on(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    recorder = HeldInOrder(b"a0")
    consumer = consumers(recorder, kind="orderly")
    producer.send(rmq.Message("flights", b"a0"), queue=QUEUE)
    assert recorder.running.wait(20)
    for n in range(3):
        producer.send(rmq.Message("flights", f"a{n + 1}".encode()), queue=QUEUE)
        producer.send(rmq.Message("flights", f"b{n}".encode()), queue=rmq.MessageQueue("flights", "broker-a", 1))
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 4 and "b2" in recorder.bodies)
    assert recorder.bodies == ["a0", "b0", "b1", "b2"]
    recorder.release.set()
    rocketmq.wait_until(lambda: len(recorder.seen) == 7)
    assert recorder.bodies[4:] == ["a1", "a2", "a3"]


@pytest.mark.parametrize("failure", ["suspend", "raise", "None", "nonsense"])
def test_a_failed_message_blocks_its_queue_and_comes_again_after_the_pause(rocketmq, producer, consumers, failure):

    called_ms: list[int] = []

    def answer(message: rmq.MessageExt, context: rmq.ConsumeOrderlyContext) -> Any:
        if message.body == b"2":
            called_ms.append(rocketmq.clock.now_ms())
        if message.body == b"2" and message.reconsume_times < 2:
            if failure == "raise":
                raise ValueError("not yet")
            return {"suspend": Status.SUSPEND_CURRENT_QUEUE_A_MOMENT, "None": None, "nonsense": 42}[failure]
        return Status.SUCCESS

    recorder = OrderlyRecorder(answer)
    consumer = consumers(
        recorder, kind="orderly", suspend_current_queue_time_ms=2_000
    )  # longer than without the option
    send_all(producer, ["0", "1", "2", "3", "4"])
    rocketmq.wait_until(lambda: len(recorder.seen) == 3)
    assert committed(rocketmq, consumer) <= 2
    rocketmq.advance_until(lambda: len(recorder.seen) == 7, step_ms=500)
    assert all(later - earlier >= 2_000 for earlier, later in itertools.pairwise(called_ms))
    assert recorder.seen == [("0", 0), ("1", 0), ("2", 0), ("2", 1), ("2", 2), ("3", 0), ("4", 0)]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 5)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []


def test_a_message_over_the_retry_limit_is_dead_lettered_once_and_the_queue_goes_on(rocketmq, producer, consumers):

    def answer(message: rmq.MessageExt, context: rmq.ConsumeOrderlyContext) -> Any:
        return Status.SUSPEND_CURRENT_QUEUE_A_MOMENT if message.body == b"bad" else Status.SUCCESS

    recorder = OrderlyRecorder(answer)
    consumer = consumers(recorder, kind="orderly", max_reconsume_times=2, suspend_current_queue_time_ms=100)
    results = send_all(producer, ["0", "bad", "1"])
    rocketmq.advance_until(lambda: "1" in recorder.bodies, step_ms=100)
    assert recorder.bodies == ["0", "bad", "bad", "bad", "1"]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 3)
    (dead,) = rocketmq.messages("%DLQ%delays")
    assert (dead.body, dead.message_id) == (b"bad", results[1].message_id)


def test_without_auto_commit_progress_waits_for_commit_and_rollback_gives_all_again(rocketmq, producer, consumers):
    rolled_back = threading.Event()

    def answer(message: rmq.MessageExt, context: rmq.ConsumeOrderlyContext) -> Any:
        context.auto_commit = False
        if message.body == b"3" and not rolled_back.is_set():
            rolled_back.set()
            return Status.ROLLBACK
        return Status.COMMIT if message.body == b"4" else Status.SUCCESS

    recorder = OrderlyRecorder(answer)
    consumer = consumers(recorder, kind="orderly", suspend_current_queue_time_ms=100)
    send_all(producer, ["0", "1", "2", "3", "4", "5"])
    rocketmq.wait_until(lambda: rolled_back.is_set() and len(recorder.seen) == 4)
    assert committed(rocketmq, consumer) == 0
    rocketmq.advance_until(lambda: len(recorder.seen) == 10, step_ms=100)
    assert recorder.bodies == ["0", "1", "2", "3", "0", "1", "2", "3", "4", "5"]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 5)


def test_a_queue_locked_by_another_member_is_not_consumed_until_it_is_free(rocketmq, producer, consumers):
    now_ms = rocketmq.clock.now_ms()
    rocketmq.broker.locks.try_lock("delays", QUEUE, "somebody@else", now_ms)
    recorder = OrderlyRecorder()
    consumers(recorder, kind="orderly")
    send_all(producer, ["0", "1"])
    rocketmq.advance(50_000)
    assert recorder.seen == []
    rocketmq.advance_until(lambda: len(recorder.seen) == 2)  # the other one never renews: 60 s


def test_a_lost_lock_stops_consumption_in_the_middle(rocketmq, producer, consumers):
    recorder = OrderlyRecorder()
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, ["0"])
    rocketmq.wait_until(lambda: len(recorder.seen) == 1)
    # The broker gives the lock to somebody else (as after a long pause of ours); the next renewal finds out.
    rocketmq.broker.locks.unlock("delays", QUEUE, consumer.client_id)
    assert rocketmq.broker.locks.try_lock("delays", QUEUE, "somebody@else", rocketmq.clock.now_ms())
    rocketmq.advance_until(lambda: not consumer.process_queues[QUEUE].locked)
    pulls = noted(rocketmq, RequestCode.PULL_MESSAGE, topic="flights")
    send_all(producer, ["1"])  # ends the pull that the broker holds
    for _ in range(10):
        rocketmq.advance(500)
        assert not rocketmq._holds_within(lambda: pulls, 20)
    assert recorder.bodies == ["0"]
    rocketmq.broker.locks.unlock("delays", QUEUE, "somebody@else")
    rocketmq.advance_until(lambda: recorder.bodies == ["0", "1"])


def test_a_turn_without_its_lock_asks_for_it_each_3_s_and_begins_anew_when_it_is_granted(rocketmq, producer, consumers):
    go_on = threading.Event()
    recorder = OrderlyRecorder(
        lambda message, context: Status.SUCCESS if go_on.is_set() else Status.SUSPEND_CURRENT_QUEUE_A_MOMENT
    )
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, ["0", "1"])
    rocketmq.wait_until(lambda: recorder.seen and consumer.process_queues[QUEUE].count == 2)
    _give_the_lock_to_somebody(rocketmq, consumer)  # found out by a renewal: the next one is 20 s away
    go_on.set()
    began_ms, tries = rocketmq.clock.now_ms(), recorder.bodies
    asked_ms = noted(rocketmq, RequestCode.LOCK_BATCH_MQ, lambda command: rocketmq.clock.now_ms() - began_ms)
    rocketmq.advance_until(lambda: len(asked_ms) == 3, step_ms=200, limit_ms=15_000)
    assert all(later - earlier >= 3_000 for earlier, later in itertools.pairwise(asked_ms))
    assert recorder.bodies == tries
    rocketmq.broker.locks.unlock("delays", QUEUE, "somebody@else")
    rocketmq.advance_until(lambda: recorder.bodies == [*tries, "0", "1"], step_ms=200, limit_ms=9_000)


def _give_the_lock_to_somebody(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> None:
    locks = rocketmq.broker.locks
    locks.unlock("delays", QUEUE, consumer.client_id)
    assert locks.try_lock("delays", QUEUE, "somebody@else", rocketmq.clock.now_ms())
    rocketmq.advance_until(lambda: not consumer.process_queues[QUEUE].locked)


def test_a_lock_that_comes_back_begins_where_the_other_member_ended_and_never_sets_it_back(
    rocketmq, producer, consumers
):
    go_on = threading.Event()
    recorder = OrderlyRecorder(
        lambda message, context: (
            Status.SUCCESS if message.body < b"2" or go_on.is_set() else Status.SUSPEND_CURRENT_QUEUE_A_MOMENT
        )
    )
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, [str(n) for n in range(6)])
    rocketmq.advance_until(lambda: "2" in recorder.bodies and committed(rocketmq, consumer) == 2)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 4)
    _give_the_lock_to_somebody(rocketmq, consumer)
    rocketmq.broker.offsets.commit("delays", "flights", 0, 5)  # the other one has consumed 2, 3 and 4
    rocketmq.advance(12_000)
    assert committed(rocketmq, consumer) == 5
    seen_before = len(recorder.seen)
    go_on.set()
    rocketmq.broker.locks.unlock("delays", QUEUE, "somebody@else")
    rocketmq.advance_until(lambda: "5" in recorder.bodies)
    assert recorder.seen[seen_before:] == [("5", 0)]
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 6)


def test_a_clock_that_is_set_back_again_and_again_does_not_keep_a_lock_that_is_not_renewed(
    rocketmq, producer, consumers
):
    recorder = OrderlyRecorder()
    consumers(recorder, kind="orderly")
    send_all(producer, ["0"])
    rocketmq.advance_until(lambda: recorder.bodies == ["0"])
    rocketmq.faults.drop(RequestCode.LOCK_BATCH_MQ, times=None)
    for _ in range(3):
        rocketmq.advance(25_000)
        rocketmq.clock.jump(-24_000)
    locks = rocketmq.broker.locks
    assert locks.try_lock("delays", QUEUE, "somebody@else", rocketmq.clock.steady_ms())
    send_all(producer, ["1"])
    rocketmq.advance(3_000)
    assert recorder.bodies == ["0"]


@pytest.mark.parametrize("most_cached", [1_000, 1], ids=["the broker holds a pull", "the cache is full"])
def test_what_is_cached_is_consumed_as_soon_as_the_lock_comes_back(rocketmq, producer, consumers, most_cached):
    """Although its pull loop has to look first where another member ended."""
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(6)])
    held = rocketmq.faults.drop(
        RequestCode.PULL_MESSAGE,
        times=None,
        when=lambda command: command.ext_fields["topic"] == "flights" and command.ext_fields["queueOffset"] == "6",
    )
    go_on = threading.Event()
    recorder = OrderlyRecorder(
        lambda message, context: Status.SUCCESS if go_on.is_set() else Status.SUSPEND_CURRENT_QUEUE_A_MOMENT
    )
    consumer = consumers(recorder, kind="orderly", pull_threshold_for_queue=most_cached)
    rocketmq.wait_until(lambda: recorder.seen and consumer.process_queues[QUEUE].count == 6)
    if most_cached > 6:
        rocketmq.wait_until(lambda: held.hits == 1)
    _give_the_lock_to_somebody(rocketmq, consumer)
    go_on.set()
    tries = recorder.bodies
    rocketmq.broker.locks.unlock("delays", QUEUE, "somebody@else")
    # After 120 s a round would take a queue without a pull up anew.
    rocketmq.advance_until(lambda: recorder.bodies == [*tries, *map(str, range(6))], limit_ms=60_000, patience_ms=100)
    assert recorder.seen[len(tries)][1] >= 1, "the same delivery: its tries are not forgotten"
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 6)


def test_progress_from_before_a_lock_was_lost_is_not_written_after_it_came_back_either(rocketmq, producer, consumers):
    recorder = OrderlyRecorder(
        lambda message, context: Status.SUCCESS if message.body < b"2" else Status.SUSPEND_CURRENT_QUEUE_A_MOMENT
    )
    consumer = consumers(recorder, kind="orderly", persist_consumer_offset_interval_ms=600_000)
    send_all(producer, [str(n) for n in range(6)])
    rocketmq.advance_until(lambda: "2" in recorder.bodies and committed(rocketmq, consumer) == 2)
    _give_the_lock_to_somebody(rocketmq, consumer)
    rocketmq.broker.offsets.commit("delays", "flights", 0, 5)  # the other one has consumed 2, 3 and 4
    rocketmq.broker.locks.unlock("delays", QUEUE, "somebody@else")
    rocketmq.advance_until(lambda: "5" in recorder.bodies)
    rocketmq.advance(3_000)
    assert committed(rocketmq, consumer) == 5


def test_progress_is_not_written_when_a_queue_is_given_up_that_another_member_has_locked(rocketmq, producer, consumers):
    recorder = OrderlyRecorder()
    consumer = consumers(recorder, kind="orderly", persist_consumer_offset_interval_ms=600_000)
    rocketmq.advance(10_000)  # the first time for all intervals
    send_all(producer, ["0", "1"])
    rocketmq.wait_until(lambda: len(recorder.seen) == 2)
    _give_the_lock_to_somebody(rocketmq, consumer)
    rocketmq.broker.offsets.commit("delays", "flights", 0, 5)
    consumer.unsubscribe("flights")
    consumer.subscribe("weather")
    rocketmq.advance_until(lambda: QUEUE not in consumer.process_queues)
    rocketmq.wait_until(lambda: QUEUE not in consumer._async._running.rebalancer.held())  # type: ignore[union-attr]
    assert rocketmq.consumer_offset("delays", "flights") == {0: 5}


def test_a_call_that_runs_while_the_lock_is_lost_and_comes_back_does_not_set_progress_back(
    rocketmq, producer, consumers
):
    recorder = HeldInOrder(b"1")
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, [str(n) for n in range(6)])
    assert recorder.running.wait(20)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count >= 5)
    consumer.pause()  # no pull finds out that the other one went past us
    _give_the_lock_to_somebody(rocketmq, consumer)
    rocketmq.broker.offsets.commit("delays", "flights", 0, 5)
    rocketmq.broker.locks.unlock("delays", QUEUE, "somebody@else")
    rocketmq.advance_until(lambda: consumer.process_queues[QUEUE].locked)
    recorder.release.set()
    rocketmq.wait_until(lambda: not consumer.process_queues[QUEUE].consuming)
    assert committed(rocketmq, consumer) == 5
    consumer.resume()
    rocketmq.advance_until(lambda: "5" in recorder.bodies)
    assert recorder.bodies == ["0", "1", "5"]


def test_a_queue_given_up_under_a_long_listener_stays_locked_until_it_ends(rocketmq, producer, consumers):
    recorder = HeldInOrder()
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, ["0"])
    assert recorder.running.wait(20)
    consumer.unsubscribe("flights")
    consumer.subscribe("weather")
    rocketmq.advance_until(lambda: QUEUE not in consumer.process_queues, patience_ms=200)
    given_up_ms = rocketmq.clock.now_ms()
    rocketmq.advance_until(lambda: rocketmq.clock.now_ms() - given_up_ms > 90_000, step_ms=5_000)
    assert rocketmq.broker.locks.owner("delays", QUEUE, rocketmq.clock.now_ms()) == consumer.client_id
    recorder.release.set()
    rocketmq.advance_until(lambda: rocketmq.broker.locks.owner("delays", QUEUE, rocketmq.clock.now_ms()) is None)


@pytest.mark.parametrize("ends_by", ["drop", "lost lock"])
def test_no_call_of_a_portion_begins_after_a_drop_or_without_the_lock(
    rocketmq, producer, consumers, monkeypatch, ends_by
):
    monkeypatch.setattr(orderly_service, "_PORTION_S", 60.0)  # else a long call ends its portion, whatever else happens
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(20)])
    recorder = HeldInOrder()
    consumer = consumers(recorder, kind="orderly")
    assert recorder.running.wait(20)
    if ends_by == "drop":
        consumer.unsubscribe("flights")
        consumer.subscribe("weather")
        rocketmq.advance_until(lambda: QUEUE not in consumer.process_queues, patience_ms=200)
        recorder.release.set()
        rocketmq.advance_until(lambda: rocketmq.broker.locks.owner("delays", QUEUE, rocketmq.clock.now_ms()) is None)
    else:
        _give_the_lock_to_somebody(rocketmq, consumer)
        recorder.release.set()
        rocketmq.wait_until(lambda: not consumer.process_queues[QUEUE].consuming)
    assert recorder.bodies == ["0"]


def test_a_turn_ends_after_60_s_and_a_new_one_continues(rocketmq, producer, consumers, monkeypatch, tmp_path):
    monkeypatch.setattr(orderly_service, "_PORTION_BATCHES", 1)  # the turn looks at the time after each call
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(3)])
    recorder = HeldInOrder()
    consumer = consumers(  # without a lock, which would have to be renewed meanwhile
        recorder, kind="orderly", message_model=rmq.MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path)
    )
    assert recorder.running.wait(20)
    rocketmq.advance(60_001)
    recorder.release.set()
    rocketmq.wait_until(lambda: not consumer.process_queues[QUEUE].consuming)
    assert recorder.bodies == ["0"]
    rocketmq.advance_until(lambda: recorder.bodies == ["0", "1", "2"], step_ms=10, limit_ms=1_000)


def test_with_auto_commit_commit_and_rollback_count_as_success_with_one_warning_each(
    rocketmq, producer, consumers, caplog
):
    recorder = OrderlyRecorder(lambda message, context: Status.ROLLBACK if message.body < b"2" else Status.COMMIT)
    consumer = consumers(recorder, kind="orderly")
    send_all(producer, ["0", "1", "2", "3"])
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 4)
    assert recorder.seen == [("0", 0), ("1", 0), ("2", 0), ("3", 0)]
    said = [record.getMessage() for record in caplog.records if "counts as SUCCESS" in record.getMessage()]
    assert [next(name for name in ("ROLLBACK", "COMMIT") if f"returned {name}" in line) for line in said] == [
        "ROLLBACK",
        "COMMIT",
    ]
    assert consumer.statistics.since_start("flights", Measure.CONSUME_OK_TPS) == (4, 4)
    assert consumer.statistics.since_start("flights", Measure.CONSUME_FAILED_TPS) == (0, 0)


def test_a_message_that_suspends_its_queue_counts_as_failed(rocketmq, producer, consumers):
    def listen(message: rmq.MessageExt, context: rmq.ConsumeOrderlyContext) -> Status:
        is_bad = message.body == b"1" and not message.reconsume_times
        return Status.SUSPEND_CURRENT_QUEUE_A_MOMENT if is_bad else Status.SUCCESS

    consumer = consumers(OrderlyRecorder(listen), kind="orderly")
    send_all(producer, ["0", "1", "2"])
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 3)
    assert consumer.statistics.since_start("flights", Measure.CONSUME_OK_TPS) == (3, 3)
    assert consumer.statistics.since_start("flights", Measure.CONSUME_FAILED_TPS) == (1, 1)


def test_a_shutdown_finds_a_worker_that_calls_no_listener_yet(producer, consumers, monkeypatch, caplog):
    is_there, go_on = threading.Event(), threading.Event()

    def may_begin(*args: object) -> bool:
        is_there.set()
        go_on.wait(HELD_S)
        return False

    monkeypatch.setattr(orderly_service.OrderlyService, "_may_begin", may_begin)
    consumer = consumers(OrderlyRecorder(), kind="orderly", await_termination_ms=0)
    send_all(producer, ["0"])
    assert is_there.wait(HELD_S)
    consumer.shutdown()
    go_on.set()
    assert caplog.messages[-1].endswith("what it was cut off from is delivered again: ")


@pytest.mark.parametrize("fails_by", ["refusal", "exception"])
def test_a_dead_letter_that_cannot_be_stored_blocks_its_queue(rocketmq, producer, consumers, monkeypatch, fails_by):

    def answer(message: rmq.MessageExt, context: rmq.ConsumeOrderlyContext) -> Any:
        return Status.SUSPEND_CURRENT_QUEUE_A_MOMENT if message.body == b"bad" else Status.SUCCESS

    recorder = OrderlyRecorder(answer)
    if fails_by == "refusal":
        refused = rocketmq.faults.fail(
            SENDS,
            ResponseCode.NO_PERMISSION,
            times=None,
            when=lambda command: command.ext_fields["b"] == "%RETRY%delays",
        )
    else:

        async def fail(send_back: object, message: rmq.MessageExt, reason: str) -> bool:
            raise ValueError("a bug")

        monkeypatch.setattr("sprocketmq.client.consume.send_back.SendBack.dead_letter_orderly", fail)
    consumer = consumers(recorder, kind="orderly", max_reconsume_times=0, suspend_current_queue_time_ms=100)
    send_all(producer, ["0", "bad", "1"])
    rocketmq.advance_until(lambda: recorder.bodies.count("bad") == 3, step_ms=100)
    assert committed(rocketmq, consumer) == 1
    if fails_by == "refusal":
        refused.remove()
    else:
        monkeypatch.undo()
    rocketmq.advance_until(lambda: "1" in recorder.bodies, step_ms=100)
    assert len(rocketmq.messages("%DLQ%delays")) == 1


def test_an_error_answer_to_one_renewal_does_not_end_the_lock(rocketmq, producer, consumers):
    recorder = OrderlyRecorder()
    consumer = consumers(recorder, kind="orderly")
    rocketmq.advance(1_000)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].last_lock_ms == rocketmq.clock.now_ms())
    fault = rocketmq.faults.fail(RequestCode.LOCK_BATCH_MQ, ResponseCode.SYSTEM_ERROR, times=None)
    rocketmq.advance_until(lambda: fault.hits == 1)
    send_all(producer, ["0"])
    rocketmq.wait_until(lambda: recorder.bodies == ["0"])  # the clock stands still: nothing is asked again


def test_a_lock_counts_from_when_it_was_asked_for(rocketmq, consumers):
    consumer = consumers(OrderlyRecorder(), kind="orderly")
    granted_ms = consumer.process_queues[QUEUE].last_lock_ms
    fault = rocketmq.faults.delay_answer(RequestCode.LOCK_BATCH_MQ, 5_000)
    rocketmq.advance_until(lambda: fault.hits == 1)
    asked_ms = rocketmq.clock.now_ms()
    rocketmq.advance_until(lambda: consumer.process_queues[QUEUE].last_lock_ms != granted_ms)
    assert consumer.process_queues[QUEUE].last_lock_ms <= asked_ms < rocketmq.clock.now_ms()


def _is_locked(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer) -> bool:
    """Renewed so lately that the client still trusts it."""
    found = consumer.process_queues[QUEUE]
    return found.locked and rocketmq.clock.now_ms() - found.last_lock_ms <= 30_000


def test_locks_are_renewed_while_the_consumer_lives(rocketmq, producer, consumers):
    recorder = OrderlyRecorder()
    consumer = consumers(recorder, kind="orderly")
    granted_ms = consumer.process_queues[QUEUE].last_lock_ms
    rocketmq.advance(1_000)
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].last_lock_ms == granted_ms + 1_000)
    for _ in range(20):
        rocketmq.advance(10_000)
        rocketmq.wait_until(lambda: _is_locked(rocketmq, consumer))
        assert rocketmq.broker.locks.owner("delays", QUEUE, rocketmq.clock.now_ms()) == consumer.client_id


def test_shutdown_gives_the_locks_back_so_that_the_next_member_goes_on_at_once(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    first, second = OrderlyRecorder(), OrderlyRecorder()
    one = consumers(first, kind="orderly")
    send_all(producer, [str(n) for n in range(10)])
    rocketmq.wait_until(lambda: len(first.seen) == 10)
    one.shutdown()
    rocketmq.wait_until(lambda: not rocketmq.broker.locks.holds_any("delays", rocketmq.clock.now_ms()))
    consumers(second, kind="orderly")
    send_all(producer, [str(n) for n in range(10, 20)])
    rocketmq.wait_until(lambda: len(second.seen) == 10)
    assert sorted(second.bodies) == [str(n) for n in range(10, 20)]


def test_a_round_that_waits_while_its_consumer_leaves_locks_nothing_any_more(rocketmq):
    locks = noted(rocketmq, RequestCode.LOCK_BATCH_MQ, lambda command: bytes(command.body))

    async def main() -> None:
        consumer = rocketmq.async_push_consumer("delays")
        consumer.subscribe("weather")
        consumer.orderly_listener(lambda messages, context: rmq.ConsumeOrderlyStatus.SUCCESS)
        await consumer.start()
        running = consumer._running
        assert running is not None
        gate = running.rebalancer._gate
        async with gate:  # as a round that waits for a broker
            await asyncio.to_thread(rocketmq.create_topic, "weather", 2)
            waiting = asyncio.ensure_future(running.rebalance())
            await asyncio.sleep(0)
            assert gate._waiters is not None
            rounds = len(gate._waiters)
            leaving = asyncio.ensure_future(consumer.shutdown())
            while not running.stopping or len(gate._waiters) == rounds:
                await asyncio.sleep(0.001)
        await asyncio.gather(waiting, leaving)

    asyncio.run(main())
    assert not any(b'"weather"' in lock for lock in locks)


def test_orderly_broadcasting_needs_no_lock(rocketmq, producer, consumers, tmp_path):
    recorder = OrderlyRecorder()
    consumer = consumers(
        recorder, kind="orderly", message_model=rmq.MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path)
    )
    send_all(producer, ["0", "1", "2"])
    rocketmq.wait_until(lambda: recorder.bodies == ["0", "1", "2"])
    rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].count == 0)
    consumer.persist_offsets()
    (file,) = tmp_path.rglob("offsets.json")
    assert OffsetSerializeWrapper.decode(file.read_bytes()).offset_table[QUEUE] == 3
    assert not rocketmq.broker.locks.holds_any("delays", rocketmq.clock.now_ms())


REGISTRATIONS: dict[str, tuple[bool, Callable[[Any], object]]] = {
    "on_message": (False, lambda consumer: consumer.on_message(lambda message: None)),
    "concurrent": (False, lambda consumer: consumer.concurrent_listener(lambda messages, context: None)),
    "orderly": (True, lambda consumer: consumer.orderly_listener(lambda messages, context: Status.SUCCESS)),
    "messages": (False, lambda consumer: consumer.messages()),
    "messages in order": (True, lambda consumer: consumer.messages(orderly=True)),
}


@pytest.mark.parametrize("registration", REGISTRATIONS)
@pytest.mark.parametrize("face", [rmq.PushConsumer, rmq.AsyncPushConsumer], ids=["blocking", "async"])
def test_the_kind_of_the_listener_decides_whether_queues_are_locked_and_consumed_in_order(rocketmq, face, registration):
    is_orderly, register = REGISTRATIONS[registration]
    locks = noted(rocketmq, RequestCode.LOCK_BATCH_MQ)

    async def use_async() -> bool:
        async with made:
            return bool(made._running.service.orderly)

    made = face("delays", namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock)
    made.subscribe("flights")
    register(made)
    if face is rmq.AsyncPushConsumer:
        orderly = asyncio.run(use_async())
    else:
        with made:
            orderly = made._async._running.service.orderly
    assert (orderly, bool(locks)) == (is_orderly, is_orderly)

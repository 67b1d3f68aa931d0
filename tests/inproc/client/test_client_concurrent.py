# SPDX-License-Identifier: Apache-2.0
"""Concurrent consumption end to end: success, every kind of failure, send-back and its ways out, stuck listeners, flow control."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from recorder import HELD_S, QUEUE, Held, Recorder, by_kind, committed, noted, parts_of, send_all, waits_ms

import sprocketmq as rmq
from sprocketmq.client.listen import thread_listener_pool
from sprocketmq.core.produce.route_table import RouteTable
from sprocketmq.core.statistics import Measure
from sprocketmq.testing import PULLS, SENDS
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command

SUCCESS = rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS
LATER = rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER


def _fail(message: rmq.MessageExt) -> None:
    raise ValueError("cannot read this")


def test_every_message_is_consumed_once_and_progress_follows(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=4)
    results = send_all(producer, [str(n) for n in range(50)])  # wait already
    recorder = Recorder()
    consumer = consumers(recorder)
    # Not later: a start that returned has told the brokers, and shared out the queues (with that of the retry topic).
    assert len(consumer.assigned_queues) == 5
    results += send_all(producer, [str(n) for n in range(50, 100)])
    rocketmq.wait_until(lambda: len(recorder) == 100)

    assert sorted(recorder.bodies, key=int) == [str(n) for n in range(100)]
    assert {message.message_id for message in recorder.messages} == {result.message_id for result in results}
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 100)


def test_tags_are_filtered_exactly_and_progress_passes_the_others(rocketmq, producer, consumers):
    recorder = Recorder()
    consumer = consumers(recorder, expression="Aa || DL")
    # "Aa" and "BB" have the same hash: the broker lets "BB" through, the client must not.
    for tag in ("Aa", "BB", "UA", "DL", "BB"):
        producer.send(rmq.Message("flights", tag.encode(), tags=tag))
    rocketmq.wait_until(lambda: len(recorder) == 2)
    assert recorder.bodies == ["Aa", "DL"]
    # The filtered tail is passed when a pull that finds nothing new comes back.
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 5, step_ms=5_000)


def _is_for_retry_topic(command: Command) -> bool:
    return "%RETRY%delays" in command.ext_fields.values()


@pytest.mark.parametrize("kind", ["raises", "returns later"])
def test_a_failed_message_comes_back_after_10_s_and_30_s_with_the_same_id(rocketmq, producer, consumers, kind):
    seen: list[rmq.MessageExt] = []

    def listener(messages: list[rmq.MessageExt], context: Any) -> Any:
        seen.extend(messages)
        if messages[0].reconsume_times == 2:
            return SUCCESS
        return LATER if kind == "returns later" else _fail(messages[0])

    consumer = consumers(listener, kind="concurrent")
    result = producer.send(rmq.Message("flights", b"x", keys="k"))
    # The broker makes the copy out of what it stores; the client's own copies are for when that cannot be.
    own_copies = rocketmq.faults.drop(SENDS, times=None, when=_is_for_retry_topic)

    rocketmq.advance_until(lambda: len(seen) == 3)
    assert waits_ms(rocketmq) == [10_000, 30_000]
    assert [message.reconsume_times for message in seen] == [0, 1, 2]
    assert {message.message_id for message in seen} == {result.message_id}
    assert {message.topic for message in seen} == {"flights"}  # the retry topic does not show
    assert {tuple(message.keys) for message in seen} == {("k",)}
    assert committed(rocketmq, consumer) == 1
    rocketmq.wait_until(lambda: committed(rocketmq, consumer, "%RETRY%delays") == 2)
    assert own_copies.hits == 0


def test_a_message_that_never_succeeds_ends_in_the_dead_letter_topic(rocketmq, producer, consumers):
    recorder = Recorder(_fail)
    consumers(recorder, max_reconsume_times=2)
    result = producer.send(rmq.Message("flights", b"x"))

    rocketmq.advance_until(lambda: rocketmq.messages("%DLQ%delays"))

    (dead,) = rocketmq.messages("%DLQ%delays")
    assert recorder.times == [0, 1, 2]
    assert (dead.message_id, dead.properties["RETRY_TOPIC"]) == (result.message_id, "flights")
    rocketmq.advance(600_000)
    assert len(recorder) == 3


def test_a_listener_may_choose_the_delay_or_the_dead_letter_topic(rocketmq, producer, consumers):
    seen: list[int] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> Any:
        seen.append(messages[0].reconsume_times)
        context.delay_level_when_next_consume = 1 if messages[0].reconsume_times == 0 else -1
        return LATER

    consumers(listener, kind="concurrent")
    producer.send(rmq.Message("flights", b"x"))
    rocketmq.advance_until(lambda: len(seen) == 2)
    assert waits_ms(rocketmq) == [1_000]
    rocketmq.wait_until(lambda: len(rocketmq.messages("%DLQ%delays")) == 1)


def test_ack_index_splits_a_batch_into_done_and_again(rocketmq, producer, consumers):
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(6)])
    calls: list[list[str]] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> Any:
        calls.append([message.body.decode() for message in messages])
        if messages[0].reconsume_times == 0:
            context.ack_index = 3
        return SUCCESS

    consumer = consumers(listener, kind="concurrent", batch_size=6)
    rocketmq.advance_until(lambda: len(calls) >= 2 and sum(map(len, calls)) == 8)
    assert calls[0] == ["0", "1", "2", "3", "4", "5"]
    assert sorted(body for call in calls[1:] for body in call) == ["4", "5"]
    assert committed(rocketmq, consumer) == 6


def test_what_a_pull_brought_is_divided_into_batches_and_the_last_has_the_rest(rocketmq, producer, consumers):
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(15)])
    calls: list[list[str]] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> Any:
        calls.append([message.body.decode() for message in messages])
        return SUCCESS

    consumer = consumers(listener, kind="concurrent", batch_size=6, consume_thread_count=1)
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 15)
    assert calls == [[str(n) for n in part] for part in (range(6), range(6, 12), range(12, 15))]


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("how", ["raises", "is cancelled", "returns later"])
def test_after_reconsume_later_every_message_of_a_batch_comes_again_whatever_ack_index_is(
    rocketmq, producer, consumers, kind, how
):
    producer.send_batch([rmq.Message("flights", str(n).encode()) for n in range(4)])
    again: list[str] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> Any:
        context.ack_index = 1
        if messages[0].reconsume_times == 0:
            if how == "is cancelled":
                raise asyncio.CancelledError
            return _fail(messages[0]) if how == "raises" else LATER
        again.extend(message.body.decode() for message in messages)
        context.ack_index = len(messages) - 1
        return SUCCESS

    consumer = consumers(by_kind(kind, listener), kind="concurrent", batch_size=4)
    rocketmq.advance_until(lambda: len(again) == 4)
    assert sorted(again) == ["0", "1", "2", "3"]
    assert committed(rocketmq, consumer) == 4


@pytest.mark.parametrize("route", ["known", "forgotten"])
def test_a_failed_message_is_sent_back_to_the_broker_that_stores_it(
    rocketmq, admin, second_broker, producer, consumers, route
):
    admin.create_topic("flights", queues=1)
    asked = noted(
        rocketmq,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        lambda command: (command.ext_fields["originMsgId"], command.ext_fields["offset"]),
    )
    own_copies = rocketmq.faults.drop(SENDS, times=None, when=_is_for_retry_topic)
    started: list[rmq.PushConsumer] = []

    def listener(message: rmq.MessageExt) -> None:
        if message.reconsume_times == 0:
            running = started[0]._async._running
            assert running is not None
            if route == "forgotten":  # then the address that the broker wrote into the message is used
                running.instance.cluster.routes.table = RouteTable()
            _fail(message)

    recorder = Recorder(listener)
    started.append(consumers(recorder))
    for broker_name in ("broker-a", "broker-b"):
        send_all(producer, [broker_name] * 2, queue=rmq.MessageQueue("flights", broker_name, 0))
    rocketmq.advance_until(lambda: len(recorder) == 8)
    assert sorted(asked) == sorted(
        (message.message_id, str(message.commit_log_offset)) for message in recorder.messages[:4]
    )
    again = [(message.broker_name, message.body.decode()) for message in recorder.messages[4:]]
    assert sorted(again) == [(name, name) for name in ("broker-a", "broker-b") for _ in range(2)]
    assert own_copies.hits == 0


def test_copies_of_the_inner_producer_wait_as_long_as_those_of_the_broker(rocketmq, producer, consumers):
    rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None)
    seen: list[int] = []

    def listener(messages: list[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> Any:
        seen.append(messages[0].reconsume_times)
        context.delay_level_when_next_consume = {2: 1, 3: -1}.get(seen[-1], 0)
        return LATER

    consumers(listener, kind="concurrent")
    result = producer.send(rmq.Message("flights", b"x"))
    rocketmq.advance_until(lambda: len(seen) == 4)
    assert waits_ms(rocketmq) == [10_000, 30_000, 1_000]
    rocketmq.wait_until(lambda: len(rocketmq.messages("%DLQ%delays")) == 1)
    assert seen == [0, 1, 2, 3]
    assert rocketmq.messages("%DLQ%delays")[0].message_id == result.message_id


def test_with_no_way_back_to_the_broker_the_message_is_tried_again_here_after_5_s(rocketmq, producer, consumers):
    recorder = Recorder(lambda message: _fail(message) if message.reconsume_times == 0 else None)
    consumer = consumers(recorder)
    producer.send(rmq.Message("flights", b"x"))
    back = rocketmq.faults.fail(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, times=None)
    copy = rocketmq.faults.fail(
        RequestCode.SEND_MESSAGE_V2,
        ResponseCode.MESSAGE_ILLEGAL,
        times=None,
        when=lambda command: command.ext_fields["b"].startswith("%RETRY%"),
    )
    producer.send(rmq.Message("flights", b"y"))
    rocketmq.wait_until(lambda: copy.hits >= 1)
    assert back.hits >= 1
    rocketmq.wait_until(lambda: recorder.messages[-1].reconsume_times == 1)  # the client has given up for now
    assert committed(rocketmq, consumer) < 2  # it was not given up: progress stays below it
    rocketmq.advance(4_999)
    assert recorder.bodies.count("y") == 1
    rocketmq.advance(1)
    rocketmq.wait_until(lambda: recorder.bodies.count("y") == 2)
    assert [message.reconsume_times for message in recorder.messages if message.body == b"y"][-1] == 1
    rocketmq.advance_until(lambda: committed(rocketmq, consumer) == 2)


def test_broadcasting_does_not_retry(rocketmq, admin, producer, consumers, tmp_path, caplog):
    recorder = Recorder(_fail)
    consumer = consumers(recorder, message_model=rmq.MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path))
    members = admin.consumer_connection("delays")
    assert members is not None
    assert set(members.subscription_table) == {"flights"}  # and not the retry topic
    with caplog.at_level(logging.WARNING, "sprocketmq.client"):
        result = producer.send(rmq.Message("flights", b"x"))
        rocketmq.wait_until(lambda: len(recorder) == 1)
        rocketmq.wait_until(lambda: consumer.process_queues[QUEUE].commit_offset == 1)
    (line,) = [record.getMessage() for record in caplog.records if "does not retry, message" in record.getMessage()]
    assert result.message_id in line
    rocketmq.advance(60_000)
    assert len(recorder) == 1
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []


def test_the_consume_timeout_can_be_changed_while_a_message_runs(rocketmq, producer, consumers):
    held = Held()
    consumer = consumers(held)
    producer.send(rmq.Message("flights", b"x"))
    assert held.running.wait(20)
    rocketmq.advance(100_000)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []
    consumer.set_consume_timeout_ms(100_000)
    rocketmq.wait_until(lambda: len(rocketmq.messages("SCHEDULE_TOPIC_XXXX")) == 1)
    held.release.set()


@pytest.mark.parametrize("kind", ["plain", "async", "batches"])
def test_messages_that_only_wait_for_a_worker_do_not_time_out(rocketmq, producer, consumers, kind):
    release = {"first": threading.Event(), "waits": threading.Event()}
    started: list[str] = []

    def listener(message: rmq.MessageExt) -> None:
        started.append(message.body.decode())
        release[started[-1]].wait(HELD_S)

    async def listener_async(message: rmq.MessageExt) -> None:
        started.append(message.body.decode())
        while not release[started[-1]].is_set():
            await asyncio.sleep(0.005)

    def listener_of_batches(messages: list[rmq.MessageExt], context: Any) -> Any:
        listener(messages[0])
        return SUCCESS

    listeners: dict[str, Callable[..., Any]] = {
        "plain": listener, "async": listener_async, "batches": listener_of_batches,
    }  # fmt: skip
    producer.send_batch([rmq.Message("flights", body) for body in (b"first", b"waits")])  # they come with one pull
    how = "concurrent" if kind == "batches" else "message"
    consumers(listeners[kind], kind=how, consume_thread_count=1, consume_timeout_ms=60_000)

    def copies() -> list[bytes]:
        return [message.body for message in rocketmq.messages("SCHEDULE_TOPIC_XXXX")]

    rocketmq.wait_until(lambda: len(started) == 1)
    rocketmq.advance(200_000)
    rocketmq.wait_until(lambda: len(copies()) == 1)
    release["first"].set()
    rocketmq.wait_until(lambda: started == ["first", "waits"])
    rocketmq.advance(59_000)
    assert copies() == [b"first"]
    rocketmq.advance(1_000)
    rocketmq.wait_until(lambda: copies() == [b"first", b"waits"])
    release["waits"].set()


def test_a_stuck_message_slows_its_queue_to_a_pull_each_50_ms_and_does_not_stop_it(rocketmq, producer, consumers):
    for _ in range(20):
        producer.send_batch([rmq.Message("flights", b"x") for _ in range(10)])
    release = threading.Event()
    recorder = Recorder(lambda message: release.wait(HELD_S) and None if message.queue_offset == 0 else None)
    consumer = consumers(recorder, consume_concurrently_max_span=40)

    def rests() -> bool:
        """Everything pulled is consumed but the first."""
        held = consumer.process_queues.get(QUEUE)
        return held is not None and held.max_offset_seen > 40 and held.count == 1

    rocketmq.wait_until(rests)
    assert consumer.process_queues[QUEUE].max_offset_seen <= 40 + 32
    for _ in range(2):
        seen = consumer.process_queues[QUEUE].max_offset_seen
        rocketmq.advance(49)
        assert consumer.process_queues[QUEUE].max_offset_seen == seen
        rocketmq.advance(1)
        rocketmq.wait_until(lambda seen=seen: consumer.process_queues[QUEUE].max_offset_seen > seen and rests())
        assert consumer.process_queues[QUEUE].max_offset_seen <= seen + 32
    release.set()  # the head moves: no pause any more
    rocketmq.wait_until(lambda: len(recorder) == 200)


def test_a_limit_per_topic_is_shared_by_the_queues_that_are_owned_now(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=4)
    consumer = consumers(
        Recorder(), pull_threshold_for_topic=1_000, pull_threshold_size_for_topic=10, instance_name="first"
    )
    running = parts_of(consumer)

    def limits() -> set[tuple[int, int]]:
        return {
            (loop.cursor.limits.max_count, loop.cursor.limits.max_size_bytes) for loop in list(running._loops.values())
        }

    mib = 1024 * 1024
    rocketmq.wait_until(lambda: limits() == {(200, 2 * mib)})  # four queues and the one of the retry topic
    consumers(Recorder(), instance_name="second")
    rocketmq.advance_until(lambda: len(consumer.assigned_queues) in (2, 3))
    share = len(consumer.assigned_queues)
    rocketmq.advance_until(lambda: limits() == {(1_000 // share, 10 * mib // share)})


@pytest.mark.parametrize("asked", [None, 262_144, 1_000])
def test_a_pull_may_be_limited_by_bytes(rocketmq, producer, consumers, asked):
    producer.send_batch([rmq.Message("flights", b"x" * 100) for _ in range(64)])
    pulls = noted(rocketmq, PULLS, lambda command: command.ext_fields.get("maxMsgBytes"), topic="flights")
    recorder = Recorder()
    consumers(recorder, **({} if asked is None else {"pull_batch_size_in_bytes": asked}))
    rocketmq.wait_until(lambda: len(recorder) == 64)
    assert set(pulls) == ({"1000"} if asked == 1_000 else {None})
    assert (len(pulls) > 7) is (asked == 1_000)  # a record is 200 bytes


@pytest.mark.parametrize(
    ("fault", "delay_ms"), [("flow control", 20), ("an error", 1_000), ("the connection is lost", 1_000)]
)
def test_a_pull_that_failed_is_repeated_after_a_second_and_sooner_after_flow_control_of_the_broker(
    rocketmq, producer, consumers, fault, delay_ms
):
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.wait_until(rocketmq.clock.is_at_rest)
    send_all(
        producer, ["first"]
    )  # the next pull has the version that the subscription has since the group's members are known
    rocketmq.wait_until(
        lambda: recorder.bodies == ["first"] and len(rocketmq.broker.parked) == 2
    )  # and the retry topic's

    def concerns(command: Command) -> bool:
        return command.ext_fields["topic"] == "flights"

    if fault == "the connection is lost":
        rocketmq.faults.close_connection(PULLS, when=concerns)
    else:
        code = ResponseCode.FLOW_CONTROL if fault == "flow control" else ResponseCode.SYSTEM_ERROR
        rocketmq.faults.fail(PULLS, code, when=concerns)
    running = parts_of(consumer)
    (loop,) = [loop for loop in running._loops.values() if loop.queue == QUEUE]
    send_all(producer, ["0"])  # answers the pull that waits; the next one fails
    rocketmq.wait_until(lambda: len(recorder) == 2 and loop._pause is not None)
    send_all(producer, ["1"])
    rocketmq.advance(delay_ms - 1)
    assert recorder.bodies == ["first", "0"]
    rocketmq.advance(1)
    rocketmq.wait_until(lambda: recorder.bodies == ["first", "0", "1"])


def test_a_paused_consumer_pulls_nothing_until_it_resumes(rocketmq, producer, consumers):
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.wait_until(rocketmq.clock.is_at_rest)
    send_all(
        producer, ["first"]
    )  # the next pull has the version that the subscription has since the group's members are known
    rocketmq.wait_until(lambda: recorder.bodies == ["first"] and len(rocketmq.broker.parked) == 2)
    consumer.pause()
    send_all(producer, ["1"])  # the pull that the broker held returns with this one, the next does not happen
    rocketmq.wait_until(lambda: len(recorder) == 2)
    send_all(producer, ["2", "3"])
    rocketmq.advance(5_000)
    assert len(recorder) == 2
    consumer.resume()
    rocketmq.wait_until(lambda: len(recorder) == 4)


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "succeeds"])
def test_a_result_that_comes_after_the_queue_was_given_up_changes_nothing(rocketmq, producer, consumers, fails):
    held = Held(failure=ValueError("too late") if fails else None)
    consumer = consumers(held)
    send_all(producer, ["x"])
    assert held.running.wait(20)
    consumer.unsubscribe("flights")
    consumer.subscribe("weather")
    rocketmq.advance_until(lambda: "flights" not in {queue.topic for queue in consumer.process_queues}, patience_ms=200)
    held.release.set()
    statistics = consumer.statistics
    consumer.shutdown()  # waits for what is under way
    for measure in (Measure.CONSUME_OK_TPS, Measure.CONSUME_FAILED_TPS):
        assert statistics.since_start("flights", measure) == (0, 0)
    assert rocketmq.messages("SCHEDULE_TOPIC_XXXX") == []  # no send-back: the next owner gets the message itself
    again = Recorder()
    consumers(again)
    rocketmq.wait_until(lambda: again.bodies == ["x"])
    assert again.times == [0]


def test_a_failed_message_that_waits_for_its_send_back_is_not_sent_after_its_queue_was_given_up(
    rocketmq, producer, consumers
):
    slow = rocketmq.faults.delay(RequestCode.CONSUMER_SEND_MSG_BACK, 4_000, times=None)
    consumer = consumers(lambda messages, context: LATER, kind="concurrent", batch_size=80)
    producer.send_batch([rmq.Message("flights", b"x") for _ in range(80)])
    rocketmq.wait_until(lambda: slow.hits == 64)  # so many at once; 16 wait
    consumer.unsubscribe("flights")
    consumer.subscribe("weather")
    rocketmq.advance_until(
        lambda: "flights" not in {queue.topic for queue in consumer.process_queues}, step_ms=200, patience_ms=500
    )
    rocketmq.advance(4_000)
    rocketmq.wait_until(lambda: len(rocketmq.messages("SCHEDULE_TOPIC_XXXX")) == 64)
    consumer.shutdown()  # waits for what is under way
    assert slow.hits == 64


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_hooks_see_every_call_and_cannot_break_it(rocketmq, producer, consumers, kind):
    seen: list[Any] = []
    order: list[str] = []

    class Outer:
        def before_consume(self, consumption: Any) -> None:
            order.append("outer")
            consumption.notes["started"] = True
            raise SystemExit("a bad hook")

        def after_consume(self, consumption: Any) -> None:
            order.append("outer")
            seen.append((consumption.group, consumption.status, consumption.notes, str(consumption.failure)))

    class Inner:
        def before_consume(self, consumption: Any) -> None:
            order.append("inner")

        def after_consume(self, consumption: Any) -> None:
            order.append("inner")
            raise KeyboardInterrupt

    def listener(message: rmq.MessageExt) -> None:
        order.append(message.body.decode())
        if message.body == b"bad":
            _fail(message)

    consumer = consumers(by_kind(kind, listener), start=False, consume_thread_count=1)
    consumer.add_hook(Outer())
    consumer.add_hook(Inner())
    consumer.start()
    send_all(producer, ["good", "bad"])
    rocketmq.wait_until(lambda: len(seen) == 2)
    assert ("delays", SUCCESS, {"started": True}, "None") in seen
    assert ("delays", LATER, {"started": True}, "cannot read this") in seen
    assert order == [name for body in ("good", "bad") for name in ("outer", "inner", body, "inner", "outer")]


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("how", ["raises", "returns later"])
@pytest.mark.parametrize("with_hook", [False, True], ids=["", "with a hook"])
def test_of_single_messages_that_came_together_only_the_failed_ones_come_again_and_each_is_counted(
    rocketmq, producer, consumers, kind, how, with_hook
):
    """With a hook there is a batch for each message; without hooks, only for those that fail."""
    hooked: list[str] = []

    class Hook:
        def before_consume(self, consumption: rmq.ConsumeMessageContext) -> None: ...

        def after_consume(self, consumption: rmq.ConsumeMessageContext) -> None:
            hooked.append(consumption.messages[0].body.decode())

    send_all(producer, [str(n) for n in range(60)])
    seen: list[tuple[int, int]] = []

    def listener(message: rmq.MessageExt) -> Any:
        seen.append((int(message.body), message.reconsume_times))
        if int(message.body) % 20 == 7 and message.reconsume_times == 0:
            return _fail(message) if how == "raises" else LATER
        return None

    consumer = consumers(by_kind(kind, listener), start=False)
    if with_hook:
        consumer.add_hook(Hook())
    consumer.start()
    rocketmq.wait_until(lambda: committed(rocketmq, consumer) == 60)
    assert sorted(seen) == [(n, 0) for n in range(60)]
    rocketmq.advance_until(lambda: len(seen) == 63)
    rocketmq.wait_until(lambda: consumer.statistics.since_start("flights", Measure.CONSUME_OK_TPS) == (60, 60.0))
    assert sorted(seen[60:]) == [(7, 1), (27, 1), (47, 1)]
    assert consumer.statistics.since_start("flights", Measure.CONSUME_FAILED_TPS) == (3, 3.0)
    assert consumer.statistics.since_start("flights", Measure.CONSUME_RT)[0] == 63
    assert len(hooked) == (63 if with_hook else 0)


def test_the_time_of_calls_that_are_reported_together_is_counted_once(rocketmq, producer, consumers, monkeypatch):
    """A failed one among them has its share."""
    microseconds = itertools.count()
    watch = SimpleNamespace(perf_counter=lambda: next(microseconds) / 1_000_000)  # each call of a listener takes one
    monkeypatch.setattr(thread_listener_pool, "time", watch)
    producer.send_batch([rmq.Message("flights", b"%d" % number) for number in range(30)])
    consumer = consumers(
        lambda message: _fail(message) if message.body == b"7" else None, consume_thread_count=1, max_reconsume_times=0
    )
    rocketmq.wait_until(lambda: consumer.statistics.since_start("flights", Measure.CONSUME_RT)[0] == 30)
    assert consumer.statistics.since_start("flights", Measure.CONSUME_RT)[1] == pytest.approx(30 / 1_000)


def test_a_pull_is_measured_from_its_request_to_its_answer_and_counts_its_messages(rocketmq, producer, consumers):
    producer.send_batch([rmq.Message("flights", b"x") for _ in range(3)])
    rocketmq.faults.delay(
        RequestCode.PULL_MESSAGE,
        3_000,
        times=None,  # also the next one, if the first has an older version of the subscription and does not count
        when=lambda command: command.ext_fields["topic"] == "flights",
    )
    recorder = Recorder()
    consumer = consumers(recorder)
    rocketmq.advance_until(lambda: len(recorder) == 3)
    pulls, took_ms = consumer.statistics.since_start("flights", Measure.PULL_RT)
    assert pulls == 1
    assert took_ms >= 3_000  # the clock may take steps before the client has read the answer
    assert consumer.statistics.since_start("flights", Measure.PULL_TPS) == (1, 3)

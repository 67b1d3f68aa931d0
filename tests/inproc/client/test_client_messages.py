# SPDX-License-Identifier: Apache-2.0
"""``consumer.messages()``: ack, nack and their absence, by ``async for`` and by ``for``."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading

import pytest
from iteration import Iteration
from recorder import Recorder, send_all

import sprocketmq as rmq

both_faces = pytest.mark.parametrize("face", ["async", "blocking"])
LONG_MS = 3_600_000


def _numbers(count: int) -> list[str]:
    return [str(n) for n in range(count)]


@both_faces
def test_acked_messages_are_consumed_once_and_progress_follows(rocketmq, producer, face):
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, _numbers(100))
    with Iteration(face, rocketmq, lambda message: message.ack()) as iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 100)
        rocketmq.wait_until(lambda: iteration.progress() == 100)
    assert sorted(iteration.bodies, key=int) == _numbers(100)
    assert iteration.failure is None
    assert iteration.received[0].tags is None
    assert iteration.received[0].born_host.startswith("127.0.0.1:")


@both_faces
def test_progress_waits_for_the_lowest_message_that_is_not_acked(rocketmq, producer, face):
    send_all(producer, _numbers(3))
    with Iteration(face, rocketmq) as iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 3)
        first, second, third = iteration.received
        second.ack()
        third.ack()
        assert iteration.progress() == 0
        first.ack()
        rocketmq.wait_until(lambda: iteration.progress() == 3)


@both_faces
def test_a_nack_sends_back_and_its_delay_counts(rocketmq, producer, face):
    [sent] = send_all(producer, ["x"])
    with Iteration(face, rocketmq) as iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 1)
        began_ms = rocketmq.clock.now_ms()
        iteration.received[0].nack("the tower is silent", delay_ms=55_000)
        rocketmq.advance_until(lambda: len(iteration.received) == 2)
        again = iteration.received[1]
        assert rocketmq.clock.now_ms() - began_ms >= 60_000, "rounded up to a level"
        assert (again.message_id, again.topic, again.reconsume_times) == (sent.message_id, "flights", 1)
        again.ack()


@both_faces
def test_a_dead_letter_keeps_its_reason(rocketmq, producer, face):
    send_all(producer, ["x"])
    with Iteration(face, rocketmq, lambda message: message.dead_letter("no such carrier")) as iteration:
        rocketmq.wait_until(lambda: rocketmq.messages("%DLQ%delays"))
        rocketmq.wait_until(lambda: iteration.progress() == 1)
    with rmq.DeadLetters("delays", namesrv_addr=rocketmq.namesrv_addr) as letters:
        assert [letter.reason for letter in letters.read()] == ["no such carrier"]


@both_faces
def test_what_is_not_acked_when_the_block_is_left_is_delivered_again_at_once(rocketmq, producer, face):
    send_all(producer, _numbers(3))

    def fail_at_the_second(message: rmq.ReceivedMessage) -> None:
        if message.body == b"1":
            raise LookupError("in the body of the loop")
        message.ack()

    # Leaving does not wait: nobody is left to ack.
    with Iteration(face, rocketmq, fail_at_the_second, await_termination_ms=LONG_MS) as iteration:
        iteration.join()
    assert isinstance(iteration.failure, LookupError)
    assert iteration.bodies == ["0", "1"]
    with pytest.raises(rmq.ClosedError, match="shut down before the ack of .* it is delivered again"):
        iteration.received[1].ack()
    with Iteration(face, rocketmq, lambda message: message.ack()) as second:
        rocketmq.wait_until(lambda: len(second.received) == 2)
    assert second.bodies == ["1", "2"]
    assert second.received[0].reconsume_times == 0, "it was not sent back"


@both_faces
def test_no_more_than_the_limit_are_handed_out_and_a_forgotten_ack_is_told(rocketmq, producer, face, caplog):
    rocketmq.create_topic("flights", queues=2)
    send_all(producer, _numbers(5))
    with Iteration(face, rocketmq, consume_thread_count=2) as iteration:
        rocketmq.wait_until(lambda: "2 messages were handed out and none was acked" in caplog.text)
        assert len(iteration.received) == 2
        iteration.received[0].ack()
        rocketmq.wait_until(lambda: len(iteration.received) == 3)
        if face == "blocking":
            iteration.consumer.set_consume_thread_count(4)
            rocketmq.wait_until(lambda: len(iteration.received) == 5)
    assert caplog.text.count("none was acked") == 1


@both_faces
def test_the_consume_timeout_sends_back_what_was_handed_out_and_only_that(rocketmq, producer, face, caplog):
    send_all(producer, _numbers(2))
    with Iteration(face, rocketmq, consume_thread_count=1, consume_timeout_ms=60_000) as iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 1)
        rocketmq.advance_until(lambda: "are sent back and progress moves past them" in caplog.text, step_ms=5_000)
        rocketmq.advance(120_000)  # the second one waits in its process queue: no time runs for it
        assert "it is in the code that iterates over the messages" in caplog.text
        assert len(iteration.received) == 1
        iteration.received[0].ack()  # too late, and no second copy
        rocketmq.wait_until(lambda: len(iteration.received) == 2)
        iteration.received[1].ack()
        rocketmq.advance_until(lambda: len(iteration.received) == 3)
        iteration.received[2].ack()
        rocketmq.wait_until(lambda: iteration.progress() == 2)
    assert sorted(iteration.bodies) == ["0", "0", "1"]
    assert len(rocketmq.messages("%RETRY%delays")) == 1


@both_faces
def test_messages_that_were_not_handed_out_move_with_their_queue_and_a_late_ack_does_nothing(
    rocketmq, producer, consumers, face
):
    rocketmq.create_topic("flights", queues=2)
    send_all(producer, _numbers(6))
    with Iteration(face, rocketmq, consume_thread_count=1) as iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 1)
        held = iteration.received[0]
        recorder = Recorder()
        consumers(recorder)
        rocketmq.advance_until(lambda: len(recorder) == 3)
        rocketmq.advance_until(lambda: len(iteration.consumer.assigned_queues) == 2)  # one, and one of the retry topic
        held.ack()
        rocketmq.wait_until(lambda: len(iteration.received) > 1)
        while len(iteration.received) < 4 and len(set(iteration.bodies) | set(recorder.bodies)) < 6:
            count = len(iteration.received)
            iteration.received[-1].ack()
            rocketmq.wait_until(lambda count=count: len(iteration.received) > count)
        iteration.received[-1].ack()
    assert set(iteration.bodies) | set(recorder.bodies) == set(_numbers(6))
    assert set(iteration.bodies[1:]).isdisjoint(recorder.bodies), "only what it held could come twice"


@both_faces
def test_an_orderly_iteration_keeps_each_queue_in_order_and_waits_for_each_ack(rocketmq, producer, face):
    rocketmq.create_topic("flights", queues=2)
    for key in ("a", "b"):
        send_all(
            producer, [f"{key}{n}" for n in range(3)], queue=rmq.MessageQueue("flights", "broker-a", int(key == "b"))
        )
    with Iteration(face, rocketmq, orderly=True) as iteration:
        rocketmq.advance_until(lambda: len(iteration.received) == 2)
        assert sorted(iteration.bodies) == ["a0", "b0"], "one of each queue"
        first = iteration.received[0]
        first.nack(delay_ms=20_000)
        iteration.received[1].ack()
        rocketmq.wait_until(lambda: len(iteration.received) == 3)
        assert iteration.bodies[2][0] == iteration.bodies[1][0], "the other queue pauses"
        iteration.received[2].ack()
        acked = {1, 2}
        while len(iteration.received) < 7:
            count = len(iteration.received)
            for number in range(count):
                if number and number not in acked:
                    acked.add(number)
                    iteration.received[number].ack()
            rocketmq.advance_until(lambda count=count: len(iteration.received) > count)
        iteration.received[-1].ack()
        rocketmq.wait_until(lambda: iteration.progress() == 6)
    for key in ("a", "b"):
        own = [body for body in iteration.bodies if body[0] == key]
        assert own[-3:] == [f"{key}{n}" for n in range(3)]
    assert iteration.bodies.count(iteration.bodies[0]) == 2
    assert not rocketmq.messages("%RETRY%delays"), "an orderly message is not sent back"


def test_a_shutdown_by_others_waits_for_the_message_in_hand(rocketmq, producer):
    send_all(producer, _numbers(2))
    consumer = rocketmq.push_consumer(
        "delays", consume_from_where="CONSUME_FROM_FIRST_OFFSET", await_termination_ms=LONG_MS
    )
    consumer.subscribe("flights")
    with consumer.messages() as messages:
        message = next(messages)
        other = threading.Thread(target=consumer.shutdown)  # knows nothing of the message here
        other.start()
        rocketmq.wait_until(lambda: messages._async._stream.is_over)
        message.ack()
        other.join(60)
        assert list(messages) == []
    assert sum(rocketmq.consumer_offset("delays", "flights").values()) == 1


def test_a_shutdown_in_the_body_of_the_loop_does_not_wait_for_the_body(rocketmq, producer):
    send_all(producer, _numbers(2))
    consumer = rocketmq.push_consumer(
        "delays", consume_from_where="CONSUME_FROM_FIRST_OFFSET", await_termination_ms=LONG_MS
    )
    consumer.subscribe("flights")
    with consumer.messages() as messages:
        for message in messages:
            consumer.shutdown()
            message.ack()

    async def run() -> None:
        consumer = rocketmq.async_push_consumer("delays", await_termination_ms=LONG_MS)
        consumer.subscribe("flights")
        async with consumer.messages() as messages:
            async for message in messages:
                await consumer.shutdown()
                message.ack()

    asyncio.run(run())
    assert sum(rocketmq.consumer_offset("delays", "flights").values()) == 2


def test_several_tasks_may_iterate_at_once(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, _numbers(60))
    seen: dict[str, list[str]] = {"a": [], "b": [], "c": []}

    async def run() -> None:
        consumer = rocketmq.async_push_consumer("delays", consume_from_where="CONSUME_FROM_FIRST_OFFSET")
        consumer.subscribe("flights")

        async def work(name: str) -> None:
            async for message in messages:
                seen[name].append(message.body.decode())
                await asyncio.sleep(0)
                message.ack()
                if sum(map(len, seen.values())) == 60:
                    messages.stop()

        async with consumer.messages() as messages:
            await asyncio.gather(*map(work, seen))

    asyncio.run(run())
    assert sorted([*seen["a"], *seen["b"], *seen["c"]], key=int) == _numbers(60)
    assert all(seen.values())


@both_faces
def test_process_acks_at_its_end_and_sends_back_what_raised(rocketmq, producer, face, caplog):
    send_all(producer, ["good", "bad", "late", "dead"])

    def act(message: rmq.ReceivedMessage) -> None:
        with message.process() as same:
            assert same is message
            if message.reconsume_times == 0 and message.body != b"good":
                raise {
                    b"bad": ValueError("unreadable"),
                    b"late": rmq.RetryLater("later", delay_level=1),
                    b"dead": rmq.DeadLetter("never"),
                }[message.body]

    with caplog.at_level(logging.INFO, "sprocketmq.client"), Iteration(face, rocketmq, act) as iteration:
        rocketmq.advance_until(lambda: len(iteration.received) == 6)
        rocketmq.wait_until(lambda: iteration.progress() == 4)
    assert sorted(iteration.bodies) == ["bad", "bad", "dead", "good", "late", "late"]
    assert [message.body for message in rocketmq.messages("%DLQ%delays")] == [b"dead"]
    assert "the listener raised ValueError: unreadable" in caplog.text


def test_a_cancellation_goes_through_process_and_settles_nothing(rocketmq, producer):
    send_all(producer, ["x"])

    def interrupt(message: rmq.ReceivedMessage) -> None:
        with message.process():
            raise KeyboardInterrupt

    with Iteration("blocking", rocketmq, interrupt) as iteration:
        iteration.join()
    assert isinstance(iteration.failure, KeyboardInterrupt)
    assert not iteration.received[0].is_settled
    assert sum(rocketmq.consumer_offset("delays", "flights").values()) == 0


@both_faces
def test_a_message_has_one_verdict(rocketmq, producer, face):
    send_all(producer, ["x", "y"])
    with Iteration(face, rocketmq) as iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 2)
        first, second = iteration.received
        first.ack()
        first.ack()
        with pytest.raises(rmq.ConfigurationError, match="has its ack already and cannot have a nack, too"):
            first.nack()
        with pytest.raises(rmq.ConfigurationError, match="delay_level is -1"):
            second.nack(delay_level=-1)
        assert not second.is_settled
        second.dead_letter()
        with pytest.raises(rmq.ConfigurationError, match="has its dead_letter already"):
            second.ack()


@both_faces
def test_hooks_see_each_message_until_it_is_settled(rocketmq, producer, face):
    class Hook:
        def __init__(self) -> None:
            self.seen: list[tuple[str, bool]] = []

        def before_consume(self, context: rmq.ConsumeMessageContext) -> None:
            self.seen.append(("before", context.success))

        def after_consume(self, context: rmq.ConsumeMessageContext) -> None:
            self.seen.append(("after", context.success))

    send_all(producer, ["x"])
    iteration, hook = Iteration(face, rocketmq), Hook()
    iteration.consumer.add_hook(hook)
    with iteration:
        rocketmq.wait_until(lambda: len(iteration.received) == 1)
        assert hook.seen == [("before", False)]
        iteration.received[0].ack()
        rocketmq.wait_until(lambda: hook.seen == [("before", False), ("after", True)])


def test_a_consumer_has_one_listener_or_one_iteration(rocketmq):
    iterated = rocketmq.push_consumer("delays")
    iterated.subscribe("flights")
    messages = iterated.messages()
    with pytest.raises(rmq.ConfigurationError, match="is iterated already, one listener or one messages"):
        iterated.messages()
    with pytest.raises(rmq.ConfigurationError, match="is iterated by messages"):
        iterated.on_message(lambda message: None)
    with pytest.raises(rmq.ClosedError, match="not started; write `async with consumer.messages"):
        next(messages)
    with pytest.raises(
        rmq.ConfigurationError, match="is iterated by messages.., run_forever would hand them to nobody"
    ):
        iterated.run_forever()
    listening = rocketmq.push_consumer("delays")
    listening.on_message(lambda message: None)
    with pytest.raises(rmq.ConfigurationError, match="has a listener, one listener or one messages"):
        listening.messages()


def test_an_iterated_consumer_without_a_reference_is_closed_with_a_warning(rocketmq):
    held = [rocketmq.push_consumer("delays")]
    held[0].subscribe("flights")
    held[0].messages()
    held[0].start()

    def forget() -> None:
        held.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match="PushConsumer.*was not shut down before it was garbage-collected"):
        forget()
    with rmq.Admin(namesrv_addr=rocketmq.namesrv_addr) as admin:
        rocketmq.wait_until(lambda: admin.consumer_connection("delays") is None)

# SPDX-License-Identifier: Apache-2.0
"""What a wait of a test says when it fails, and the clients of a test that is a coroutine."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import sprocketmq as rmq
from sprocketmq.testing import message


def test_a_wait_that_fails_says_what_the_broker_holds(rocketmq):
    rocketmq.create_topic("flights", queues=1)
    consumer = rocketmq.push_consumer("delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("flights")
    failed: list[str] = []

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        if message.body == b"bad":
            failed.append(message.message_id)
            raise RuntimeError("not this one")

    with consumer, rocketmq.producer("ops") as producer:
        for body in (b"good", b"bad"):
            producer.send(rmq.Message("flights", body))
        rocketmq.advance_until(lambda: len(failed) == 4)  # the next one comes after 2 min
        producer.send(rmq.Message("flights", b"later"), deliver_time_ms=rocketmq.clock.now_ms() + 3_600_000)
        with pytest.raises(AssertionError) as raised:
            rocketmq.advance_until(lambda: False, limit_ms=1_000)
        text = str(raised.value)
        for line in (
            "the condition does not hold after 1000 ms of the manual clock; the broker holds:",
            "topic flights: offsets 0 to 1 in queue 0",
            "group delays: 1 member; ",
            "flights queue 0 at 2 of 2",
            f"1 message of delay level 6: {failed[0]} for %RETRY%delays in ",
            "1 timer message for flights",
            "pulls waiting for messages",
            "the next timer of the clock in ",
            "at rest",
        ):
            assert line in text, text
        with pytest.raises(AssertionError, match="topic flights: offsets 0 to 1"):
            rocketmq.wait_until(lambda: False, timeout_ms=1)


def test_a_wait_that_fails_names_a_misspelt_topic(rocketmq):
    consumer = rocketmq.push_consumer("delays")
    consumer.subscribe("ordrs")
    consumer.on_message(lambda message: None)
    with consumer, rocketmq.producer("ops") as producer:
        producer.send(rmq.Message("orders", b"x"))
        with pytest.raises(
            AssertionError, match=r"topic ordrs was asked for and does not exist; did you mean orders\?\n"
        ):
            rocketmq.advance_until(lambda: False, limit_ms=1_000)
        with pytest.raises(AssertionError, match="topic flights was asked for and does not exist\n"):
            rocketmq.advance_until(lambda: rocketmq.messages("flights"), limit_ms=1_000)


def test_a_wait_for_what_never_comes_takes_no_patience(rocketmq, monkeypatch):
    """Of 600 steps none needs the 25 ms of real time that it might have; after the last one comes a second."""
    rocketmq.create_topic("flights", queues=1)
    consumer = rocketmq.push_consumer("delays")
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    slept: list[float] = []
    sleep = time.sleep
    monkeypatch.setattr(
        "sprocketmq.testing.embedded.time.sleep", lambda seconds: (slept.append(seconds), sleep(seconds))
    )
    with consumer:
        rocketmq.advance(1_000)
        with pytest.raises(AssertionError, match="does not hold after 600000 ms"):
            rocketmq.advance_until(lambda: False)
    assert sum(slept) < 10  # 25 ms for each of 600 steps would be more


@pytest.mark.parametrize("kind", ["blocking", "async", "orderly", "every thread"])
def test_a_listener_that_hangs_takes_no_patience_from_some_step_on(rocketmq, monkeypatch, kind):
    rocketmq.create_topic("flights", queues=1)
    consumer = rocketmq.push_consumer(
        "delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_thread_count=2
    )
    consumer.subscribe("flights")
    released = threading.Event()

    def hang(*arguments: object) -> None:
        released.wait(60)

    async def hang_on_loop(message: rmq.MessageExt) -> None:
        while not released.is_set():
            await asyncio.sleep(0.01)

    if kind == "orderly":
        consumer.orderly_listener(hang)
    else:
        consumer.on_message(hang_on_loop if kind == "async" else hang)
    slept: list[float] = []
    sleep = time.sleep
    monkeypatch.setattr(
        "sprocketmq.testing.embedded.time.sleep", lambda seconds: (slept.append(seconds), sleep(seconds))
    )
    with consumer, rocketmq.producer("ops") as producer:
        for number in range(3 if kind == "every thread" else 1):
            producer.send(rmq.Message("flights", b"%d" % number))
        with pytest.raises(AssertionError, match="does not hold after 600000 ms") as raised:
            rocketmq.advance_until(lambda: False)
        released.set()
    assert "topic flights: offsets 0 to " in str(raised.value)
    assert "a client or server is not at rest" in str(raised.value)
    assert sum(slept) < 10  # 25 ms for each of 600 steps would be more


def test_async_clients_of_a_coroutine(rocketmq):
    rocketmq.create_topic("flights", queues=2)
    seen: list[int] = []

    async def test() -> None:
        consumer = rocketmq.async_push_consumer(
            "delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        consumer.subscribe("flights")

        @consumer.on_message
        async def handle(message: rmq.MessageExt) -> None:
            seen.append(message.reconsume_times)
            if not message.reconsume_times:
                raise RuntimeError("not yet")

        reader = rocketmq.async_pull_consumer("reader")
        await reader.subscribe("flights")
        async with consumer, reader, rocketmq.async_producer("ops") as producer, rocketmq.async_admin() as admin:
            await producer.send(rmq.Message("flights", b"x"))
            await asyncio.to_thread(rocketmq.advance_until, lambda: seen == [0, 1])
            assert "flights" in await admin.topics()

    asyncio.run(test())


def test_a_message_for_a_direct_call_of_a_listener():
    def handle(message: rmq.MessageExt) -> tuple[object, int, str | None]:
        return message.value, message.reconsume_times, message.tags

    order = {"id": 7, "items": ["a"]}
    made = message("orders", value=order, tags="new", reconsume_times=2, keys="k-7", queue_offset=41)
    assert handle(made) == (order, 2, "new")
    assert made.value is order
    assert rmq.json_deserializer(made.body) == order
    assert (made.topic, made.queue_offset, made.keys) == ("orders", 41, ["k-7"])
    assert made.message_id != message("orders", b"x").message_id
    assert message("orders", b"x", message_id="id-1").message_id == "id-1"
    with pytest.raises(rmq.ConfigurationError, match="value_deserializer"):
        _ = message("orders", b"x").value
    with pytest.raises(rmq.ConfigurationError, match="body and value are both missing"):
        message("orders")

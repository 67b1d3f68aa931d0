# SPDX-License-Identifier: Apache-2.0
"""Back-pressure: how many sends may be under way, whose turn is next, and what happens to those that wait too long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

import sprocketmq as rmq
from sprocketmq.client.produce.send_permits import SendPermits
from sprocketmq.testing import SENDS, EmbeddedRocketMQ


def test_turns_come_in_order_and_a_large_body_is_not_overtaken():
    async def run() -> None:
        permits = SendPermits(10, 100)
        await permits.take(60, 1)
        order: list[int] = []

        async def taking(size: int) -> None:
            await permits.take(size, 60_000)
            order.append(size)

        tasks = [asyncio.ensure_future(taking(size)) for size in (90, 1, 2)]
        await asyncio.sleep(0)
        assert order == [], "1 and 2 would fit, but 90 was first"
        permits.give_back(60)
        await asyncio.gather(*tasks[:1])
        assert permits.under_way == (3, 93)
        await asyncio.gather(*tasks)
        assert order == [90, 1, 2]

    asyncio.run(run())


def test_a_body_larger_than_all_permits_goes_alone():
    async def run() -> None:
        permits = SendPermits(10, 100)
        await permits.take(500, 1)
        with pytest.raises(rmq.TooMuchRequest):
            await permits.take(1, 1)
        permits.give_back(500)
        await permits.take(1, 1)
        assert permits.under_way == (1, 1)

    asyncio.run(run())


def test_a_send_that_gives_up_takes_no_permit_and_the_next_one_proceeds():
    async def run() -> None:
        permits = SendPermits(10, 100)
        await permits.take(50, 1)
        large = asyncio.ensure_future(permits.take(90, 60_000))
        small = asyncio.ensure_future(permits.take(5, 60_000))
        await asyncio.sleep(0)
        large.cancel()
        await small
        assert permits.under_way == (2, 55)
        waiting = asyncio.ensure_future(permits.take(90, 60_000))
        await asyncio.sleep(0)
        permits.give_back(50)
        permits.give_back(5)  # its turn has come, and it is cancelled before it runs on
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert permits.under_way == (0, 0)

    asyncio.run(run())


@pytest.fixture
def limited(rocketmq: EmbeddedRocketMQ) -> Iterator[rmq.Producer]:
    rocketmq.create_topic("flights", queues=1)
    with rocketmq.producer(
        "ops", enable_backpressure_for_async_mode=True, back_pressure_for_async_send_num=10
    ) as producer:
        producer.send(rmq.Message("flights", b"first"))
        yield producer


def test_the_blocking_face_makes_its_caller_wait(rocketmq, limited):
    held = rocketmq.faults.delay(SENDS, 1_000, times=None)
    futures = [limited.send_async(rmq.Message("flights", b"x"), timeout_ms=60_000) for _ in range(10)]
    rocketmq.wait_until(lambda: held.hits == 10)
    with pytest.raises(rmq.TooMuchRequest):
        limited.send_async(rmq.Message("flights", b"x"), timeout_ms=20)
    passed = threading.Event()

    def eleventh() -> None:
        futures.append(limited.send_async(rmq.Message("flights", b"11"), timeout_ms=60_000))
        passed.set()

    thread = threading.Thread(target=eleventh)
    thread.start()
    rocketmq.advance_until(passed.is_set, step_ms=1_000, patience_ms=100)
    thread.join(20)
    rocketmq.advance_until(lambda: all(future.done() for future in futures), step_ms=1_000, patience_ms=100)
    assert {future.result(0).status for future in futures} == {rmq.SendStatus.SEND_OK}
    permits = limited._async._permits
    assert permits is not None
    rocketmq.wait_until(lambda: permits.under_way == (0, 0))


def test_no_timeout_is_the_default_one(limited):
    """None says what leaving it out says, as in ``send``."""
    message = rmq.Message("flights", b"x")
    assert limited.send_async(message, timeout_ms=None, sharding_key=None).result(20).status is rmq.SendStatus.SEND_OK
    assert limited.send(message, timeout_ms=None).status is rmq.SendStatus.SEND_OK


def test_the_async_face_makes_a_send_wait_and_a_refused_one_gives_its_turn_back(rocketmq, limited):
    with pytest.raises(rmq.ConfigurationError):
        limited.send_async(rmq.Message("flights", b""))
    permits = limited._async._permits
    assert permits is not None
    assert permits.under_way == (0, 0)

    async def run() -> None:
        async with rocketmq.async_producer(
            "more",
            enable_backpressure_for_async_mode=True,
            back_pressure_for_async_send_num=10,
            auto_batch=True,
            batch_max_delay_ms=1,
        ) as producer:
            pending = [producer.send_async(rmq.Message("flights", b"%d" % number)) for number in range(25)]
            done = asyncio.to_thread(
                rocketmq.advance_until, lambda: len(rocketmq.messages("flights")) == 26, step_ms=1, patience_ms=50
            )
            await asyncio.gather(done, *pending)

    asyncio.run(run())

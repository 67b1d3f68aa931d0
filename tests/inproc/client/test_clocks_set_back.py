# SPDX-License-Identifier: Apache-2.0
"""Somebody sets a machine's clock back. What waits for a duration waits no longer than without it."""

from __future__ import annotations

import pytest

import sprocketmq as rmq
from sprocketmq.testing.simulation import Here, World, simulate

AN_HOUR_MS = 3_600_000


def test_a_batch_that_waits_for_more_is_sent_in_time() -> None:
    took_s: list[float] = []

    async def shop(here: Here) -> None:
        async with here.producer(batch_max_delay_ms=50, auto_batch=True) as producer:
            await producer.send(rmq.Message("orders", b"first"))
            began_s = here.world.loop.time()
            future = producer.send_async(rmq.Message("orders", b"second"))
            await here.world.sleep(10)
            here.host.skew_ms -= AN_HOUR_MS
            producer.send_async(rmq.Message("orders", b"third"))
            await future
            took_s.append(here.world.loop.time() - began_s)

    async def main(world: World) -> None:
        await world.topic("orders", 1)
        world.start("shop", shop)
        await world.until(lambda: took_s, 2 * AN_HOUR_MS)

    simulate(main, seed=1)
    assert took_s[0] < 1


@pytest.mark.parametrize("skew_ms", [AN_HOUR_MS, -AN_HOUR_MS])
def test_a_listener_has_its_time_whatever_a_clock_says(skew_ms: int) -> None:
    calls_s: list[float] = []

    async def desk(here: Here) -> None:
        consumer = here.push_consumer("desk", consume_from_where="CONSUME_FROM_FIRST_OFFSET", consume_timeout_ms=60_000)
        consumer.subscribe("orders")

        @consumer.on_message
        async def handle(message: rmq.MessageExt) -> None:
            calls_s.append(here.world.loop.time())
            if len(calls_s) == 1:  # is checked for its time once a minute
                here.host.skew_ms += skew_ms
                await here.world.sleep(AN_HOUR_MS)

        async with consumer:
            await consumer.wait()

    async def shop(here: Here) -> None:
        async with here.producer() as producer:
            await producer.send(rmq.Message("orders", b"x"))

    async def main(world: World) -> None:
        await world.topic("orders", 1)
        world.start("desk", desk)
        world.start("shop", shop)
        await world.until(lambda: len(calls_s) == 2, 2 * AN_HOUR_MS)

    simulate(main, seed=1)
    assert 60 <= calls_s[1] - calls_s[0] < 60 + 60 + 11  # the limit, the next check, the first delay

# SPDX-License-Identifier: Apache-2.0
"""Somebody sets a machine's clock back. What waits for a duration waits no longer than without it."""

from __future__ import annotations

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

# SPDX-License-Identifier: Apache-2.0
"""How often a pool tries to connect, with a thousand queues on the simulated network."""

from __future__ import annotations

import asyncio
import contextlib
import random

from sprocketmq.errors import ConnectFailed
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.testing.simulation.draws import Draws
from sprocketmq.testing.simulation.loop import SimulatedLoop
from sprocketmq.testing.simulation.network import Network
from sprocketmq.testing.simulation.threads import Threads

QUEUES, EVERY_S, FOR_S = 1_280, 3, 30


def test_an_address_that_refuses_is_tried_now_and_then_however_many_ask_and_soon_when_it_is_back() -> None:
    loop = SimulatedLoop()
    Threads(loop, random.Random(1))
    network = Network(loop, Draws(2))
    here, there = network.add_host("here"), network.add_host("there")
    address, refused, back_after_s = f"{there.address}:10911", 0, 0.0

    async def reads(number: int, pool: ConnectionPool) -> None:
        nonlocal refused
        await asyncio.sleep(random.Random(number).random() * EVERY_S)
        while loop.time() < FOR_S:
            try:
                await pool.connection(address)
            except ConnectFailed:
                refused += 1
            await asyncio.sleep(EVERY_S)

    async def work() -> None:
        nonlocal back_after_s
        pool = ConnectionPool()
        await asyncio.gather(*(reads(number, pool) for number in range(QUEUES)))
        began_s, listening = loop.time(), loop.create_server(asyncio.Protocol, there.address, 10911)
        await loop.create_task(listening, context=there.process.context.copy())
        while not pool.addresses:
            with contextlib.suppress(ConnectFailed):
                await pool.connection(address)
            await asyncio.sleep(0.01)
        back_after_s = loop.time() - began_s
        await pool.aclose()

    loop.run_until_complete(loop.create_task(work(), context=here.process.context.copy()))
    loop.close()
    assert refused >= QUEUES * (FOR_S // EVERY_S - 1)
    assert FOR_S < network.sent[here, there] < 40 * FOR_S
    assert back_after_s < 0.2

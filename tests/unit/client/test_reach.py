# SPDX-License-Identifier: Apache-2.0
"""A client that asks all registered servers connects to few of them at a time, and leaves those alone that do not answer."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from sprocketmq.client import reach as reach_module
from sprocketmq.client.reach import MOST_AT_ONCE, MOST_OPEN, Reach
from sprocketmq.errors import ConnectFailed, RequestTimeout
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.server import Server
from sprocketmq.wire.frames.command import Command, request, response


class SilentServers(ConnectionPool):
    """Stands for connections to servers that never answer, except those that are ``honest``."""

    def __init__(self, *honest: str) -> None:
        super().__init__()
        self.honest, self.under_way, self.most, self.asked = honest, 0, 0, Counter[str]()

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked[address] += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if address in self.honest:
            return response(command)
        raise RequestTimeout(f"{address} did not answer")


STRANGERS = [f"10.0.{number // 250}.{number % 250}:1" for number in range(300)]


def test_strangers_are_asked_a_few_at_a_time_and_not_in_each_round(monkeypatch):
    monkeypatch.setattr(reach_module, "_PAUSE_S", 3_600.0)  # the rounds may take longer than five seconds
    pool = SilentServers("10.0.1.7:1")

    async def run() -> None:
        reach = Reach(pool, leaves_silent=True)
        for _ in range(3):
            asked = (reach.invoke(address, request(28, None), 60_000) for address in STRANGERS)
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [one.code for one in answers if isinstance(one, Command)] == [0]
        with pytest.raises(ConnectFailed):
            await reach.invoke(STRANGERS[0], request(28, None), 1_000)

    asyncio.run(run())
    assert pool.most <= MOST_AT_ONCE
    assert pool.asked.pop("10.0.1.7:1") == 3
    assert set(pool.asked.values()) == {1}


async def test_who_answered_is_asked_although_strangers_keep_all_other_turns():
    class Hanging(SilentServers):
        async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
            if address not in self.honest:
                self.asked[address] += 1
                await asyncio.Event().wait()
            return response(command)

    pool = Hanging("honest:1")

    reach = Reach(pool, leaves_silent=True)
    await reach.invoke("honest:1", request(28, None), 60_000)
    hanging = [asyncio.ensure_future(reach.invoke(one, request(28, None), 60_000)) for one in STRANGERS]
    while len(pool.asked) < MOST_AT_ONCE * 3 // 8:
        await asyncio.sleep(0)
    with pytest.raises(ConnectFailed):
        await reach.invoke("another:1", request(28, None), 1)
    assert (await reach.invoke("honest:1", request(28, None), 60_000)).code == 0
    assert len(pool.asked) < MOST_AT_ONCE / 2
    for one in hanging:
        one.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


def test_others_are_asked_each_time():
    pool = SilentServers()

    async def run() -> None:
        reach = Reach(pool)
        for _ in range(3):
            with pytest.raises(RequestTimeout):
                await reach.invoke("a:1", request(28, None), 1_000)

    asyncio.run(run())
    assert pool.asked["a:1"] == 3


async def test_few_connections_stay_open():
    server, pool = Server(lambda connection, command, *_: response(command)), ConnectionPool()
    reach = Reach(pool)
    port = await server.start("127.0.0.1", 0)
    for number in range(1, MOST_OPEN + 20):
        # One peer, many names.
        await reach.invoke(f"127.0.0.1:{port:0{number + 5}}", request(28, None), 10_000)
    assert len(pool.addresses) == MOST_OPEN
    await reach.invoke(pool.addresses[0], request(28, None), 10_000)
    assert len(pool.addresses) == MOST_OPEN
    await pool.aclose()
    await server.stop()


@pytest.mark.parametrize("steps", range(5))
async def test_a_cancelled_request_asks_nobody_though_its_turn_comes_at_the_same_moment(steps):
    pool = SilentServers("a:1")

    reach = Reach(pool, leaves_silent=True)
    turns = reach._turns_for("a:1")
    while not turns.locked():
        await turns.acquire()
    task = asyncio.ensure_future(reach.invoke("a:1", request(28, None), 60_000))
    while not turns._waiters:
        await asyncio.sleep(0)
    turns.release()
    for _ in range(steps):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not turns.locked()  # the turn is free for the next one

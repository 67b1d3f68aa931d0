"""Registration: a burst of changes costs two rounds, and who waits for his change waits for no later one."""

from __future__ import annotations

import asyncio

from sprocketmq.broker.registration import Registration
from sprocketmq.net.clock import ManualClock
from sprocketmq.wire.bodies import TopicConfigSerializeWrapper
from sprocketmq.wire.command import Command


class NameServer:
    """Stands in for the pool: each registration is answered when the test says so."""

    addresses: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Command]] = []

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    async def answer(self, number: int) -> None:
        while len(self.asked) <= number:
            await asyncio.sleep(0)
        self.asked[number].set_result(Command(0, 0, 1))


def registration(pool: NameServer, *name_servers: str) -> Registration:
    return Registration(
        ManualClock(0),
        pool,  # type: ignore[arg-type]
        list(name_servers),
        cluster_name="c",
        broker_name="b",
        address="127.0.0.1:1",
        period_ms=30_000,
        topics=TopicConfigSerializeWrapper,
    )


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_hundred_changes_during_a_round_cost_one_more_and_later_ones_are_not_waited_for() -> None:
    async def play() -> None:
        pool = NameServer()
        told = registration(pool, "127.0.0.1:9876")
        told.changed()
        await turns()
        waiters = []
        for _ in range(100):
            told.changed()
            waiters.append(asyncio.ensure_future(told.settled()))
        await pool.answer(0)
        await turns()
        assert not any(waiter.done() for waiter in waiters), "the first round knew none of these changes"
        assert len(pool.asked) == 2
        told.changed()
        await pool.answer(1)
        await turns()
        assert all(waiter.done() for waiter in waiters)
        assert len(pool.asked) == 3
        await pool.answer(2)
        await turns()
        assert len(pool.asked) == 3

    asyncio.run(asyncio.wait_for(play(), 30))


def test_who_waits_while_nothing_is_on_its_way_registers_and_a_stop_leaves_nobody_waiting() -> None:
    async def play() -> None:
        pool = NameServer()
        told = registration(pool, "127.0.0.1:9876")
        waiter = asyncio.ensure_future(told.settled())
        await pool.answer(0)
        await waiter
        waiter = asyncio.ensure_future(told.settled())
        await asyncio.sleep(0)
        await told.stop()
        await waiter
        await registration(pool).settled()

    asyncio.run(asyncio.wait_for(play(), 30))

# SPDX-License-Identifier: Apache-2.0
"""What the rules of the random users say about a cluster in which nothing is wrong."""

from __future__ import annotations

import asyncio

from sprocketmq.broker import Broker
from sprocketmq.testing.simulation import Here, World, simulate
from sprocketmq.testing.simulation.users.ledger import Ledger
from sprocketmq.testing.simulation.users.random_users import RandomUsers
from sprocketmq.testing.simulation.users.watch import Watch


def test_a_client_that_has_left_need_not_be_heard() -> None:
    """A broker has a half-open connection of it, and so a member, for 120 s."""

    async def stay(here: Here, ms: float, *, lose: bool = False) -> None:
        consumer = here.push_consumer()
        consumer.subscribe("orders")
        consumer.on_message(print)
        await consumer.start()
        await here.world.sleep(ms)
        for end in here.host.ends if lose else ():
            end.is_forgotten = end.peer.is_forgotten = True
        await consumer.shutdown()

    async def desk(here: Here) -> None:
        await here.world.sleep(150_000)
        await stay(here, 1_000, lose=True)
        await stay(here, 80_000)
        here.world.note("has left")
        await here.world.sleep(3_600_000)

    async def main(world: World) -> None:
        await world.topic("orders", 1)
        users = RandomUsers()
        users.world, users.ledger = world, Ledger(world)
        watching = asyncio.ensure_future(Watch(users).run())
        world.start("desk", desk)
        await world.until(lambda: any("has left" in line for line in world.story), 300_000)
        await world.sleep(5_000)
        broker = world.running(world.brokers[0])
        assert isinstance(broker, Broker)
        (left,) = broker.consumers.groups["consumer"].members.values()
        assert broker.clock.steady_ms() - left.last_update_ms > 80_000
        assert users.ledger.broken is None
        watching.cancel()

    simulate(main, seed=1, brokers=1)

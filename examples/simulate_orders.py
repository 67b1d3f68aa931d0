# SPDX-License-Identifier: Apache-2.0
"""Does a handler survive redelivery, rebalance and crashes? Two handlers that add up orders, in a simulated cluster with random trouble.

    python examples/simulate_orders.py            # the naive one: a message that comes twice is counted twice
    python examples/simulate_orders.py --fixed    # one that remembers what it has counted

Nothing is real but the code: name server, broker, clients, connections, disk and clocks are simulated, so that minutes take a second and a
seed gives the same run again.
"""

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import sprocketmq as rmq
from sprocketmq.testing.simulation import Here, Program, Weather, World, simulate


class Database:
    def __init__(self) -> None:
        self.total = 0
        self.counted: set[str] = set()

    async def add_naively(self, message: rmq.MessageExt) -> None:
        total = self.total
        await asyncio.sleep(0.01)  # another database would take some time
        self.total = total + int(message.body)

    async def add_once(self, message: rmq.MessageExt) -> None:
        await asyncio.sleep(0.01)
        [order] = message.keys  # the shop's own: an order that was sent twice has two message ids
        if order not in self.counted:  # one transaction of a real database
            self.counted.add(order)
            self.total += int(message.body)


def orders(*, fixed: bool) -> Callable[[World], Coroutine[Any, Any, None]]:
    """The program of one run."""
    database = Database()
    amounts: dict[str, int] = {}  # of orders, by their ids; these two outlive the shop's process
    sent: set[str] = set()

    async def shop(here: Here) -> None:
        async with here.producer("shop") as producer:
            while len(sent) < 100:
                order = f"order-{len(sent)}"
                amount = amounts.setdefault(order, here.rng.randint(1, 50))
                try:
                    await producer.send(rmq.Message("orders", b"%d" % amount, keys=[order]))
                    sent.add(order)
                except rmq.RocketMQError:
                    pass  # it may have arrived or not: it is sent again
                await asyncio.sleep(here.rng.expovariate(1))
            await asyncio.sleep(3_600)

    async def desk(here: Here) -> None:
        consumer = here.push_consumer("desk", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe("orders")
        consumer.on_message(database.add_once if fixed else database.add_naively)
        async with consumer:
            await consumer.wait()

    async def main(world: World) -> None:
        await world.topic("orders")
        world.start("shop", tried_again(shop))
        world.start("desk-1", tried_again(desk))
        world.start("desk-2", tried_again(desk))
        await world.sleep(600_000)
        world.sky.clear()  # the trouble ends: in some runs it is such that hardly a message arrives
        await world.until(lambda: len(sent) >= 100, 600_000, "a hundred orders are sent")
        await world.sleep(300_000)
        assert database.total == sum(amounts.values()), (
            f"{database.total} was counted, {sum(amounts.values())} was ordered"
        )

    return main


def tried_again(program: Program) -> Program:
    """A program that begins anew if the cluster is not there when it starts, as under a supervisor."""

    async def run(here: Here) -> None:
        while True:
            try:
                await program(here)
                return
            except (rmq.NetworkError, rmq.RemoteError, rmq.RequestTimeout):
                await asyncio.sleep(1)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    for seed in range(given.seeds):
        try:
            simulate(orders(fixed=given.fixed), seed=seed, weather=Weather(kinds=["kills", "walls", "resets"]))
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            print(error.__notes__[-1])
            return
        print(f"seed {seed}: every order was counted once")


if __name__ == "__main__":
    main()

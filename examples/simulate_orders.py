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
        if message.message_id not in self.counted:  # one transaction of a real database
            self.counted.add(message.message_id)
            self.total += int(message.body)


def orders(*, fixed: bool, sent: dict[str, int]) -> Callable[[World], Coroutine[Any, Any, None]]:
    """The program of one run. ``sent``: filled with the amounts that were acknowledged, by message id."""
    database = Database()

    async def shop(here: Here) -> None:
        async with here.producer("shop") as producer:
            while len(sent) < 100:
                amount = here.rng.randint(1, 50)
                try:
                    result = await producer.send(rmq.Message("orders", b"%d" % amount))
                    sent[result.message_id] = amount
                except rmq.RocketMQError:
                    pass  # not acknowledged; a shop would tell its customer
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
        await world.until(lambda: len(sent) >= 100, 3_600_000, "a hundred orders are sent")
        world.sky.clear()  # the trouble ends
        await world.sleep(300_000)
        assert database.total == sum(sent.values()), f"{database.total} was counted, {sum(sent.values())} was ordered"

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
            simulate(orders(fixed=given.fixed, sent={}), seed=seed, weather=Weather(kinds=["kills", "walls", "resets"]))
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            print(error.__notes__[-1])
            return
        print(f"seed {seed}: every order was counted once")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Random users of a simulated cluster find nothing in the product (``test_planted_faults``: what they find)."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sprocketmq as rmq
from sprocketmq.net.process import fork
from sprocketmq.testing.simulation import KINDS, Here, Weather, World, simulate
from sprocketmq.testing.simulation.users import RandomUsers

MESSAGES = 150


def run_one(seed: str) -> str:
    """The trace of a run in a process of its own."""
    command = [sys.executable, "-m", "sprocketmq.testing.simulation", "--seed", seed, "--set", "messages=60"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=170, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    assert done.returncode == 0, done.stderr
    found = re.search("trace ([0-9a-f]+)", done.stdout)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_each_process() -> None:
    traces = [run_one(seed) for seed in ("16", "33", "16", "33")]
    assert traces[:2] == traces[2:]
    assert traces[0] != traces[1]


@pytest.mark.parametrize("seed", range(102, 104))
def test_random_users_find_nothing(seed: int) -> None:
    simulate(RandomUsers(MESSAGES), seed=seed, weather=Weather(KINDS), brokers=1 + seed % 2, **RandomUsers.CONFIG)


def test_a_run_leaves_nothing_for_a_fork_to_give_up() -> None:
    async def main(world: World) -> None:
        world.start("desk", desk)
        await world.sleep(10_000)

    async def desk(here: Here) -> None:
        consumer = here.push_consumer()
        consumer.subscribe("orders")
        consumer.on_message(print)
        await consumer.start()
        await asyncio.sleep(3_600)

    before = set(fork._registered)
    simulate(main, seed=1)
    gc.collect()
    assert set(fork._registered) <= before


def test_what_a_program_raises_ends_the_run_with_its_story() -> None:
    async def main(world: World) -> None:
        world.start("shop", fails)
        await world.sleep(60_000)

    async def fails(here: Here) -> None:
        await asyncio.sleep(5)
        raise LookupError("no such order")

    with pytest.raises(LookupError) as caught:
        simulate(main, seed=3)
    (note,) = caught.value.__notes__
    assert "seed 3" in note
    assert "5.1" in note


def test_a_program_begins_anew_after_a_kill_and_its_broker_has_its_messages() -> None:
    received: list[bytes] = []
    lives: list[int] = []

    async def shop(here: Here) -> None:
        lives.append(here.world.lives[here.host])
        async with here.producer() as producer:
            await producer.send(rmq.Message("orders", b"%d" % lives[-1]))
            await asyncio.sleep(3_600)

    async def desk(here: Here) -> None:
        consumer = here.push_consumer(consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe("orders")

        @consumer.on_message
        async def handle(message: rmq.MessageExt) -> None:
            received.append(message.body)

        async with consumer:
            await consumer.wait()

    async def main(world: World) -> None:
        await world.topic("orders", 1)
        host = world.start("shop", shop)
        await world.sleep(1_000)
        world.kill(host)
        world.kill(world.brokers[0])
        world.restart(world.brokers[0])
        await world.all_up()
        world.restart(host)
        world.start("desk", desk)
        await world.until(lambda: len(received) == 2, 60_000)

    simulate(main, seed=1)
    assert lives == [0, 1]
    assert sorted(received) == [b"0", b"1"]


def test_blocking_clients_and_listeners_wait_in_virtual_time() -> None:
    took_s: list[float] = []
    chunks: list[tuple[int, int]] = []

    def shop(here: Here) -> None:
        with rmq.Producer("shop", **here.options) as producer:
            for number in range(5):
                producer.send(rmq.Message("orders", b"%d" % number))
                time.sleep(0.5)
            futures = [producer.send_async(rmq.Message("orders", b"later")) for _ in range(5)]
            assert sorted(future.result().queue_offset for future in futures) == [5, 6, 7, 8, 9]
        queue = rmq.MessageQueue("orders", "broker-a", 0)
        with rmq.QueueReader(here.world.namesrv_addr, "readers", [(queue, 0, 10)]) as reader:
            chunks.extend((chunk.start, chunk.end) for chunk in reader)

    async def desk(here: Here) -> None:
        consumer = here.push_consumer(consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe("orders")

        @consumer.on_message
        def handle(message: rmq.MessageExt) -> None:
            began_s = here.world.loop.time()
            time.sleep(60)
            took_s.append(here.world.loop.time() - began_s)

        async with consumer:
            await consumer.wait()

    async def main(world: World) -> None:
        await world.topic("orders", 1)
        world.start("shop", lambda here: asyncio.to_thread(shop, here))
        killed = world.start("desk", desk)
        await world.sleep(50_000)
        world.kill(killed)  # with all its threads, which wait in the listener
        world.restart(killed)
        await world.until(lambda: len(took_s) == 10, 600_000)

    simulate(main, seed=1)
    assert took_s == pytest.approx([60] * 10, abs=0.1)
    assert chunks[0][0] == 0
    assert chunks[-1][1] == 10


@pytest.mark.slow
def test_the_example_finds_a_lost_update_and_none_in_a_handler_that_remembers() -> None:
    example = str(Path(__file__).resolve().parents[3] / "examples/simulate_orders.py")
    naive = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=170)
    assert "was ordered" in naive.stdout
    fixed = subprocess.run(
        [sys.executable, example, "--fixed", "--seeds", "3"], capture_output=True, text=True, timeout=170
    )
    assert fixed.stdout.count("counted once") == 3

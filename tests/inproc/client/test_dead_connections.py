# SPDX-License-Identifier: Apache-2.0
"""Connections that have been dead since before anything is asked on them: a server's machine was switched off and on."""

from __future__ import annotations

from sprocketmq.testing.simulation import Here, World, simulate


def test_a_name_server_is_asked_again_when_the_connection_to_it_was_dead() -> None:
    """A client that knows no topic asks for nothing meanwhile."""
    asked: list[int] = []

    async def operator(here: Here) -> None:
        async with here.admin() as admin:
            for wait_ms in (0, 100_000):  # brokers register again within 60 s
                await here.world.sleep(wait_ms)
                asked.append(len((await admin.route("orders")).queue_datas))

    async def main(world: World) -> None:
        await world.topic("orders")
        world.start("operator", operator)
        await world.until(lambda: asked, 10_000)
        world.kill(world.namesrv, power=True)
        world.restart(world.namesrv)
        await world.until(lambda: len(asked) == 2, 200_000)

    simulate(main, seed=1)
    assert asked == [1, 1]

# SPDX-License-Identifier: Apache-2.0
"""broker.chunked_work: shares in order, a turn of the loop between two of them, and an end at any of them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from sprocketmq.broker.chunked_work import in_chunks


@pytest.mark.parametrize("things", range(12))
@pytest.mark.parametrize("size", [1, 3, 5])
def test_items_come_in_order_with_one_turn_of_the_loop_between_chunks(things, size):
    async def scenario() -> None:
        turns = 0
        stopped = False

        def count() -> None:
            nonlocal turns
            turns += 1
            if not stopped:
                loop.call_soon(count)

        loop = asyncio.get_running_loop()
        loop.call_soon(count)
        shares = [share async for share in in_chunks(range(things), size)]
        stopped = True
        assert [one for share in shares for one in share] == list(range(things))
        assert all(len(share) == size for share in shares[:-1])
        assert turns == max(0, len(shares) - 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("way", ["cancelled", "closed", "forgotten"])
def test_work_that_is_given_up_at_a_step_leaves_nothing_to_close(way):
    told: list[Any] = []

    async def work() -> None:
        async for _ in in_chunks(range(10), 1):
            pass

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        begun = work()
        if way == "cancelled":
            task = asyncio.create_task(begun)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        else:
            begun.send(None)
            if way == "closed":
                begun.close()
        del begun
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert told == []

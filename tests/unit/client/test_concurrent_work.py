# SPDX-License-Identifier: Apache-2.0
"""client.remoting.concurrent_work: results in order, and no coroutine left behind by a failure."""

from __future__ import annotations

import asyncio

import pytest

from sprocketmq.client.remoting.concurrent_work import all_ended


def test_results_come_in_the_order_of_the_work():
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(all_ended(after(turns) for turns in (3, 0, 2))) == [3, 0, 2]
    assert asyncio.run(all_ended([])) == []


def test_a_result_that_is_an_exception_is_no_failure():
    error = ValueError("told as a result")

    async def answered() -> ValueError:
        return error

    assert asyncio.run(all_ended([answered()])) == [error]


def test_the_first_exception_is_raised_when_all_have_ended():
    ended = []

    async def work(number: int, turns: int, *, fails: bool) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        ended.append(number)
        if fails:
            raise ValueError(number)

    with pytest.raises(ValueError, match="^1$"):
        asyncio.run(all_ended([work(0, 5, fails=False), work(1, 3, fails=True), work(2, 0, fails=True)]))
    assert sorted(ended) == [0, 1, 2]


async def test_a_cancellation_ends_all_of_it():
    ended = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    task = asyncio.ensure_future(all_ended(map(work, (0, 1))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 1]

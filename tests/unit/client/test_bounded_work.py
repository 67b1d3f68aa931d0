# SPDX-License-Identifier: Apache-2.0
"""The same work for many items: all are done, so many at a time, and the first failure comes when all have ended."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.client.remoting.concurrent_work import for_each


@given(waits=st.lists(st.integers(1, 5), max_size=40), at_most=st.integers(0, 50), broken=st.sets(st.integers(0, 39)))
def test_all_are_done_in_order_and_no_more_at_a_time_than_allowed(waits, at_most, broken):
    begun, ended, most = list[int](), list[int](), 0

    async def work(number: int) -> None:
        nonlocal most
        begun.append(number)
        most = max(most, len(begun) - len(ended))
        try:
            for _ in range(waits[number]):
                await asyncio.sleep(0)
            if number in broken:
                raise LookupError(number)
        finally:
            ended.append(number)

    async def run() -> None:
        failing = [number for number in range(len(waits)) if number in broken]
        if failing:
            with pytest.raises(LookupError) as caught:
                await for_each(range(len(waits)), work, at_most)
            assert caught.value.args[0] == next(number for number in ended if number in broken)
        else:
            await for_each(range(len(waits)), work, at_most)

    asyncio.run(run())
    assert begun == list(range(len(waits)))
    assert sorted(ended) == begun
    assert most == min(max(1, at_most), len(waits))


@pytest.mark.parametrize("at_most", [1, 3])
def test_a_cancellation_ends_what_was_begun_and_begins_nothing_more(at_most):
    begun, ended = list[int](), list[int]()

    async def work(number: int) -> None:
        begun.append(number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def run() -> None:
        task = asyncio.ensure_future(for_each(range(10), work, at_most))
        while len(begun) < at_most:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert begun == ended == list(range(at_most))

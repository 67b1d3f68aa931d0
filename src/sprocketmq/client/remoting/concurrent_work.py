# SPDX-License-Identifier: Apache-2.0
"""Running several coroutines at the same time without leaving one behind: ``asyncio.gather`` returns at the first failure, while the
others still run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_ended(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order, or the first exception in this order, when all have ended; a cancellation cancels all of them."""
    ends = [asyncio.ensure_future(one) for one in work]
    await asyncio.gather(*ends, return_exceptions=True)
    return [end.result() for end in ends]  # a result may be an exception, too


async def for_each(items: Collection[T], work: Callable[[T], Coroutine[Any, Any, None]], at_most: int) -> None:
    """Do ``work`` for each item, begun in order, ``at_most`` at a time: a task serves many items, and a single one needs none.
    Raises the first exception, when all have ended; after a cancellation no further items begin."""
    left = iter(items)
    failures: list[Exception] = []

    async def work_on() -> None:
        for item in left:
            try:
                await work(item)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)

    at_once = min(at_most, len(items))
    if at_once <= 1:
        await work_on()
    else:
        await all_ended(work_on() for _ in range(at_once))
    if failures:
        raise failures[0]

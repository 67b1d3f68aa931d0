# SPDX-License-Identifier: Apache-2.0
"""The same work for many items, for a bounded number of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from sprocketmq.client.remoting.concurrent_work import all_ended

__all__ = ["for_each"]

T = TypeVar("T")


async def for_each(items: Collection[T], work: Callable[[T], Coroutine[Any, Any, None]], at_most: int) -> None:
    """Do ``work`` for each item, begun in order, for ``at_most`` at a time (at least one). A task serves many items one after the other,
    and a single one needs no task.

    Raises:
        The first exception of the work, when it has ended for all items. A cancellation, also one that the work raises itself, begins
        no further items in its place.
    """
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

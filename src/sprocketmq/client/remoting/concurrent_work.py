# SPDX-License-Identifier: Apache-2.0
"""Running several coroutines at the same time without leaving one behind: ``asyncio.gather`` returns at the first failure, while the
others still run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

__all__ = ["all_ended"]

T = TypeVar("T")


async def all_ended(work: Iterable[Awaitable[T]]) -> list[T]:
    """Wait until all of ``work`` has ended. Return the results in order, or raise the first exception in this order.

    A cancellation cancels all of it, and waits until it has ended.
    """
    ends = [asyncio.ensure_future(one) for one in work]
    await asyncio.gather(*ends, return_exceptions=True)
    return [end.result() for end in ends]  # a result may be an exception, too

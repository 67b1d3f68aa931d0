# SPDX-License-Identifier: Apache-2.0
"""A result that may be missing: a value, or why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sprocketmq.errors import RemoteError, RequestNotServed, RocketMQError
from sprocketmq.wire.codes import ResponseCode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """``value``, or ``missing``, a sentence that says why there is none. With ``missing`` None, a ``value`` of None is a result."""

    value: T | None = None
    missing: str | None = None

    @property
    def is_known(self) -> bool:
        return self.missing is None


async def asked(what: str, call: Awaitable[T], limit_s: float) -> Known[T]:
    """The result of ``call``, or why there is none within ``limit_s``."""
    try:
        async with asyncio.timeout(limit_s):
            return Known(await call)
    except TimeoutError as error:  # RequestTimeout is one
        why = str(error) if isinstance(error, RocketMQError) else f"no answer within {limit_s:g} s"
        return Known(missing=f"{what}: {why}")
    except RemoteError as error:
        if isinstance(error, RequestNotServed):
            return Known(missing=f"{what}: {error}")
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return Known(missing=f"{what}: {error.address} does not know this request, which came with RocketMQ 5")
        return Known(missing=f"{what}: {error}")
    except RocketMQError as error:
        return Known(missing=f"{what}: {error}")

# SPDX-License-Identifier: Apache-2.0
"""A group's own retry delays, as 5.x brokers keep them. Java: GroupRetryPolicy, CustomizedRetryPolicy, ExponentialRetryPolicy.

    groupRetryPolicy of the group's configuration                                  wait after the n-th failure (n from 0)
    {"type": "EXPONENTIAL", "exponentialRetryPolicy": {initial, max, multiplier}}  min(max, initial * multiplier ** n)
    {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [...]}}               next[n + 2], the last one from there on
    anything else, nothing, or invalid                                             the schedule's own: level 3 + n

Remoting clients of Java know only the last line; the first two reach only clients of its proxy. Send-back carries a delay level and no
time, so a wait is rounded up to the next level. The index starts at the third entry, as the levels do: Java's default policy and the
default levels give the same waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

_FIRST_ENTRY: Final = 2
# ExponentialRetryPolicy.nextDelayDuration
_HIGHEST_POWER: Final = 32


class ExponentialRetryPolicy(Struct, frozen=True):
    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: int = 2

    def next_delay_ms(self, reconsume_times: int) -> int:
        power = min(max(reconsume_times, 0), _HIGHEST_POWER)
        longer: int = self.multiplier**power
        return min(self.max_ms, self.initial_ms * longer)


class CustomizedRetryPolicy(Struct, frozen=True):
    next_ms: tuple[int, ...]

    def next_delay_ms(self, reconsume_times: int) -> int:
        return self.next_ms[min(max(reconsume_times, 0) + _FIRST_ENTRY, len(self.next_ms) - 1)]


RetryPolicy = ExponentialRetryPolicy | CustomizedRetryPolicy


def read_retry_policy(stored: object) -> RetryPolicy | None:
    """The policy in a group's configuration (``groupRetryPolicy``, decoded JSON); None where the schedule decides."""
    if not isinstance(stored, Mapping):
        return None
    if stored.get("type") == "EXPONENTIAL":
        return _exponential(stored.get("exponentialRetryPolicy"))
    if stored.get("type") == "CUSTOMIZED":
        own = stored.get("customizedRetryPolicy")
        waits = own.get("next") if isinstance(own, Mapping) else None
        if isinstance(waits, list) and waits and all(_is_wait(wait) for wait in waits):
            return CustomizedRetryPolicy(tuple(waits))
    return None


def _exponential(own: object) -> ExponentialRetryPolicy | None:
    if not isinstance(own, Mapping):
        return None
    usual = ExponentialRetryPolicy()
    initial: Any = own.get("initial", usual.initial_ms)
    longest: Any = own.get("max", usual.max_ms)
    multiplier: Any = own.get("multiplier", usual.multiplier)
    if not all(_is_wait(value) for value in (initial, longest, multiplier)):
        return None
    return ExponentialRetryPolicy(initial, longest, multiplier)


def _is_wait(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0

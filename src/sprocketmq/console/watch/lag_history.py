# SPDX-License-Identifier: Apache-2.0
"""Lag over time, in bounded memory: one ring of times, and for each group and queue a parallel ring of numbers of 8 bytes.

At most ``moments`` * ``series`` numbers are stored. Further series are left out; then ``is_full`` is true. A value that was unknown at a
time is None there. A series without a known value in the stored times is deleted.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class LagHistory(Generic[K]):
    def __init__(self, moments: int, series: int) -> None:
        self._moments, self._most = moments, series
        self._times: array[int] = array("q", [0] * moments)
        self._series: dict[K, array[float]] = {}
        self._last_known: dict[K, int] = {}
        self._count = 0
        self.is_full = False

    def add(self, now_ms: int, lags: Mapping[K, int]) -> None:
        slot = self._count % self._moments
        self._times[slot] = now_ms
        for values in self._series.values():
            values[slot] = math.nan
        for key, lag in lags.items():
            found = self._series.get(key)
            if found is None:
                if len(self._series) >= self._most:
                    self.is_full = True
                    continue
                found = self._series[key] = array("d", [math.nan]) * self._moments
            found[slot] = lag
            self._last_known[key] = self._count
        self._count += 1
        for key in [key for key, last in self._last_known.items() if last < self._count - self._moments]:
            del self._series[key], self._last_known[key]
            self.is_full = False

    def times(self) -> list[int]:
        """The stored times, the oldest first, in milliseconds since 1970."""
        return [self._times[slot] for slot in self._slots()]

    def of(self, key: K) -> list[int | None] | None:
        found = self._series.get(key)
        if found is None:
            return None
        return [None if math.isnan(value) else int(value) for value in (found[slot] for slot in self._slots())]

    def _slots(self) -> list[int]:
        first = max(0, self._count - self._moments)
        return [number % self._moments for number in range(first, self._count)]

"""How much a broker did: totals, and rates over the last 10 s, 1 min and 10 min (Java: StoreStatsService)."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Counters", "Rate"]

_SPANS_MS: Final = (10_000, 60_000, 600_000)


class Rate:
    """Events per second out of samples of a running total; ``sample`` is called every few seconds, a query costs nothing before."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def sample(self, total: int, now_ms: int) -> None:
        self._samples.append((now_ms, total))
        while self._samples[0][0] < now_ms - _SPANS_MS[-1]:
            self._samples.popleft()

    def per_second(self, span_ms: int, now_ms: int) -> float:
        """Over the samples of the last ``span_ms``; 0.0 while there are not two."""
        inside = [sample for sample in self._samples if sample[0] >= now_ms - span_ms]
        if len(inside) < 2 or inside[-1][0] == inside[0][0]:
            return 0.0
        (first_ms, first), (last_ms, last) = inside[0], inside[-1]
        return (last - first) * 1000 / (last_ms - first_ms)

    def text(self, now_ms: int) -> str:
        """The three spans as mqadmin expects them, separated by blanks."""
        return " ".join(f"{self.per_second(span_ms, now_ms):.2f}" for span_ms in _SPANS_MS)


class Counters:
    """``put`` and ``pulled`` count messages since the start."""

    __slots__ = ("pulled", "pulled_tps", "put", "put_tps")

    def __init__(self) -> None:
        self.put = 0
        self.pulled = 0
        self.put_tps = Rate()
        self.pulled_tps = Rate()

    def sample(self, now_ms: int) -> None:
        self.put_tps.sample(self.put, now_ms)
        self.pulled_tps.sample(self.pulled, now_ms)

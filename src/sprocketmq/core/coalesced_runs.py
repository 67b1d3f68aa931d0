"""When work runs that many ask for: at once, but not again within its minimum interval; wishes that come meanwhile are one wish.
Java: RebalanceService, with ``rocketmq.client.rebalance.minInterval``.

    idle --ask--> wanted --begin, at due_ms--> running --end--> idle, or wanted when it was asked for meanwhile

Laws
    1. One run at a time, and from the end of one to the beginning of the next at least ``min_interval_ms``.
    2. Each wish is followed by a run that begins after it: not before the wish's own delay is over, and then as soon as law 1 allows.
    3. One run fulfils all wishes that came before it, and those whose delay is not over yet, too: each asks for what is true then.
"""

from __future__ import annotations

__all__ = ["CoalescedRuns"]


class CoalescedRuns:
    """Of one kind of work. Times are the driver's, in milliseconds."""

    __slots__ = ("_free_ms", "_min_interval_ms", "_wanted_ms", "is_running")

    def __init__(self, min_interval_ms: float) -> None:
        self._min_interval_ms = min_interval_ms
        self._free_ms: float | None = None  # law 1; None before the first run
        self._wanted_ms: float | None = None
        self.is_running = False

    def ask(self, now_ms: float, delay_ms: float = 0) -> None:
        """Somebody wants a run, in ``delay_ms`` at the latest."""
        at_ms = now_ms + delay_ms
        self._wanted_ms = at_ms if self._wanted_ms is None else min(at_ms, self._wanted_ms)

    @property
    def due_ms(self) -> float | None:
        """When the next run is to begin; None while one is under way, or when nobody wants one."""
        if self.is_running or self._wanted_ms is None:
            return None
        return self._wanted_ms if self._free_ms is None else max(self._wanted_ms, self._free_ms)

    def begin(self) -> None:
        """A run begins, due or not."""
        self.is_running, self._wanted_ms = True, None

    def end(self, now_ms: float) -> None:
        """It is over, however it ended."""
        self.is_running = False
        self._free_ms = now_ms + self._min_interval_ms

# SPDX-License-Identifier: Apache-2.0
"""When work that is requested often runs: at once, but not again within a minimum interval. Requests in between share the next run.
Java: RebalanceService, with ``rocketmq.client.rebalance.minInterval``.

    idle --ask--> wanted --begin, at due_ms--> running --end--> idle, or wanted when it was asked for meanwhile

Rules
    1. One run at a time, and from the end of one to the beginning of the next at least ``min_interval_ms``.
    2. Each request is followed by a run that begins after it: when the delay of the request is over, and as soon as rule 1 allows.
    3. One run serves all requests before it, also those whose delay is not over yet, because each wants the state of that moment.
"""

from __future__ import annotations


class CoalescedRuns:
    """The runs of one kind of work. Times are the driver's, in milliseconds."""

    __slots__ = ("_free_ms", "_min_interval_ms", "_wanted_ms", "is_running")

    def __init__(self, min_interval_ms: float) -> None:
        self._min_interval_ms = min_interval_ms
        self._free_ms: float | None = None  # rule 1; None before the first run
        self._wanted_ms: float | None = None
        self.is_running = False

    def ask(self, now_ms: float, delay_ms: float = 0) -> None:
        """Request a run within ``delay_ms``."""
        at_ms = now_ms + delay_ms
        self._wanted_ms = at_ms if self._wanted_ms is None else min(at_ms, self._wanted_ms)

    @property
    def due_ms(self) -> float | None:
        """When the next run has to begin; None while one is under way, or when none is requested."""
        if self.is_running or self._wanted_ms is None:
            return None
        return self._wanted_ms if self._free_ms is None else max(self._wanted_ms, self._free_ms)

    def begin(self) -> None:
        """A run begins, due or not."""
        self.is_running, self._wanted_ms = True, None

    def end(self, now_ms: float) -> None:
        """The run has ended or failed."""
        self.is_running = False
        self._free_ms = now_ms + self._min_interval_ms

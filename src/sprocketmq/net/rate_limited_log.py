# SPDX-License-Identifier: Apache-2.0
"""A logger for an event that may happen a thousand times a second: the first is logged at once, later ones counted in one line a minute."""

from __future__ import annotations

import logging
from typing import Final

_INTERVAL_S: Final = 60.0


class RateLimitedLog:
    """Logs one kind of event. ``log``: the logger that gets the lines. ``interval_s``: the least time between two lines."""

    def __init__(self, log: logging.Logger, interval_s: float = _INTERVAL_S, level: int = logging.WARNING) -> None:
        self._log, self._interval_s, self._level = log, interval_s, level
        self._count, self._suppressed, self._next_s = 0, 0, float("-inf")

    @property
    def count(self) -> int:
        return self._count

    def log(self, now_s: float, message: str, *args: object) -> None:
        """Count one event, and log it if the interval is over. ``message`` is formatted only when it is logged."""
        self._count += 1
        self._suppressed += 1
        if now_s < self._next_s:
            return
        before = f" ({self._suppressed - 1} more since the last such line)" if self._suppressed > 1 else ""
        self._log.log(self._level, message + before, *args)
        self._suppressed, self._next_s = 0, now_s + self._interval_s

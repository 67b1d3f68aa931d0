"""A log line for something that may happen a thousand times a second: the first at once, the others once a minute with their number."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["CalmLog"]

_INTERVAL_S: Final = 60.0


class CalmLog:
    """One kind of event. ``log`` is where it is told, at ``level``."""

    def __init__(self, log: logging.Logger, interval_s: float = _INTERVAL_S, level: int = logging.WARNING) -> None:
        self._log, self._interval_s, self._level = log, interval_s, level
        self._count, self._untold, self._next_s = 0, 0, float("-inf")

    @property
    def count(self) -> int:
        """How often it happened."""
        return self._count

    def tell(self, now_s: float, message: str, *args: object) -> None:
        """It happened; ``message`` is only formatted when it is told."""
        self._count += 1
        self._untold += 1
        if now_s < self._next_s:
            return
        before = f" ({self._untold - 1} more since the last such line)" if self._untold > 1 else ""
        self._log.log(self._level, message + before, *args)
        self._untold, self._next_s = 0, now_s + self._interval_s

# SPDX-License-Identifier: Apache-2.0
"""The time by which files, filters and half messages expire."""

from __future__ import annotations

import logging
from typing import Final

from sprocketmq.net.process.clock import Clock

log = logging.getLogger("sprocketmq.broker")

_LARGEST_JUMP_MS: Final = 3_600_000


class ExpiryClock:
    """The clock's time. A jump forward by more than an hour is ignored, because by mistake it would expire everything at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jump_is_logged = False

    def now_ms(self) -> int:
        now_ms, steady_ms = self._clock.now_ms(), self._clock.steady_ms()
        if now_ms <= steady_ms + _LARGEST_JUMP_MS:
            self._jump_is_logged = False
            return now_ms
        if not self._jump_is_logged:
            self._jump_is_logged = True
            log.warning(
                "the clock was set forward by %d s: until a restart, files and half messages expire by the former time; "
                "deleteExpiredCommitLog (code 329) deletes by the new time",
                (now_ms - steady_ms) // 1_000,
            )
        return steady_ms

# SPDX-License-Identifier: Apache-2.0
"""Virtual time: the clocks of hosts, and the time that the product measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sprocketmq.net.process.clock import Timer
from sprocketmq.testing.simulation.replacements import Replacements, copied

if TYPE_CHECKING:
    from sprocketmq.testing.simulation.loop import SimulatedLoop
    from sprocketmq.testing.simulation.network import Host

_START_MS: Final = 1_700_000_000_000


class HostClock:
    """The clock of a host, on the loop's virtual time. What is done to its time of day (``Host.skew_ms``, ``drift``) moves no timer."""

    def __init__(self, host: Host) -> None:
        self._host, self._loop = host, host.network.loop
        self._rate, self._since_s = 1.0, 0.0

    def now_ms(self) -> int:
        return _START_MS + int(self._loop.time() * 1000 + self._host.skew_ms + self._drifted_ms)

    @property
    def _drifted_ms(self) -> float:
        return (self._loop.time() - self._since_s) * (self._rate - 1) * 1000

    def drift(self, rate: float) -> None:
        """From now on, so many seconds of its day pass in one: 0 stands still, 1 is right."""
        self._host.skew_ms += self._drifted_ms
        self._rate, self._since_s = rate, self._loop.time()

    def steady_ms(self) -> int:
        return _START_MS + int(self._loop.time() * 1000)

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)


def replace_time(replacements: Replacements, loop: SimulatedLoop) -> None:
    """Let all modules of this package read the loop's time, where they measure how long they have worked. A slow machine would change the
    run otherwise."""

    def now_ns() -> int:
        return int(loop.time() * 1e9)

    virtual = copied(
        time,
        monotonic=loop.time,
        perf_counter=loop.time,
        monotonic_ns=now_ns,
        perf_counter_ns=now_ns,
        time_ns=lambda: _START_MS * 1_000_000 + now_ns(),
        time=lambda: _START_MS / 1000 + loop.time(),
    )
    replacements.in_modules("sprocketmq.", (time, virtual), (time.perf_counter, loop.time), (time.monotonic, loop.time))

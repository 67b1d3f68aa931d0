# SPDX-License-Identifier: Apache-2.0
"""Virtual time: the clocks of hosts, and the time that the product measures."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Final

from sprocketmq.net.process.clock import Timer

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


class _VirtualTime(ModuleType):
    """The module ``time`` as the product sees it during a run."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__("time")
        self.__dict__.update({name: getattr(time, name) for name in dir(time) if not name.startswith("__")})
        self.monotonic = self.perf_counter = loop.time
        self.monotonic_ns = self.perf_counter_ns = lambda: int(loop.time() * 1e9)
        self.time_ns = lambda: _START_MS * 1_000_000 + int(loop.time() * 1e9)
        self.time = lambda: _START_MS / 1000 + loop.time()


@contextlib.contextmanager
def virtual_time(loop: SimulatedLoop) -> Iterator[None]:
    """Let all loaded modules of this package read the loop's time, where they measure how long they have worked. A slow machine would
    change the run otherwise."""
    virtual = _VirtualTime(loop)
    changed: list[tuple[ModuleType, str, object]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith("sprocketmq.") and not name.startswith("sprocketmq.testing.simulation"):
            for attribute, value in list(vars(module).items()):
                if value is time:
                    changed.append((module, attribute, value))
                    setattr(module, attribute, virtual)
                elif value is time.perf_counter or value is time.monotonic:
                    changed.append((module, attribute, value))
                    setattr(module, attribute, loop.time)
    try:
        yield
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)

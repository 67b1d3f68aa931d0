# SPDX-License-Identifier: Apache-2.0
"""The status line of a broker, rewritten once a second, if stderr is a terminal:

in 12,345/s   out 11,900/s   waiting pulls 8   connections 3   topics 14   log 1.2 GB   up 0:12:33
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from sprocketmq.broker import Broker

_INTERVAL_S: Final = 1.0


class BrokerSnapshot(NamedTuple):
    """The numbers of a broker at one time. ``stored`` and ``delivered`` count messages since the start."""

    at_s: float
    stored: int
    delivered: int
    waiting_pulls: int
    connections: int
    topics: int
    log_bytes: int
    in_memory: bool


def status_text(before: BrokerSnapshot, now: BrokerSnapshot, started_s: float) -> str:
    span_s = max(now.at_s - before.at_s, 0.001)
    up_s = int(now.at_s - started_s)
    return "   ".join(
        (
            f"in {(now.stored - before.stored) / span_s:,.0f}/s",
            f"out {(now.delivered - before.delivered) / span_s:,.0f}/s",
            f"waiting pulls {now.waiting_pulls:,}",
            f"connections {now.connections:,}",
            f"topics {now.topics:,}",
            f"log {_size_text(now.log_bytes)}{' in memory' if now.in_memory else ''}",
            f"up {up_s // 3600}:{up_s // 60 % 60:02}:{up_s % 60:02}",
        )
    )


def _size_text(size_bytes: int) -> str:
    size, unit = float(size_bytes), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


class StatusLine:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._live: Live | None = None
        self._text: Callable[[str], Text]
        self._timer: asyncio.TimerHandle | None = None
        self._before = self._snapshot()
        self._started_s = self._before.at_s

    @staticmethod
    def is_wanted() -> bool:
        return sys.stderr.isatty()

    def start(self) -> None:
        # Imported here, so that servers without a terminal start faster.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = lambda line: Text(line, style="dim", no_wrap=True, overflow="ellipsis")
        # Live replaces sys.stderr while it is shown, so log lines appear above the status line.
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True, redirect_stdout=False)
        self._live.start()
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._live is not None:
            self._live.stop()

    def _tick(self) -> None:
        assert self._live is not None
        now = self._snapshot()
        # A Text, because rich would highlight the numbers of a string, and the line would flicker.
        line = self._text(status_text(self._before, now, self._started_s))
        self._live.update(line, refresh=True)
        self._before = now
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._tick)

    def _snapshot(self) -> BrokerSnapshot:
        broker = self._broker
        return BrokerSnapshot(
            time.monotonic(),
            broker.counters.put,
            broker.counters.pulled,
            len(broker.parked),
            broker.connection_count,
            len(broker.topics.table.keys() - set(broker.topics.system_topics())),
            broker.store.max_physical_offset - broker.store.min_physical_offset,
            not broker.config.store_path_root_dir,
        )

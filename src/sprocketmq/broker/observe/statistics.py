# SPDX-License-Identifier: Apache-2.0
"""Counters in windows of a minute, an hour and a day, as VIEW_BROKER_STATS_DATA shows them (Java: BrokerStatsManager, StatsItem).

1. A window's sum is the total at its newest snapshot minus the total at its oldest, so a query is up to 10 s (10 min, 1 h) behind.
2. Unchanged counters are not sampled: 10,000 idle topics cost 10,000 comparisons.
3. A name that was never counted does not exist; a counted one exists at once, with zeros until the first sample.

Not implemented: latencies, which need two readings of the clock for each request; numbers per queue; the COMMERCIAL ones.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.observe.counters import Tally
from sprocketmq.wire.bodies import BrokerStatsData, BrokerStatsItem

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

MINUTE_SAMPLE_MS: Final = 10_000
# Period and number of the snapshots of a series: minute, hour, day.
_SERIES: Final = ((MINUTE_SAMPLE_MS, 7), (600_000, 7), (3_600_000, 25))

# time in ms, messages, bytes, requests
_Snapshot = tuple[int, int, int, int]


class _Windows:
    __slots__ = ("series",)

    def __init__(self) -> None:
        self.series: tuple[deque[_Snapshot], ...] = tuple(deque(maxlen=length) for _, length in _SERIES)

    def sample(self, index: int, tally: Tally, now_ms: int) -> None:
        series, period_ms = self.series[index], _SERIES[index][0]
        values = (tally.messages, tally.bytes, tally.requests)
        if not series:
            series.append((now_ms - period_ms, 0, 0, 0))
        elif series[0][1:] == values == series[-1][1:]:
            return  # rule 2
        elif series[-1][0] < now_ms - 2 * period_ms:
            # Samples were omitted while nothing happened: the window must not begin before that.
            last = series[-1][1:]
            series.clear()
            series.append((now_ms - period_ms, *last))
        series.append((now_ms, *values))

    def shown(self, index: int, value: int, *, per_request: bool) -> BrokerStatsItem:
        """The window of one number of the snapshots; ``value``: 1 for messages, 2 for bytes."""
        series = self.series[index]
        if not series:
            return BrokerStatsItem()
        first, last = series[0], series[-1]
        total, requests = last[value] - first[value], last[3] - first[3]
        average = total / requests if per_request and requests else 0.0
        return BrokerStatsItem(sum=total, tps=total * 1000 / (last[0] - first[0]), avgpt=average)


class Statistics:
    """The windows of all counters. The broker's own topics count in some totals only."""

    def __init__(self, broker: Broker) -> None:
        self._counters, self._topics, self._cluster_name = (
            broker.counters,
            broker.topics,
            broker.config.broker_cluster_name,
        )
        self._windows: dict[tuple[str, str], _Windows] = {}
        self._next_ms = [broker.start_ms + period_ms for period_ms, _ in _SERIES]
        self._day: tuple[int, int] | None = None
        # (put, pulled) messages of ordinary topics at the last two midnights. Java: BrokerStats.
        self.yesterday_morning = self.today_morning = (0, 0)

    def sample(self, now_ms: int) -> None:
        for _ in self.sampling(now_ms):
            pass

    def sampling(self, now_ms: int) -> Iterator[None]:
        """Take the snapshots one counter at a time, for a broker with many of them."""
        self._watch_midnight(now_ms)
        due = [index for index, next_ms in enumerate(self._next_ms) if now_ms >= next_ms]
        for index in due:
            self._next_ms[index] = now_ms + _SERIES[index][0]
        if not due:
            return
        seen = set()
        for kind, key, tally in self._tallies():
            seen.add((kind, key))
            windows = self._windows.get((kind, key))
            if windows is None:
                windows = self._windows[kind, key] = _Windows()
            for index in due:
                windows.sample(index, tally, now_ms)
            yield
        if len(seen) < len(self._windows):  # deleted topics and groups
            self._windows = {name: windows for name, windows in self._windows.items() if name in seen}

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """The windows of one statistic by Java's names; None if it does not exist."""
        known = _NAMES.get(name)
        if known is None:
            return None
        kind, value, per_request = known
        if not self._is_counted(kind, key):
            return None
        windows = self._windows.get((kind, key)) or _Windows()
        minute, hour, day = (windows.shown(index, value, per_request=per_request) for index in range(len(_SERIES)))
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)

    def put_per_second(self, topic: str) -> float:
        return self._per_second("puts", topic)

    def get_per_second(self, topic: str, group: str) -> float:
        return self._per_second("gets", f"{topic}@{group}")

    def totals(self) -> tuple[int, int]:
        """(put, pulled) messages of ordinary topics since the start."""
        put = sum(tally.messages for topic, tally in self._counters.puts.items() if not self._topics.is_system(topic))
        pulled = sum(
            tally.messages for (topic, _), tally in self._counters.gets.items() if not self._topics.is_system(topic)
        )
        return put, pulled

    def _per_second(self, kind: str, key: str) -> float:
        windows = self._windows.get((kind, key))
        return 0.0 if windows is None else windows.shown(0, 1, per_request=False).tps

    def _is_counted(self, kind: str, key: str) -> bool:
        counters = self._counters
        if kind == "puts":
            return key in counters.puts
        if kind in ("gets", "send_backs"):
            topic, _, group = key.rpartition("@")
            return (topic, group) in (counters.gets if kind == "gets" else counters.send_backs)
        return any(kind == found and key == self._cluster_name for found, _ in self._broker_totals())

    def _tallies(self) -> Iterator[tuple[str, str, Tally]]:
        counters = self._counters
        for topic, tally in list(counters.puts.items()):
            yield "puts", topic, tally
        for (topic, group), tally in list(counters.gets.items()):
            yield "gets", f"{topic}@{group}", tally
        for (topic, group), tally in list(counters.send_backs.items()):
            yield "send_backs", f"{topic}@{group}", tally
        for kind, total in self._broker_totals():
            tally = Tally()
            tally.messages = total
            yield kind, self._cluster_name, tally

    def _broker_totals(self) -> list[tuple[str, int]]:
        put, pulled = self.totals()
        totals = (
            ("broker_puts", self._counters.put),
            ("broker_gets", self._counters.pulled),
            ("broker_puts_ordinary", put),
            ("broker_gets_ordinary", pulled),
        )
        return [(kind, total) for kind, total in totals if total]

    def _watch_midnight(self, now_ms: int) -> None:
        local = time.localtime(now_ms / 1000)
        day = (local.tm_year, local.tm_yday)
        if self._day is not None and day != self._day:
            self.yesterday_morning, self.today_morning = self.today_morning, self.totals()
        self._day = day


# Java's names: which tallies, which number of a snapshot, whether there is an average per request.
_NAMES: Final = {
    "TOPIC_PUT_NUMS": ("puts", 1, True),
    "TOPIC_PUT_SIZE": ("puts", 2, True),
    "GROUP_GET_NUMS": ("gets", 1, True),
    "GROUP_GET_SIZE": ("gets", 2, True),
    "SNDBCK_PUT_NUMS": ("send_backs", 1, True),
    "BROKER_PUT_NUMS": ("broker_puts", 1, False),
    "BROKER_GET_NUMS": ("broker_gets", 1, False),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": ("broker_puts_ordinary", 1, False),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": ("broker_gets_ordinary", 1, False),
}

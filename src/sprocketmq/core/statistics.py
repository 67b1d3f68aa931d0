# SPDX-License-Identifier: Apache-2.0
"""What a consumer did in the last minute, hour and day, per topic. Java: ConsumerStatsManager, StatsItemSet, StatsItem, ConsumeStatus.

    event --> running totals (value, times) --each 10 s, 10 min, 1 h--> snapshots: 7, 7 and 25 of them
                                                                            newest - oldest = what the window shows

    PULL_RT, PULL_TPS, CONSUME_RT, CONSUME_OK_TPS, CONSUME_FAILED_TPS, each with SUM, TPS (per second), AVGPT (per event), TIMES (events)

Java takes the snapshots on timers; here they are taken by the next event after the moment was due, with the totals as they still were, so
they come out the same and nothing runs while nothing happens. Moments are the full 10 s, 10 min and hours of the clock.

Rules
    1. What a window shows is the totals at its newest snapshot minus those at its oldest: true up to 10 s (10 min, 1 h) ago, as in Java.
    2. Before its first snapshot an item shows what it has so far, over one period. (Java shows zeros.)
    3. An item begins with its first event: the oldest snapshot is one period before its first one, with zeros.
    4. Memory is bounded by the number of snapshots, whatever the rate, however long nothing came.
    5. Reading changes nothing, so any thread may read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec

from sprocketmq.wire.bodies import ConsumeStatus


class Measure(Enum):
    """What is counted; Java's names."""

    PULL_RT = "PULL_RT"
    PULL_TPS = "PULL_TPS"
    CONSUME_RT = "CONSUME_RT"
    CONSUME_OK_TPS = "CONSUME_OK_TPS"
    CONSUME_FAILED_TPS = "CONSUME_FAILED_TPS"

    @property
    def is_time(self) -> bool:
        """Milliseconds, whose sum means nothing."""
        return self.value.endswith("_RT")


class Window(Enum):
    """A window: (period of its snapshots in ms, how many it keeps)."""

    MINUTE = (10_000, 7)
    HOUR = (600_000, 7)
    DAY = (3_600_000, 25)

    @property
    def period_ms(self) -> int:
        return self.value[0]

    @property
    def length(self) -> int:
        return self.value[1]


class WindowTotals(msgspec.Struct, frozen=True):
    """What a window shows: ``times`` events with ``sum`` value between two snapshots, ``span_ms`` apart."""

    sum: float = 0.0
    times: int = 0
    span_ms: int = 0

    @property
    def per_second(self) -> float:
        """TPS."""
        return self.sum * 1000 / self.span_ms if self.span_ms else 0.0

    @property
    def mean(self) -> float:
        """AVGPT, AVGRT."""
        return self.sum / self.times if self.times else 0.0


# when, times, value
_Snapshot = tuple[int, int, float]
_WINDOWS: Final = tuple(Window)
_MEASURES: Final = tuple(Measure)


def _due(next_ms: int, window: Window, now_ms: int) -> range:
    """The moments from ``next_ms`` up to now, only those that the window can still hold."""
    period_ms, length = window.value
    if now_ms < next_ms:
        return range(0)
    last_ms = next_ms + (now_ms - next_ms) // period_ms * period_ms
    return range(max(next_ms, last_ms - (length - 1) * period_ms), last_ms + 1, period_ms)


class _Item:
    __slots__ = ("series", "times", "value")

    def __init__(self) -> None:
        self.times = 0
        self.value = 0.0
        self.series: tuple[deque[_Snapshot], ...] = tuple(deque(maxlen=window.length) for window in _WINDOWS)

    def extend(self, series: deque[_Snapshot], window: Window, moments: range) -> None:
        """Snapshots at these moments, between which nothing happened."""
        for at_ms in moments:
            if not series:
                series.append((at_ms - window.period_ms, 0, 0.0))  # rule 3
            series.append((at_ms, self.times, self.value))

    def totals(self, window: Window, moments: range) -> WindowTotals:
        """What the window shows when these moments have come since the last event."""
        series = deque(self.series[_WINDOWS.index(window)], maxlen=window.length)
        if self.times:
            self.extend(series, window, moments)
        if not series:
            return WindowTotals(self.value, self.times, window.period_ms)  # rule 2
        (first_ms, first_times, first_value), (last_ms, last_times, last_value) = series[0], series[-1]
        return WindowTotals(last_value - first_value, last_times - first_times, last_ms - first_ms)


class ConsumerStatistics:
    __slots__ = ("_due_ms", "_next_ms", "_timed_out", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, tuple[_Item, ...]] = {}
        self._timed_out: dict[str, int] = {}
        self._next_ms: list[int] = []  # per window: its next moment; empty before the first event
        self._due_ms = 0  # the earliest of them

    # -- events ----------------------------------------------------------------------------------------------------------------

    def pulled(self, topic: str, message_count: int, elapsed_ms: float, now_ms: int) -> None:
        """A pull found ``message_count`` messages after ``elapsed_ms``."""
        if now_ms >= self._due_ms:
            self._sample(now_ms)
        pull_rt, pull_tps, _, _, _ = self._topics.get(topic) or self._new(topic)
        pull_rt.times += 1
        pull_rt.value += elapsed_ms
        pull_tps.times += 1
        pull_tps.value += message_count

    def consumed(self, topic: str, ok_count: int, failed_count: int, elapsed_ms: float, now_ms: int) -> None:
        """A listener call ended after ``elapsed_ms``."""
        if now_ms >= self._due_ms:
            self._sample(now_ms)
        _, _, consume_rt, ok, failed = self._topics.get(topic) or self._new(topic)
        consume_rt.times += 1
        consume_rt.value += elapsed_ms
        if ok_count:
            ok.times += 1
            ok.value += ok_count
        if failed_count:
            failed.times += 1
            failed.value += failed_count

    def consumed_alone(self, topic: str, count: int, elapsed_ms: float, now_ms: int) -> None:
        """``count`` listener calls of one message each succeeded, after ``elapsed_ms`` all together."""
        if now_ms >= self._due_ms:
            self._sample(now_ms)
        _, _, consume_rt, ok, _ = self._topics.get(topic) or self._new(topic)
        consume_rt.times += count
        consume_rt.value += elapsed_ms
        ok.times += count
        ok.value += count

    def timed_out(self, topic: str, count: int, now_ms: int) -> None:
        """Messages ran into the consume timeout."""
        self._timed_out[topic] = self._timed_out.get(topic, 0) + count

    def _new(self, topic: str) -> tuple[_Item, ...]:
        items = self._topics[topic] = tuple(_Item() for _ in _MEASURES)
        return items

    def _sample(self, now_ms: int) -> None:
        """Take the snapshots that are due, with the totals before the event that found them so."""
        if not self._next_ms:
            self._next_ms = [now_ms - now_ms % window.period_ms + window.period_ms for window in _WINDOWS]
        for number, window in enumerate(_WINDOWS):
            moments = _due(self._next_ms[number], window, now_ms)
            if moments:
                for items in self._topics.values():
                    for item in items:
                        if item.times:
                            item.extend(item.series[number], window, moments)
                self._next_ms[number] = moments[-1] + window.period_ms
        self._due_ms = min(self._next_ms)

    # -- reading (rule 5) -------------------------------------------------------------------------------------------------------

    def totals(self, topic: str, measure: Measure, window: Window, now_ms: int) -> WindowTotals:
        """What ``window`` shows of one measure; zeros for a topic never seen."""
        items = self._topics.get(topic)
        if items is None:
            return WindowTotals()
        moments = _due(self._next_ms[_WINDOWS.index(window)], window, now_ms)
        return items[_MEASURES.index(measure)].totals(window, moments)

    def status(self, topic: str, now_ms: int) -> ConsumeStatus:
        """The numbers of a topic as ConsumerRunningInfo shows them, all of the last minute but the failed messages of the last hour.
        As in Java, the consume time is that of the last hour where the last minute has none."""

        def minute(measure: Measure) -> WindowTotals:
            return self.totals(topic, measure, Window.MINUTE, now_ms)

        consume_rt = minute(Measure.CONSUME_RT)
        if not consume_rt.sum:
            consume_rt = self.totals(topic, Measure.CONSUME_RT, Window.HOUR, now_ms)
        return ConsumeStatus(
            pull_rt=minute(Measure.PULL_RT).mean,
            pull_tps=minute(Measure.PULL_TPS).per_second,
            consume_rt=consume_rt.mean,
            consume_ok_tps=minute(Measure.CONSUME_OK_TPS).per_second,
            consume_failed_tps=minute(Measure.CONSUME_FAILED_TPS).per_second,
            consume_failed_msgs=int(self.totals(topic, Measure.CONSUME_FAILED_TPS, Window.HOUR, now_ms).sum),
        )

    def since_start(self, topic: str, measure: Measure) -> tuple[int, float]:
        items = self._topics.get(topic)
        if items is None:
            return 0, 0.0
        item = items[_MEASURES.index(measure)]
        return item.times, item.value

    def timed_out_msgs(self, topic: str) -> int:
        """How many messages of a topic ran into the consume timeout since the consumer was made."""
        return self._timed_out.get(topic, 0)

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def log_lines(self, group: str, window: Window, now_ms: int) -> Iterator[str]:
        """What Java's client writes into its log each minute, hour and day: a line per topic and measure that was ever counted."""
        name = window.name.capitalize()
        for topic in self.topics():
            for measure in _MEASURES:
                if self.since_start(topic, measure)[0]:
                    shown = self.totals(topic, measure, window, now_ms)
                    text = (
                        f"TIMES: {shown.times} AVGRT: {shown.mean:.2f}"
                        if measure.is_time
                        else f"SUM: {int(shown.sum)} TPS: {shown.per_second:.2f} AVGPT: {shown.mean:.2f}"
                    )
                    yield f"[{measure.value}] [{topic}@{group}] Stats In One {name}, {text}"

    def check_invariants(self) -> None:
        for items in self._topics.values():
            for item in items:
                for window, series in zip(_WINDOWS, item.series, strict=True):
                    times = [at_ms for at_ms, _, _ in series]
                    assert times == sorted(set(times)), "snapshots out of order"
                    assert len(series) <= window.length, "more snapshots than the window has"
                    assert not series or item.times, "an item without events has snapshots"

# SPDX-License-Identifier: Apache-2.0
"""core.statistics: what a minute, an hour and a day show, beside a plain model of Java's sampling timers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.statistics import ConsumerStatistics, Measure, Window, WindowTotals
from sprocketmq.wire.bodies import ConsumeStatus

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class JavaItem:
    """StatsItem as its timers run: a sample at each full period, of all events before it."""

    def __init__(self, window: Window) -> None:
        self.window, self.snapshots, self.value, self.times = window, [], 0.0, 0  # type: ignore[var-annotated]

    def tick(self, at_ms: int) -> None:
        if not self.times:
            return
        if not self.snapshots:
            self.snapshots.append((at_ms - self.window.period_ms, 0, 0.0))
        self.snapshots.append((at_ms, self.times, self.value))
        del self.snapshots[: -self.window.length]

    def shown(self) -> WindowTotals:
        if not self.snapshots:
            return WindowTotals(self.value, self.times, self.window.period_ms)
        first, last = self.snapshots[0], self.snapshots[-1]
        return WindowTotals(last[2] - first[2], last[1] - first[1], last[0] - first[0])


@pytest.fixture
def statistics() -> ConsumerStatistics:
    return ConsumerStatistics()


@given(
    window=st.sampled_from(Window),
    start_ms=st.integers(1, 100_000_000),
    steps=st.lists(st.tuples(st.integers(0, 12_000_000), st.integers(1, 9), st.booleans()), max_size=40),
)
def test_a_window_shows_what_javas_timers_would_have_sampled(window, start_ms, steps):
    statistics, java, now_ms = ConsumerStatistics(), JavaItem(window), start_ms
    for step_ms, value, is_event in steps:
        before_ms, now_ms = now_ms, now_ms + step_ms
        first_ms = before_ms - before_ms % window.period_ms + window.period_ms
        for at_ms in range(first_ms, now_ms + 1, window.period_ms):
            java.tick(at_ms)
        if is_event:
            statistics.consumed("t", value, 0, 1, now_ms)
            java.value += value
            java.times += 1
        statistics.check_invariants()
        if java.times:
            assert statistics.totals("t", Measure.CONSUME_OK_TPS, window, now_ms) == java.shown()


@pytest.mark.parametrize(
    ("window", "period_ms", "span_ms"),
    [
        (Window.MINUTE, 10_000, MINUTE_MS),
        (Window.HOUR, 10 * MINUTE_MS, HOUR_MS),
        (Window.DAY, HOUR_MS, 24 * HOUR_MS),
    ],
)
def test_a_window_is_a_minute_an_hour_or_a_day_and_moves_by_its_period(statistics, window, period_ms, span_ms):
    end_ms = 25 * HOUR_MS
    for at_ms in range(1, end_ms, 10_000):
        statistics.consumed("t", 1, 0, 1, at_ms)

    def shown(now_ms: int) -> tuple[int, int]:
        totals = statistics.totals("t", Measure.CONSUME_OK_TPS, window, now_ms)
        return totals.times, totals.span_ms

    assert shown(end_ms) == shown(end_ms + period_ms - 1) == (span_ms // 10_000, span_ms)
    assert shown(end_ms + period_ms) == ((span_ms - period_ms) // 10_000, span_ms)


def test_a_consumers_numbers_are_kept_by_topic(statistics):
    statistics.pulled("t", 32, 8, 0)
    statistics.pulled("t", 28, 4, 1_000)
    statistics.consumed("t", 5, 1, 20, 2_000)
    statistics.consumed("t", 0, 2, 40, 3_000)
    expected = ConsumeStatus(
        pull_rt=6.0, pull_tps=6.0, consume_rt=30.0, consume_ok_tps=0.5, consume_failed_tps=0.3, consume_failed_msgs=3
    )
    assert statistics.status("t", 4_000) == expected  # before the first sample: over one period
    assert statistics.status("t", 10_000) == expected  # at it
    # 60 s between the seven samples at 10 s .. 70 s, in which nothing happened
    minute_later = statistics.status("t", 70_000)
    assert (minute_later.pull_tps, minute_later.consume_ok_tps, minute_later.consume_failed_tps) == (0.0, 0.0, 0.0)
    assert statistics.status("other", 0) == ConsumeStatus()
    statistics.pulled("beside", 7, 1, 70_000)
    assert statistics.topics() == ["beside", "t"]
    assert statistics.since_start("beside", Measure.PULL_TPS) == (1, 7)
    assert statistics.since_start("beside", Measure.PULL_RT) == (1, 1)
    assert statistics.since_start("t", Measure.PULL_TPS) == (2, 60)
    assert statistics.since_start("other", Measure.PULL_TPS) == (0, 0.0)


def test_the_consume_time_of_a_quiet_minute_is_that_of_the_hour(statistics):
    statistics.consumed("t", 1, 0, 20, 1_000)
    assert statistics.status("t", 30 * MINUTE_MS).consume_rt == 20.0
    assert statistics.status("t", 30 * MINUTE_MS).consume_ok_tps == 0.0
    assert statistics.status("t", 3 * HOUR_MS).consume_rt == 0.0


def test_failures_are_remembered_for_an_hour(statistics):
    statistics.consumed("t", 0, 7, 1, 1_000)
    assert statistics.status("t", HOUR_MS // 2).consume_failed_msgs == 7
    assert statistics.status("t", HOUR_MS // 2).consume_failed_tps == 0.0
    assert statistics.status("t", HOUR_MS + 10 * MINUTE_MS).consume_failed_msgs == 0


def test_clock_steps_in_both_directions_do_no_harm(statistics):
    for now_ms in (100_000, 5_000, 100_500, 10**12, 10**12 - 50_000):
        statistics.consumed("t", 1, 0, 1, now_ms)
        statistics.check_invariants()
    assert statistics.since_start("t", Measure.CONSUME_OK_TPS) == (5, 5)


def test_reading_changes_nothing(statistics):
    statistics.consumed("t", 4, 0, 2, 5_000)
    early = statistics.status("t", 6_000)
    assert statistics.status("t", 10**9).consume_ok_tps == 0.0
    assert statistics.status("t", 6_000) == early


def test_the_log_has_javas_lines(statistics):
    statistics.pulled("t", 3, 7, 1_000)
    statistics.consumed("t", 3, 0, 5, 2_000)
    assert list(statistics.log_lines("g", Window.MINUTE, 60_000)) == [
        "[PULL_RT] [t@g] Stats In One Minute, TIMES: 1 AVGRT: 7.00",
        "[PULL_TPS] [t@g] Stats In One Minute, SUM: 3 TPS: 0.05 AVGPT: 3.00",
        "[CONSUME_RT] [t@g] Stats In One Minute, TIMES: 1 AVGRT: 5.00",
        "[CONSUME_OK_TPS] [t@g] Stats In One Minute, SUM: 3 TPS: 0.05 AVGPT: 3.00",
    ]

"""core.statistics: what a minute remembers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.statistics import ConsumerStatistics, RollingWindow
from sprocketmq.wire.bodies import ConsumeStatus


def test_rates_are_per_second_and_means_per_event() -> None:
    window = RollingWindow()
    for second in range(60):
        window.add(32, second * 1000)
    totals = window.totals(60_000)
    assert (totals.count, totals.total, totals.span_ms) == (60, 32 * 60, 60_000)
    assert (totals.per_second, totals.mean) == (32.0, 32.0)


def test_a_young_window_divides_by_its_age() -> None:
    window = RollingWindow()
    window.add(100, 0)
    assert window.totals(20_000).per_second == 5.0
    assert window.totals(0).per_second == 10.0
    assert RollingWindow().totals(5).per_second == 0.0


def test_what_is_over_a_minute_old_is_forgotten() -> None:
    window = RollingWindow()
    window.add(1, 0)
    assert window.totals(69_999).count == 1
    assert window.totals(70_000).count == 0
    assert window.totals(70_000).mean == 0.0


@given(steps=st.lists(st.tuples(st.integers(-5_000, 30_000), st.integers(0, 9)), max_size=80))
def test_a_window_holds_what_is_recent_in_bounded_memory(steps: list[tuple[int, int]]) -> None:
    window, now_ms, newest_ms, added = RollingWindow(), 1_000_000, 1_000_000, []
    for step_ms, value in steps:
        now_ms += step_ms
        newest_ms = max(newest_ms, now_ms)
        window.add(value, now_ms)
        added.append((now_ms, value))
        window.check_invariants()
    total = window.totals(newest_ms).total
    # a clock that steps back books into the newest slot, so only the bounds are sure
    assert total <= sum(value for _, value in added)
    assert total >= sum(value for at_ms, value in added if at_ms > newest_ms - 60_000)


def test_a_consumers_numbers_are_kept_by_topic() -> None:
    statistics = ConsumerStatistics()
    statistics.pulled("t", 32, 8, 0)
    statistics.pulled("t", 28, 4, 1_000)
    statistics.consumed("t", 5, 1, 20, 2_000)
    statistics.consumed("t", 0, 2, 40, 3_000)
    status = statistics.status("t", 30_000)
    assert status == ConsumeStatus(
        pull_rt=6.0,
        pull_tps=2.0,
        consume_rt=30.0,
        consume_ok_tps=5 / 28,
        consume_failed_tps=3 / 28,
        consume_failed_msgs=3,
    )
    assert statistics.status("other", 0) == ConsumeStatus()
    assert statistics.topics() == ["t"]


def test_failures_are_remembered_for_an_hour() -> None:
    statistics = ConsumerStatistics()
    statistics.consumed("t", 0, 7, 1, 0)
    assert statistics.status("t", 1_800_000).consume_failed_msgs == 7
    assert statistics.status("t", 1_800_000).consume_failed_tps == 0.0
    assert statistics.status("t", 4_000_000).consume_failed_msgs == 0
    statistics.remove("t")
    assert statistics.topics() == []

"""The pace of looks at the brokers."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.spark.read.broker_watch import Pace


@settings(deadline=None)
@given(st.lists(st.floats(0.75, 1.25), max_size=40))
def test_looks_that_bring_nothing_are_further_and_further_apart_up_to_a_quarter_second(jitters: list[float]) -> None:
    pace, now_s, pauses = Pace(), 100.0, []
    for jitter in jitters:
        pace.nothing(now_s, jitter)
        pauses.append(pace.wait_s(now_s) / jitter)
        now_s += pace.wait_s(now_s)
        assert pace.wait_s(now_s) == 0
    assert all(0.049 < pause < 0.251 for pause in pauses)
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(pauses))


def test_after_news_the_next_look_is_due_at_once() -> None:
    pace = Pace()
    for _ in range(9):
        pace.nothing(5.0, 1.0)
    pace.news()
    assert pace.wait_s(5.0) == 0
    pace.nothing(5.0, 1.0)
    assert 0.04 < pace.wait_s(5.0) < 0.06

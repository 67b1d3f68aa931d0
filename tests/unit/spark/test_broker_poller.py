# SPDX-License-Identifier: Apache-2.0
"""The interval of looks at the brokers."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.spark.read.broker_poller import PollInterval


@settings(deadline=None)
@given(st.lists(st.floats(0.75, 1.25), max_size=40))
def test_looks_that_bring_nothing_are_further_and_further_apart_up_to_a_quarter_second(jitters: list[float]) -> None:
    interval, now_s, pauses = PollInterval(), 100.0, []
    for jitter in jitters:
        interval.lengthen(now_s, jitter)
        pauses.append(interval.wait_s(now_s) / jitter)
        now_s += interval.wait_s(now_s)
        assert interval.wait_s(now_s) == 0
    assert all(0.049 < pause < 0.251 for pause in pauses)
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(pauses))


def test_after_news_the_next_look_is_due_at_once() -> None:
    interval = PollInterval()
    for _ in range(9):
        interval.lengthen(5.0, 1.0)
    interval.reset()
    assert interval.wait_s(5.0) == 0
    interval.lengthen(5.0, 1.0)
    assert 0.04 < interval.wait_s(5.0) < 0.06

# SPDX-License-Identifier: Apache-2.0
"""When work that many ask for runs: never sooner than its interval allows, and never too late for anybody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.coalesced_runs import CoalescedRuns

INTERVAL_MS = 1_000
# Steps of a driver: time passes, somebody asks with a delay, a run that is under way ends.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 2_000)),
        st.tuples(st.just("ask"), st.sampled_from([0, 0, 0, 1, 500, 1_000, 20_000])),
        st.tuples(st.just("end"), st.just(0)),
    ),
    max_size=60,
)


def test_the_first_run_is_due_at_once_and_the_next_an_interval_after_its_end():
    pace = CoalescedRuns(INTERVAL_MS)
    assert pace.due_ms is None
    pace.ask(50)
    assert pace.due_ms == 50
    pace.begin()
    pace.ask(60)
    assert pace.due_ms is None, "one run at a time"
    pace.end(70)
    assert pace.due_ms == 1_070


def test_an_earlier_run_also_serves_a_delayed_request():
    pace = CoalescedRuns(INTERVAL_MS)
    pace.ask(0, 20_000)
    pace.ask(0, 3_000)
    pace.ask(0, 9_000)
    assert pace.due_ms == 3_000
    pace.begin()
    pace.end(3_000)
    assert pace.due_ms is None


@given(STEPS)
def test_runs_keep_the_interval_and_each_request_is_followed_by_a_run(steps):
    pace, now_ms, free_ms = CoalescedRuns(INTERVAL_MS), 0, 0
    wishes: list[int] = []  # latest times by which those that wait are due
    for step, number in [*steps, ("end", 0), ("pass", 50_000)]:
        if step == "pass":
            now_ms += number
        elif step == "ask":
            pace.ask(now_ms, number)
            wishes.append(now_ms + number)
        elif pace.is_running:
            pace.end(now_ms)
            free_ms = now_ms + INTERVAL_MS
        if pace.is_running:
            assert pace.due_ms is None
        else:
            assert pace.due_ms == (max(min(wishes), free_ms) if wishes else None)
            if pace.due_ms is not None and pace.due_ms <= now_ms:
                pace.begin()
                wishes.clear()

# SPDX-License-Identifier: Apache-2.0
"""The laws of core.buffer_budget, over made-up histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.buffer_budget import BufferBudget

LIMIT = 1_000
NOTES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 600), st.integers(0, 600), st.floats(0, 5), st.booleans()), max_size=40
)


def played(
    notes: list[tuple[int, int, int, float, bool]],
) -> tuple[BufferBudget[int], dict[int, tuple[int, int]], float]:
    """The budget, what it should know, and the time."""
    budget: BufferBudget[int] = BufferBudget(LIMIT)
    known: dict[int, tuple[int, int]] = {}
    now_s = 0.0
    for holder, in_bytes, out_bytes, passed_s, is_gone in notes:
        now_s += passed_s
        if is_gone:
            budget.discard(holder)
            known.pop(holder, None)
        else:
            budget.note(holder, in_bytes, out_bytes, now_s)
            known[holder] = (in_bytes, out_bytes)
    return budget, known, now_s


@pytest.fixture
def budget() -> BufferBudget[str]:
    return BufferBudget(LIMIT)


@given(NOTES)
def test_the_sums_are_those_of_the_last_notes(notes):
    budget, known, _ = played(notes)
    assert budget.in_bytes == sum(share[0] for share in known.values())
    assert budget.out_bytes == sum(share[1] for share in known.values())
    assert set(budget.holders) == {holder for holder, share in known.items() if any(share)}
    assert all(budget.bytes_of(holder) == sum(known.get(holder, (0, 0))) for holder in range(9))


@given(NOTES)
def test_the_closed_connections_are_just_enough(notes):
    budget, _, now_s = played(notes)
    victims = budget.victims(now_s)
    assert bool(victims) == budget.is_over
    assert victims == budget.victims(now_s)
    for number, victim in enumerate(victims):
        assert budget.is_over, f"{len(victims) - number} too many"
        budget.discard(victim)
    assert not budget.is_over


def test_connections_are_closed_by_bytes_times_seconds_and_not_by_bytes(budget):
    budget.note("for a minute", 300, 0, 0.0)
    budget.note("just now", 800, 0, 60.0)
    assert budget.victims(60.0) == ["for a minute"]


def test_no_connection_is_closed_exactly_at_the_limit(budget):
    budget.note("one", 500, 0, 0.0)
    budget.note("two", 0, 500, 0.0)
    assert budget.victims(1.0) == []
    budget.note("three", 500, 0, 0.0)
    assert budget.victims(1.0) == ["one"], "without it the others fit exactly"


def test_of_two_that_began_together_the_larger_goes(budget):
    budget.note("small", 400, 0, 0.0)
    budget.note("large", 0, 900, 0.0)
    assert budget.victims(0.0) == ["large"]


def test_a_peer_that_reads_again_starts_a_new_interval(budget):
    budget.note("reads", 0, 900, 0.0)
    budget.note("deaf", 0, 500, 0.0)
    budget.note("reads", 0, 600, 60.0)
    assert budget.victims(60.0) == ["deaf"]

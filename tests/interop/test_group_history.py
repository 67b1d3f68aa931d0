# SPDX-License-Identifier: Apache-2.0
"""The history checker itself: it accepts what is right, and names each way of being wrong."""

from __future__ import annotations

import pytest

from interop.group_history import History


def good() -> History:
    """Two queues; a consumes queue 0 and is killed over its last message, b has queue 1 and takes queue 0 over from the start."""
    history = History(queues=2, orderly=True)
    history.sent = {(0, 0): "x", (0, 1): "y", (1, 0): "z"}
    history.began("a", (0, 0), "x", 10)
    history.began("b", (1, 0), "z", 12)
    history.ended("a", (0, 0), 15)
    history.began("a", (0, 1), "y", 16)
    history.died("a", 18)
    history.ended("b", (1, 0), 20)
    history.began("b", (0, 0), "x", 20)
    history.ended("b", (0, 0), 21)
    history.began("b", (0, 1), "y", 22)
    history.ended("b", (0, 1), 23)
    history.settled = {"b": [0, 1]}
    return history


def lose(history: History) -> None:
    history.sent[1, 1] = "lost"


def overlap_with_the_dead(history: History) -> None:
    history.deaths["a"] = 21


def overlap(history: History) -> None:
    history.began("c", (1, 0), "z", 13)


def skip(history: History) -> None:
    history.sent |= {(1, 1): "v", (1, 2): "w"}
    for offset, body, begin in ((2, "w", 30), (1, "v", 32)):
        history.began("b", (1, offset), body, begin)
        history.ended("b", (1, offset), begin + 1)


def unanswered(history: History) -> None:
    history.doubtful = {"in doubt", "never stored"}
    history.began("b", (1, 1), "in doubt", 30)
    history.ended("b", (1, 1), 31)


def unanswered_where_another_is(history: History) -> None:
    unanswered(history)
    history.began("b", (1, 1), "never stored", 32)


def two_owners(history: History) -> None:
    history.settled = {"b": [0, 1], "c": [1]}


def no_owner(history: History) -> None:
    history.settled = {"b": [1]}


def test_a_take_over_after_a_kill_breaks_no_law():
    assert good().problems() == []


def test_a_send_without_an_answer_may_have_been_stored_or_not():
    history = good()
    unanswered(history)
    assert history.problems() == []


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lose, "was never consumed"),
        (overlap_with_the_dead, "queue 0 was in two hands"),
        (overlap, "queue 1 was in two hands"),
        (skip, "before all earlier ones had ended"),
        (unanswered_where_another_is, "b consumed 'never stored' at (1, 1), where 'in doubt' was sent"),
        (two_owners, "owned twice"),
        (no_owner, "owned by nobody"),
    ],
)
def test_each_breach_is_named(spoil, sentence):
    history = good()
    spoil(history)
    assert any(sentence in problem for problem in history.problems()), history.problems()


def test_a_concurrent_group_may_overlap_and_come_again():
    history = good()
    overlap(history)
    skip(history)
    history.orderly = False
    assert history.problems() == []

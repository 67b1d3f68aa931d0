# SPDX-License-Identifier: Apache-2.0
"""The life of a client: the table of its calls, and its laws against a driver that may be cancelled anywhere."""

from __future__ import annotations

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import booleans

from sprocketmq.core.lifecycle import Lifecycle, LifeState, ShutdownStep, StartStep


def _in(state: LifeState, *, restarts: bool) -> Lifecycle:
    """A life that came to ``state`` by a start and a shutdown."""
    life = Lifecycle(restarts=restarts)
    if state is LifeState.NEW:
        return life
    life.start()
    if state is not LifeState.STARTING:
        life.opened()
    if state in (LifeState.STOPPING, LifeState.ENDED):
        life.shutdown()
    if state is LifeState.ENDED:
        life.closed()
    assert life.state is state
    return life


@pytest.mark.parametrize(
    ("state", "start", "start_again", "shutdown"),
    [
        (LifeState.NEW, StartStep.OPEN, StartStep.OPEN, ShutdownStep.DONE),
        (LifeState.STARTING, StartStep.JOIN, StartStep.JOIN, ShutdownStep.CANCEL_OPENING),
        (LifeState.RUNNING, StartStep.DONE, StartStep.DONE, ShutdownStep.CLOSE),
        (LifeState.STOPPING, StartStep.REFUSED, StartStep.AFTER_CLOSING, ShutdownStep.JOIN),
        (LifeState.ENDED, StartStep.REFUSED, StartStep.OPEN, ShutdownStep.DONE),
    ],
)
def test_every_call_has_its_answer_in_every_state(state, start, start_again, shutdown):
    assert _in(state, restarts=False).start() is start
    assert _in(state, restarts=True).start() is start_again
    for restarts in (False, True):
        assert _in(state, restarts=restarts).shutdown() is shutdown
        assert _in(state, restarts=restarts).is_stopped == (state in (LifeState.NEW, LifeState.ENDED))


def test_a_start_that_nobody_waits_for_is_undone_and_may_be_repeated():
    life = Lifecycle(restarts=False)
    assert life.start() is StartStep.OPEN
    assert life.start() is StartStep.JOIN
    assert not life.start_abandoned(), "the other one still waits"
    assert life.start_abandoned()
    assert life.start() is StartStep.AFTER_CLOSING
    assert not life.opened(), "it opened all the same: this must be closed"
    life.closed()
    assert life.start() is StartStep.OPEN


def test_a_shutdown_of_a_start_that_is_being_undone_is_for_good():
    life = Lifecycle(restarts=False)
    life.start()
    assert life.start_abandoned()
    assert life.shutdown() is ShutdownStep.JOIN
    life.closed()
    assert life.state is LifeState.ENDED
    assert life.start() is StartStep.REFUSED


class Driver(RuleBasedStateMachine):
    """Calls in any order, work that ends in any way at any moment, callers who stop waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Lifecycle(restarts=False)
        self.work: str | None = None  # "opening" or "closing"
        self.waiting = 0  # callers of start
        self.is_open = False
        self.must_not_run = False  # shut down, or left by everybody, and not started since
        self.restarts = False

    @precondition(lambda self: self.life.state is LifeState.NEW and not self.restarts)
    @rule(restarts=booleans())
    def make(self, restarts: bool) -> None:
        self.life, self.restarts = Lifecycle(restarts=restarts), restarts

    @rule()
    def start(self) -> None:
        step = self.life.start()
        if step is StartStep.OPEN:
            assert self.work is None, "law 1"
            self.work, self.waiting, self.must_not_run = "opening", 1, False
        elif step is StartStep.JOIN:
            assert self.work == "opening"
            self.waiting += 1
        elif step is StartStep.DONE:
            assert self.is_open
        else:
            assert self.must_not_run, "it was neither shut down nor left"
            assert step is StartStep.REFUSED or self.work is not None, "there is nothing to wait for"

    @precondition(lambda self: self.waiting)
    @rule()
    def a_caller_of_start_is_cancelled(self) -> None:
        self.waiting -= 1
        if self.life.start_abandoned():
            assert self.waiting == 0, "somebody still waits"
            self.must_not_run = True

    @rule()
    def shutdown(self) -> None:
        step = self.life.shutdown()
        if step is ShutdownStep.CLOSE:
            assert self.work is None, "law 1"
            assert self.is_open, "law 2"
            self.work, self.must_not_run = "closing", True
        elif step is ShutdownStep.DONE:
            assert not self.is_open
            assert self.work is None
        else:
            assert self.work is not None, "there is nothing to wait for"
            self.must_not_run = True

    @precondition(lambda self: self.work == "opening")
    @rule()
    def it_opens(self) -> None:
        self.is_open, self.waiting = True, 0
        runs = self.life.opened()
        assert runs is not self.must_not_run, "laws 3 and 4"
        self.work = None if runs else "closing"

    @precondition(lambda self: self.work == "opening")
    @rule()
    def it_does_not_open(self) -> None:
        self.work, self.waiting = None, 0
        self.life.closed()
        assert self.life.is_stopped

    @precondition(lambda self: self.work == "closing")
    @rule()
    def it_is_closed(self) -> None:
        assert self.is_open, "law 2"
        self.work, self.is_open = None, False
        self.life.closed()

    @invariant()
    def the_state_says_what_is_open(self) -> None:
        state = self.life.state
        assert (state is LifeState.RUNNING) == (self.is_open and self.work is None)
        assert self.life.is_stopped == (self.work is None and not self.is_open)


TestLifecycleLaws = Driver.TestCase

# SPDX-License-Identifier: Apache-2.0
"""Who may end a transaction, and by which copy of its half."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from sprocketmq.core.transactions.open_transactions import (
    HalfPlace,
    LocalTransactionState,
    OpenTransactions,
    local_transaction_state,
)

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState
STATES = st.sampled_from(list(LocalTransactionState))


def place(offset: int, broker: str = "a") -> HalfPlace:
    return HalfPlace(broker, offset, offset * 100)


def test_an_invalid_transaction_state_is_unknown_and_not_allowed():
    assert local_transaction_state(COMMIT) == (COMMIT, True)
    for answer in (None, True, "COMMIT_MESSAGE", 8):
        assert local_transaction_state(answer) == (UNKNOWN, False)


def test_an_end_names_the_newest_copy_that_the_halfs_own_broker_named():
    table = OpenTransactions(10)
    table.begin("t", place(1))
    assert table.asked("t", place(5))
    assert table.checked("t", UNKNOWN) == (place(5), UNKNOWN)
    assert table.asked("t", place(7, "b"))  # a half of an earlier try of the same send, on another broker
    table.checked("t", UNKNOWN)
    assert table.finished("t", COMMIT) == place(5)
    assert len(table) == 0


def test_a_check_does_not_roll_back_what_still_runs_here():
    table = OpenTransactions(10)
    table.begin("t", place(1))
    assert table.asked("t", place(2))
    assert table.checked("t", ROLLBACK) == (place(2), UNKNOWN)
    assert table.finished("t", COMMIT) == place(2)
    assert table.asked("u", place(3))  # of a member that died: nothing runs here
    assert table.checked("u", ROLLBACK) == (place(3), ROLLBACK)


class Transactions(RuleBasedStateMachine):
    """Against a plain model: what runs, what is checked, what was told."""

    def __init__(self) -> None:
        super().__init__()
        self.table = OpenTransactions(3)
        self.running: set[str] = set()
        self.checking: set[str] = set()
        self.ended: dict[str, int] = {}
        self.newest: dict[str, HalfPlace] = {}
        self.offset = 0

    def next_place(self) -> HalfPlace:
        self.offset += 1
        return place(self.offset)

    def told(self, key: str, where: HalfPlace | None, state: LocalTransactionState) -> None:
        if where is not None:
            assert where == self.newest[key]
            if state is not UNKNOWN:
                self.ended[key] = self.ended.get(key, 0) + 1
                assert self.ended[key] == 1
        if key not in self.running | self.checking:
            self.ended.pop(key, None)

    @rule(key=st.sampled_from("abcde"))
    def begin(self, key: str) -> None:
        if key in self.running | self.checking:
            return
        self.newest[key] = self.next_place()
        self.table.begin(key, self.newest[key])
        self.running.add(key)

    @rule(key=st.sampled_from("abcde"))
    def ask(self, key: str) -> None:
        where = self.next_place()
        expected = key not in self.checking and len(self.checking) < 3
        assert self.table.asked(key, where) is expected
        if expected:
            self.checking.add(key)
        if key in self.running | self.checking:
            self.newest[key] = where

    @precondition(lambda self: self.running)
    @rule(state=STATES, data=st.data())
    def finish(self, state: LocalTransactionState, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(key)
        self.told(key, self.table.finished(key, state), state)

    @precondition(lambda self: self.checking)
    @rule(state=STATES, data=st.data())
    def answer(self, state: LocalTransactionState, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.checking)))
        self.checking.discard(key)
        where, said = self.table.checked(key, state)
        assert said is (UNKNOWN if key in self.running and state is ROLLBACK else state)
        self.told(key, where, said)

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()
        assert self.table.checks == len(self.checking)
        assert len(self.table) == len(self.running | self.checking)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(30), stateful_step_count=30)

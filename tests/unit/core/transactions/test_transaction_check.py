# SPDX-License-Identifier: Apache-2.0
"""core.transaction_check: the policy as a table, what is known of halves against a model that forgets nothing."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from sprocketmq.core.transactions.transaction_check import (
    CheckRules,
    Outcome,
    TransactionId,
    TransactionTable,
    Verdict,
    half_offsets_of_op,
    judge,
)

HOUR_MS = 3_600_000
RULES = CheckRules(timeout_ms=6_000, check_max=15, reserved_ms=72 * HOUR_MS)
NOW_MS = 1_000_000_000


def transaction(name: object) -> TransactionId:
    return TransactionId.of(f"key-{name}", 1, (b"\x7f\x00\x00\x01", 50_000), "flights", 7)


@pytest.fixture
def table() -> TransactionTable:
    return TransactionTable(0, 0)


def test_an_id_is_small_however_long_the_names_are_and_another_one_when_any_fact_differs():
    host = (b"\x7f\x00\x00\x01", 50_000)
    facts = [("key", 1, host, "flights", 7), ("kez", 1, host, "flights", 7), ("key", 2, host, "flights", 7)]
    facts += [("key", 1, (host[0], 50_001), "flights", 7), ("key", 1, host, "fli", 7), ("key", 1, host, "flights", 8)]
    facts += [("x" * 30_000, 1, host, "y" * 30_000, 7), ("", 1, host, "keyflights", 7), ("\ud800", 1, host, "", 7)]
    ids = {TransactionId.of(*some) for some in facts}
    assert len(ids) == len(facts)
    assert {len(one) for one in ids} == {16}
    assert TransactionId.of(*facts[0]) in ids


def verdict(age_ms: int, *, times: str | None = None, immunity: str | None = None, stored_ms: int = 0) -> Verdict:
    return judge(
        RULES,
        now_ms=NOW_MS,
        believed_ms=NOW_MS,
        round_ms=NOW_MS,
        born_timestamp_ms=NOW_MS - age_ms,
        store_timestamp_ms=stored_ms,
        check_times=times,
        immunity=immunity,
    )


@pytest.mark.parametrize(
    ("age_ms", "options", "expected"),
    [
        (6_000, {}, Verdict.WAIT),
        (6_001, {}, Verdict.CHECK),
        (-1, {}, Verdict.CHECK),  # born in the future: its producer's clock is wrong, and would be for hours
        (60_000, {"stored_ms": NOW_MS}, Verdict.WAIT),
        (60_000, {"times": "14"}, Verdict.CHECK),
        (60_000, {"times": "15"}, Verdict.DISCARD),
        (60_000, {"times": "many"}, Verdict.CHECK),
        (0, {"times": "15", "stored_ms": NOW_MS}, Verdict.DISCARD),
        (72 * HOUR_MS, {}, Verdict.CHECK),
        (72 * HOUR_MS + 1, {}, Verdict.DISCARD),
        (60_000, {"immunity": "60"}, Verdict.PUT_BACK),
        (60_001, {"immunity": "60"}, Verdict.CHECK),
        (1, {"immunity": "0"}, Verdict.CHECK),
        (6_000, {"immunity": "soon"}, Verdict.PUT_BACK),
        (6_001, {"immunity": "soon"}, Verdict.CHECK),
        (6_000, {"immunity": "-1"}, Verdict.PUT_BACK),
        (1, {"immunity": "-2"}, Verdict.CHECK),
    ],
)
def test_a_half_gets_the_verdict_that_apache_gives(age_ms, options, expected):
    assert verdict(age_ms, **options) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("age_ms", "immunity", "late"),
    [(10**9, None, False), (60_000, "60", False), (60_001, "60", True), (6_000, "1", False), (6_001, "x", True)],
)
def test_a_producer_that_chose_its_time_must_end_within_it(age_ms, immunity, late):
    assert RULES.is_end_too_late(age_ms, immunity) is late


@pytest.mark.parametrize(
    ("body", "offsets"),
    [(b"7", [7]), (b"7,", [7]), (b"7,12,9,", [7, 12, 9]), (b"", []), (b"d,-1,7,9999999999999999999,", [7])],
)
def test_op_messages_of_both_versions_are_read(body, offsets):
    assert half_offsets_of_op(body) == offsets


def test_progress_passes_what_is_settled_and_stops_at_the_first_open_half(table):
    for op_offset, half in enumerate((0, 1, 3)):
        table.ended(transaction(half), Outcome.COMMIT)
        table.marked(half, transaction(half), op_offset)
    assert table.next_open(5, 100) == 2
    assert (table.half_progress, table.op_progress) == (2, 2), "the op of half 3 is still needed"
    table.copied(2, transaction(2), 5)
    assert table.next_open(5, 100) == 4
    assert (table.half_progress, table.op_progress) == (4, 3)


def test_a_round_looks_at_no_more_halves_than_it_may_in_one_turn(table):
    for half in range(10):
        table.marked(half, transaction(half), half)
    assert table.next_open(10, 4) is None
    assert table.half_progress == 4
    assert table.next_open(10, 100) is None
    assert table.half_progress == 10


def test_an_end_after_the_half_was_given_up_is_still_the_first_end(table):
    table.discarded(0, transaction("t"))
    assert table.next_open(1, 10) is None
    assert table.settlement(0, transaction("t")).before is None


def test_a_copy_that_a_start_set_aside_is_no_end_for_the_next_start():
    table, one = TransactionTable(0, 0), transaction(1)
    table.found_op(0, [1], 3, set_aside=True)  # a kill, a start that marked the older of two copies, and another kill
    table.found_half(1, one, is_copy=True, older=[])
    table.found_half(2, one, is_copy=True, older=[1])
    assert not table.is_ended(one)
    assert (table.settlement(2, one).before, table.settlement(2, one).offset) == (None, 2)
    table.check_invariants()


def test_an_end_that_names_a_half_which_was_set_aside_is_the_first_end():
    table, one = TransactionTable(0, 0), transaction(1)
    table.found_half(0, one, is_copy=False, older=[])
    table.found_half(1, one, is_copy=True, older=[0])
    assert table.superseded == [0]
    table.marked(0, one, 0, set_aside=True)
    assert (table.settlement(0, one).before, table.settlement(0, one).offset) == (None, 1)
    table.check_invariants()
    table.ended(one, Outcome.COMMIT)
    table.marked(1, one, 1)
    assert table.next_open(2, 100) is None
    table.check_invariants()
    assert table.settlement(0, one).before is Outcome.COMMIT


def test_a_half_that_was_set_aside_behind_progress_is_no_end_after_a_restart():
    table, one = TransactionTable(1, 0), transaction(1)
    table.found_op(0, [0], 2, set_aside=True)
    table.found_half(1, one, is_copy=True, older=[])
    assert (table.settlement(0, one).before, table.settlement(0, one).offset) == (None, 1)


def test_marks_beyond_the_half_queue_mean_nothing(table):
    table.found_op(0, [5], half_end=5)
    assert not table.is_settled(5)
    assert table.op_progress == 1


def test_what_is_remembered_of_ended_transactions_is_bounded():
    table = TransactionTable(0, 0, remembered=10)
    for half in range(1_000):
        table.ended(transaction(half), Outcome.ROLLBACK)
        table.marked(half, transaction(half), half)
        table.next_open(half + 1, 10)
    assert table.held == 10


class Transactions(RuleBasedStateMachine):
    """Producers, rounds and kills in any order, against two lists: the half queue and the op queue."""

    OPS_READ_AGAIN = 3

    def __init__(self) -> None:
        super().__init__()
        self.halves: list[tuple[str, bool]] = []  # (transaction, is a copy) by half offset
        self.ops: list[list[int]] = []
        self.truth: dict[str, Outcome] = {}  # how each transaction ended, by its first END
        self.commits: dict[str, int] = {}
        self.given_up: set[str] = set()
        self.lost: set[str] = set()  # ended before a kill
        self.forgotten: set[str] = (
            set()
        )  # ended before a kill, passed after it, and ended again: Apache's second commit
        self.table = TransactionTable(0, 0, remembered=100)
        self.saved = (0, 0)
        self.killed = False

    def name_of(self, offset: int) -> str:
        return self.halves[offset][0]

    def newest(self, name: str) -> int:
        return max(offset for offset in range(len(self.halves)) if self.name_of(offset) == name)

    @rule()
    def half(self) -> None:
        self.halves.append((f"t{len(self.halves)}", False))

    @precondition(lambda self: self.halves)
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.COMMIT, Outcome.ROLLBACK]))
    def end(self, data: st.DataObject, outcome: Outcome) -> None:
        offset = data.draw(st.integers(0, len(self.halves) - 1))
        name = self.name_of(offset)
        settlement = self.table.settlement(offset, transaction(name))
        if settlement.before is None:
            if name in self.truth:
                assert name in self.lost, "law 1"
                assert self.newest(name) < self.table.half_progress, "law 1"
                self.forgotten.add(name)
            self.truth[name] = outcome
            if outcome is Outcome.COMMIT:
                self.commits[name] = self.commits.get(name, 0) + 1
            self.table.ended(transaction(name), outcome)
        else:
            assert settlement.before in (self.truth[name], Outcome.UNKNOWN), "law 1"
        if settlement.offset is not None:
            self.ops.append([settlement.offset])
            self.table.marked(settlement.offset, transaction(name), len(self.ops) - 1)

    @rule(data=st.data())
    def check_round(self, data: st.DataObject) -> None:
        end = len(self.halves)
        passed = []
        while (offset := self.table.next_open(end, 3)) is not None or self.table.half_progress < end:
            if offset is None:
                continue
            name = self.name_of(offset)
            assert name not in self.truth, f"{name} ended, and is asked for"
            passed.append(name)
            what = data.draw(st.sampled_from(["wait", "copy", "copy", "discard"]))
            if what == "wait":
                break
            if what == "copy":
                self.halves.append((name, True))
                self.table.copied(offset, transaction(name), len(self.halves) - 1)
            else:
                self.given_up.add(name)
                self.table.discarded(offset, transaction(name))
        assert len(passed) == len(set(passed)), "law 2: a transaction is asked for twice in one round"

    @rule()
    def save(self) -> None:
        self.saved = (self.table.half_progress, self.table.op_progress)

    @rule()
    def kill(self) -> None:
        """Memory is lost, the queues are not; progress is as it was last saved."""
        table = TransactionTable(*self.saved, remembered=100)
        for offset in range(min(self.saved[1], max(0, len(self.ops) - self.OPS_READ_AGAIN)), len(self.ops)):
            table.found_op(offset, self.ops[offset], len(self.halves))
        seen: dict[str, list[int]] = {}
        for offset in range(self.saved[0], len(self.halves)):
            name, is_copy = self.halves[offset]
            if is_copy or not table.is_settled(offset):
                older = seen.setdefault(name, [])
                table.found_half(offset, transaction(name), is_copy=is_copy, older=older)
                older.append(offset)
        self.table = table
        self.lost.update(self.truth)
        self.killed = True

    @invariant()
    def no_transaction_is_committed_twice(self) -> None:
        assert all(times == 1 for name, times in self.commits.items() if name not in self.forgotten)

    @invariant()
    def every_open_transaction_is_still_ahead(self) -> None:
        for name in {name for name, _ in self.halves} - set(self.truth) - self.given_up:
            newest = self.newest(name)
            assert newest >= self.table.half_progress, "law 2"
            assert not self.table.is_settled(newest)

    @invariant()
    def ops_of_halves_ahead_are_kept(self) -> None:
        for op_offset, halves in enumerate(self.ops):
            if any(half >= self.table.half_progress and self.table.is_settled(half) for half in halves):
                first = min(op for op, named in enumerate(self.ops) if set(named) & set(halves))
                assert self.table.op_progress <= first or op_offset >= self.table.op_progress, "law 4"

    @invariant()
    def open_halves_are_counted_once_each(self) -> None:
        ahead = {name for name, _ in self.halves} - set(self.truth) - self.given_up
        assert self.table.open_halves(len(self.halves)) >= len(ahead)
        if not self.killed:  # after a kill a half that was given up may be open again
            assert self.table.open_halves(len(self.halves)) == len(ahead)

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)

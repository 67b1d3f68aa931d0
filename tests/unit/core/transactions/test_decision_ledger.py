# SPDX-License-Identifier: Apache-2.0
"""Decisions of batches: which record counts, what a broker is told, and a world in which everybody may die between any two steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from sprocketmq.core.transactions.decision_ledger import (
    AppendDecision,
    BatchStatus,
    Decision,
    DecisionLedger,
    EndAttempts,
    OtherTopics,
    QuerySummary,
    Record,
    RowCountMismatch,
    can_end_directly,
    commit_step,
    direct_end_window_ms,
)
from sprocketmq.core.transactions.open_transactions import LocalTransactionState

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState
Log = list[tuple[int, Record]]


def decision(batch: int, read_to: int, *attempts: str, query: str = "q") -> Decision:
    return Decision(query, batch, frozenset(attempts), read_to)


def log_of(*decisions: Decision) -> Log:
    return list(enumerate(decisions))


def read(log: Log, start: int = 0, *, oldest: int = 0, end: int | None = None) -> DecisionLedger:
    """The log from ``start`` on, as somebody reads it: from its end backwards."""
    end = len(log) if end is None else end
    ledger = DecisionLedger(end)
    ledger.read_older([entry for entry in log if start <= entry[0] < end], start, oldest)
    return ledger


def test_a_decision_is_read_as_it_was_written_and_anything_else_decides_nothing():
    wanted = Decision("q", 5, frozenset({"a", "b"}), 17, frozenset({"a/7/0"}))
    assert Decision.decode(wanted.encode()) == wanted
    counted = Decision("q", 5, frozenset({"a", "b"}), 17, frozenset({"a/7/0"}), 40)
    assert Decision.decode(counted.encode()) == counted
    for body in (b"", b"[]", b"7", b"{}", b"\xff", b'{"v":1,"query":"q"}'):
        assert Decision.decode(body) is None
    for old, new in ((b'"v":1', b'"v":2'), (b'"a/7/0"', b"7"), (b'["a","b"]', b'"ab"'), (b":17", b":true")):
        assert Decision.decode(wanted.encode().replace(old, new)) is None


def test_a_query_summary_is_decoded_as_encoded():
    note = QuerySummary(frozenset({"q", "r"}), 7)
    assert QuerySummary.decode(note.encode()) == note
    assert Decision.decode(note.encode()) is None
    assert QuerySummary.decode(decision(5, 1, "a").encode()) is None
    for body in (
        b"",
        b"[]",
        b'{"v":1,"readTo":1}',
        b'{"v":2,"queries":[],"readTo":1}',
        b'{"v":1,"queries":[],"readTo":"1"}',
    ):
        assert QuerySummary.decode(body) is None


def test_for_a_query_that_a_note_does_not_name_nobody_reads_further_back():
    log = log_of(decision(4, 0, "x"), decision(0, 1, "y", query="r"))
    note = read(log).summary(2)
    assert note == QuerySummary(frozenset({"q", "r"}), 2)
    assert read(log).summary(3) is None, "too few since the beginning"
    assert read(log, 1).summary(1) is None, "what lies before is not known"
    log += [(2, note), (3, decision(0, 2, "z", query="s"))]
    ledger = read(log, 2)
    assert ledger.batch_status("new", 0) is BatchStatus.OPEN
    assert commit_step(ledger, "new", 0, frozenset({"a"})) == AppendDecision(decision(0, 4, "a", query="new"))
    assert ledger.batch_status("s", 0) is BatchStatus.DECIDED
    assert ledger.batch_status("q", 5) is BatchStatus.UNREAD
    late = [*log[:2], (2, decision(0, 2, "a", query="new")), (3, note)]
    assert read(late, 3).batch_status("new", 0) is BatchStatus.UNREAD, "what the note's writer had not seen is not read"
    assert read(late, 2).batch_status("new", 0) is BatchStatus.DECIDED
    assert ledger.summary(2) == QuerySummary(frozenset({"q", "r", "s"}), 4), (
        "a note is carried on by who has read back to it"
    )
    assert ledger.summary(3) is None


def test_a_half_whose_send_was_not_answered_does_not_count():
    ledger = read([(0, Decision("q", 5, frozenset({"a"}), 0, frozenset({"a/7/0"})))])
    assert ledger.answer("q", 5, "a", "a/7/0") is ROLLBACK
    assert ledger.answer("q", 5, "a", "a/7/1") is COMMIT


def test_of_two_decisions_of_one_batch_the_first_counts():
    ledger = read(log_of(decision(4, 0, "x"), decision(5, 1, "a"), decision(5, 1, "b")))
    assert ledger.answer("q", 5, "a") is COMMIT
    assert ledger.answer("q", 5, "b") is ROLLBACK
    assert ledger.batch_status("q", 5) is BatchStatus.DECIDED
    assert commit_step(ledger, "q", 5, frozenset({"b"})) == EndAttempts(frozenset(), frozenset({"b"}))


def test_a_decision_that_comes_after_a_later_batch_is_void():
    ledger = read(log_of(decision(4, 0, "x"), decision(6, 1, "a"), decision(5, 1, "late"), decision(7, 2, "b")))
    assert ledger.answer("q", 5, "late") is ROLLBACK
    assert ledger.batch_status("q", 5) is BatchStatus.SUPERSEDED
    assert ledger.answer("q", 7, "b") is COMMIT


def test_nothing_is_rolled_back_while_a_decision_may_still_come():
    ledger = read(log_of(decision(4, 0, "x")))
    assert ledger.answer("q", 5, "a") is UNKNOWN
    assert ledger.answer("other", 5, "a") is UNKNOWN


def test_a_batch_whose_decision_may_have_expired_is_not_rolled_back():
    log = log_of(decision(4, 0, "x"), decision(5, 1, "a"), decision(6, 2, "b"), decision(7, 3, "c"))
    assert read(log, 2, oldest=2).answer("q", 5, "a") is UNKNOWN
    assert read(log, 2, oldest=2).batch_status("q", 5) is BatchStatus.SUPERSEDED
    assert read(log, 2).batch_status("q", 5) is BatchStatus.UNREAD
    assert read(log, 1).answer("q", 5, "a") is COMMIT


def test_a_decision_is_uncertain_until_the_records_that_its_writer_had_not_seen_are_read():
    log = log_of(decision(4, 0, "x"), decision(5, 1, "a"), decision(5, 1, "b"))
    ledger = read(log, 2)
    assert ledger.batch_status("q", 5) is BatchStatus.UNREAD
    assert ledger.answer("q", 5, "b") is UNKNOWN
    ledger.read_older(log[1:2], 1, 0)
    assert ledger.answer("q", 5, "b") is ROLLBACK


def test_a_writer_appends_only_while_the_batch_is_open():
    log = log_of(decision(4, 0, "x"))
    attempts = frozenset({"a"})
    step = commit_step(read(log), "q", 5, attempts)
    assert step == AppendDecision(decision(5, 1, "a"))
    ledger = read(log)
    assert isinstance(step, AppendDecision)
    ledger.read_newer([(1, step.decision)], 2)
    assert commit_step(ledger, "q", 5, attempts) == EndAttempts(attempts, frozenset())
    assert commit_step(ledger, "q", 4, attempts) == EndAttempts(frozenset(), attempts)
    assert commit_step(read(log, 1), "q", 5, attempts) is BatchStatus.UNREAD
    assert commit_step(read(log_of(decision(4, 0), decision(6, 1))), "q", 5, attempts) is BatchStatus.SUPERSEDED


def test_a_batch_that_was_planned_anew_with_other_rows_is_not_settled():
    attempts = frozenset({"a"})
    log = [(0, Decision("q", 5, attempts, 0, frozenset(), 10)), (1, Decision("q", 6, attempts, 1))]
    assert commit_step(read(log), "q", 5, attempts, rows=15) == RowCountMismatch(10, EndAttempts(attempts, frozenset()))
    assert commit_step(read(log), "q", 5, attempts, rows=10) == EndAttempts(attempts, frozenset())
    assert commit_step(read(log), "q", 6, attempts, rows=7) == EndAttempts(attempts, frozenset()), (
        "an older record counts none"
    )
    appended = commit_step(read(log), "q", 7, attempts, rows=3)
    assert isinstance(appended, AppendDecision)
    assert appended.decision.rows == 3


def test_another_write_of_the_same_name_and_number_is_told_apart_by_its_topics():
    attempts, flights, delays = frozenset({"a"}), frozenset({"flights"}), frozenset({"delays"})
    known = Decision("loads", 5, attempts, 0, topics=flights)
    log = [(0, known), (1, Decision("loads", 6, attempts, 1))]
    assert Decision.decode(known.encode()) == known
    ended = EndAttempts(attempts, frozenset())
    assert commit_step(read(log), "loads", 5, attempts, topics=flights) == ended
    assert commit_step(read(log), "loads", 5, attempts, topics=delays) == OtherTopics(flights)
    assert commit_step(read(log), "loads", 6, attempts, topics=delays) == ended, "an older record names none"


def test_a_half_message_is_ended_directly_only_before_the_first_possible_check_back():
    assert direct_end_window_ms(6_000, 0) == 6_000  # 4.9
    assert direct_end_window_ms(600_000, 3_000) == 594_000  # 5.x: a note of an END may take twice its interval
    assert direct_end_window_ms(6_000, 4_000) == 0
    assert can_end_directly(5_500, 6_000)
    assert not can_end_directly(5_501, 6_000)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Records of honest writers of two queries, each of which had read up to some point of the past."""
    log: Log = []
    for _ in range(draw(st.integers(1, 10))):
        query = draw(st.sampled_from(["q", "r", "s"]))
        read_to = draw(st.integers(max(0, len(log) - 4), len(log)))
        batch = draw(st.integers(0, 6))
        note = read(log, draw(st.integers(0, read_to)), end=read_to).summary(1)
        if note is not None and draw(st.booleans()):
            log.append((len(log), note))
            continue
        if read(log, end=read_to).batch_status(query, batch) is BatchStatus.OPEN:
            log.append((len(log), Decision(query, batch, frozenset({f"a{len(log)}"}), read_to)))
    return log


@given(logs(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_part_of_the_log_agrees_with_the_whole(log, data):
    whole = read(log)
    whole.check_invariants()
    start = data.draw(st.integers(0, len(log)))
    part = read(log, start)
    part.check_invariants()
    for query in ("q", "r", "s"):
        for batch in range(7):
            assert part.batch_status(query, batch) in (BatchStatus.UNREAD, whole.batch_status(query, batch))
            for _, record in log:
                for attempt in record.attempts if isinstance(record, Decision) else ():
                    assert part.answer(query, batch, attempt) in (UNKNOWN, whole.answer(query, batch, attempt))


@given(logs(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_reader_with_a_bounded_window_agrees_with_one_that_read_everything(log, data):
    """Read on and on with the oldest records forgotten, and read back now and then."""
    end = data.draw(st.integers(0, len(log)))
    forgetful = DecisionLedger(end, kept=1)
    while end < len(log):
        upto = data.draw(st.integers(end + 1, len(log)))
        forgetful.read_newer(log[end:upto], upto)
        end = upto
        whole = read(log, end=end)
        forgetful.check_invariants()
        for query in ("q", "r", "s", "never"):
            for batch in range(7):
                assert forgetful.batch_status(query, batch) in (BatchStatus.UNREAD, whole.batch_status(query, batch))
                for _, record in log[:end]:
                    for attempt in record.attempts if isinstance(record, Decision) else ():
                        answer = forgetful.answer(query, batch, attempt)
                        assert answer in (UNKNOWN, whole.answer(query, batch, attempt))
        if forgetful.start and data.draw(st.booleans()):
            start = data.draw(st.integers(0, forgetful.start))
            forgetful.read_older(log[start : forgetful.start], start, 0)


def test_what_was_forgotten_of_a_new_query_must_be_read_again():
    ledger = DecisionLedger(0, kept=2)
    ledger.is_new("write-1")
    ledger.read_newer([(0, decision(0, 0, "a", query="write-1"))], 1)
    ledger.read_newer(
        [(1, decision(1, 1, "x")), (2, decision(2, 2, "x")), (3, decision(1, 3, "b", query="write-1"))], 4
    )
    assert ledger.start == 2
    assert ledger.batch_status("write-1", 0) is BatchStatus.UNREAD


def test_a_ledger_stays_small_however_many_decisions_are_made():
    """Of a stream and of writes without a name, by who notes what is in it."""
    ledger, most, notes = DecisionLedger(0), 0, 0
    for batch in range(20_000):
        query = "q" if batch % 3 else f"write-{batch}"
        if query != "q":
            ledger.is_new(query)
        step = commit_step(ledger, query, batch, frozenset({f"a{batch}"}))
        assert isinstance(step, AppendDecision)
        ledger.read_newer([(ledger.end, step.decision)], ledger.end + 1)
        assert isinstance(commit_step(ledger, query, batch, frozenset({f"a{batch}"})), EndAttempts)
        if (note := ledger.summary(1_000)) is not None:
            ledger.read_newer([(ledger.end, note)], ledger.end + 1)
            notes += 1
        most = max(most, ledger.held)
    assert most < 8_000
    assert notes == 20, "each note is carried on by who has read back to the one before"
    assert ledger.batch_status("q", 5) is BatchStatus.UNREAD


@given(logs())
@settings(max_examples=examples(60), deadline=None)
def test_an_answer_is_never_taken_back(log):
    told: dict[tuple[str, int, str], LocalTransactionState] = {}
    for end in range(len(log) + 1):
        ledger = read(log, end=end)
        for query in ("q", "r"):
            for batch in range(7):
                for at in range(len(log)):
                    answer = ledger.answer(query, batch, f"a{at}")
                    before = told.setdefault((query, batch, f"a{at}"), answer)
                    assert before in (UNKNOWN, answer)
                    told[(query, batch, f"a{at}")] = answer


# -- the world: drivers, tasks, brokers; each may die at every step ----------------------------------------------------------------


@dataclass(eq=False)
class Half:
    batch: int
    attempt: str
    row: str
    name: str
    is_old: bool = False  # past the time from which the broker asks
    ended: LocalTransactionState | None = None
    delivered: int = 0

    def end(self, state: LocalTransactionState) -> None:
        """As an Apache broker: each commit delivers, nothing is remembered."""
        self.ended = state
        self.delivered += state is COMMIT


class Pipeline(RuleBasedStateMachine):
    """Drivers of one query, more than one of which may be alive; brokers that ask; a log that everybody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.log: Log = []
        self.halves: list[Half] = []
        self.finished = 0  # Spark's commit log: the next batch to run
        self.drivers: list[Iterator[None]] = []
        self.names = 0

    def ledger(self) -> DecisionLedger:
        return read(self.log)

    def drive(self) -> Iterator[None]:
        """One driver from its start on: batch after batch; every ``yield`` is a step at whose end it may die or hang."""
        batch = self.finished
        while batch < 4:
            attempts: set[str] = set()
            lost: set[str] = set()
            for partition in range(2):
                for _ in range(
                    2 if (self.names + partition) % 5 == 0 else 1
                ):  # now and then the first try of a task is lost
                    self.names += 1
                    attempt, batch_status = f"a{self.names}", self.ledger().batch_status("q", batch)
                    yield
                    if batch_status is BatchStatus.SUPERSEDED:
                        return  # refused: another driver is further on
                    for row in range(2 if batch_status is BatchStatus.OPEN else 0):
                        if (self.names + row) % 3 == 0:  # stored, but the answer was lost: sent again
                            self.halves.append(Half(batch, attempt, f"{partition}.{row}", f"{attempt}/{row}/0"))
                            lost.add(f"{attempt}/{row}/0")
                            yield
                        self.halves.append(Half(batch, attempt, f"{partition}.{row}", f"{attempt}/{row}/1"))
                        yield
                if batch_status is BatchStatus.OPEN:
                    attempts.add(attempt)
            while True:
                ledger = self.ledger()
                yield
                step = commit_step(ledger, "q", batch, frozenset(attempts), frozenset(lost))
                yield
                if isinstance(step, EndAttempts):
                    break
                if not isinstance(step, AppendDecision):
                    return
                self.log.append((len(self.log), step.decision))
                yield
            for half in [half for half in self.halves if half.attempt in step.commit and half.name not in lost]:
                if not half.is_old:  # looked at again, right before each END
                    half.end(COMMIT)
                yield
            for half in [half for half in self.halves if half.attempt in step.rollback]:
                half.end(ROLLBACK)
                yield
            self.finished = max(self.finished, batch + 1)
            batch += 1
            yield

    @precondition(lambda self: len(self.drivers) < 3)
    @rule()
    def start_driver(self) -> None:
        self.drivers.append(self.drive())

    @precondition(lambda self: self.drivers)
    @rule(which=st.integers(0, 2), steps=st.integers(1, 30))
    def run(self, which: int, steps: int) -> None:
        driver = self.drivers[which % len(self.drivers)]
        for _ in range(steps):
            if next(driver, self) is self:
                self.drivers.remove(driver)
                return

    @precondition(lambda self: self.drivers)
    @rule(which=st.integers(0, 2))
    def kill(self, which: int) -> None:
        self.drivers.pop(which % len(self.drivers)).close()  # type: ignore[attr-defined]

    @rule(upto=st.integers(0, 40))
    def time_passes(self, upto: int) -> None:
        for half in self.halves[:upto]:
            half.is_old = True

    @precondition(lambda self: self.halves)
    @rule(which=st.integers(0, 100), start=st.integers(0, 10))
    def broker_asks(self, which: int, start: int) -> None:
        """Anybody answers, who read as much as he read."""
        half = self.halves[which % len(self.halves)]
        if half.is_old and half.ended is None:
            answer = read(self.log, min(start, len(self.log))).answer("q", half.batch, half.attempt, half.name)
            if answer is not UNKNOWN:
                half.end(answer)

    @invariant()
    def only_what_was_decided_appears_and_once(self) -> None:
        ledger = self.ledger()
        ledger.check_invariants()
        for half in self.halves:
            record = ledger.decision("q", half.batch)
            named = record is not None and half.attempt in record.attempts and half.name not in record.lost
            assert half.delivered <= named, f"{half} appeared, or twice, against {record}"
            assert not (named and half.ended is ROLLBACK), f"{half} is lost"

    def teardown(self) -> None:
        """The query is restarted once more and ends; brokers ask until nothing of the decided batches is open."""
        self.drivers.append(self.drive())
        for _ in self.drivers[-1]:
            pass
        assert self.finished == 4
        ledger = self.ledger()
        for half in self.halves:
            if half.ended is None:
                half.end(ledger.answer("q", half.batch, half.attempt, half.name))
        self.only_what_was_decided_appears_and_once()
        for batch in range(4):
            rows = sorted(half.row for half in self.halves if half.batch == batch and half.delivered)
            assert rows == ["0.0", "0.1", "1.0", "1.1"], f"batch {batch} appeared as {rows}"


TestPipeline = Pipeline.TestCase
TestPipeline.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_an_empty_log_says_that_everything_is_open():
    assert DecisionLedger(0).batch_status("q", 0) is BatchStatus.OPEN

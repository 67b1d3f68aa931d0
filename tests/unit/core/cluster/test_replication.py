# SPDX-License-Identifier: Apache-2.0
"""core.replication: who holds how much of the log, and who waits for that."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from sprocketmq.core.cluster.replication import AckQueue, LogRange, ReplicationTable

LOG = LogRange(start=0, last_file_start=2_000, end=2_500)


def test_a_slave_that_holds_nothing_gets_the_last_file():
    table = ReplicationTable()
    slave = table.join("s:1", 0)
    assert slave.next_offset == -1
    assert table.report(slave, 0, LOG, 1) is None
    assert (slave.next_offset, slave.acked) == (2_000, 0)


def test_a_slave_cannot_go_on_where_the_log_is_deleted():
    table = ReplicationTable()
    assert "empty store" in (table.report(table.join("s:1", 0), 999, LogRange(1_000, 2_000, 2_500), 1) or "")


def test_a_slave_cannot_hold_what_it_was_not_sent():
    table = ReplicationTable()
    slave = table.join("s:1", 0)
    table.report(slave, 100, LOG, 1)
    table.sent(slave, 50, 1)
    assert table.report(slave, 150, LOG, 2) is None
    assert "only" in (table.report(slave, 151, LOG, 2) or "")
    assert table.replicated == 150


def test_a_slave_is_available_when_one_is_there_and_near_enough():
    table = ReplicationTable()
    assert not table.available(10, 1_000)
    slave = table.join("s:1", 0)
    assert table.available(10, 1_000)
    table.report(slave, 500, LOG, 1)
    assert table.available(1_499, 1_000)
    assert not table.available(1_500, 1_000)
    table.leave(slave)
    table.leave(slave)
    assert not table.available(501, 1_000)
    assert table.replicated == 500  # law 2


def test_an_idle_slave_and_a_silent_one_are_distinguished():
    table = ReplicationTable()
    slave = table.join("s:1", 0)
    assert table.heartbeat_due(99_999, 5_000) == []  # not before the first report
    table.report(slave, 0, LOG, 1_000)
    assert table.heartbeat_due(5_000, 5_000) == []
    assert table.heartbeat_due(5_001, 5_000) == [slave]
    table.sent(slave, 0, 5_001)
    assert table.heartbeat_due(5_002, 5_000) == []
    assert table.silent(21_000, 20_000) == []
    assert table.silent(21_001, 20_000) == [slave]


def test_sends_are_answered_in_order_by_an_acknowledgement_or_by_time():
    queue: AckQueue[str] = AckQueue()
    for number, (name, end) in enumerate([("a", 10), ("b", 20), ("c", 30)]):
        queue.add(name, end, 100 + number)
    assert queue.acknowledged(9) == []
    assert queue.acknowledged(20) == ["a", "b"]
    assert queue.next_deadline_ms() == 102
    assert queue.expired(101) == []
    assert queue.expired(102) == ["c"]
    assert queue.next_deadline_ms() is None
    queue.add("d", 40, 200)
    assert (list(queue.take_all()), len(queue)) == (["d"], 0)


class Slaves(RuleBasedStateMachine):
    """Slaves come, copy, report, lie and go, while the log grows; a model keeps what each was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ReplicationTable()
        self.end = 0
        self.now_ms = 0
        self.replicated = 0

    def log(self) -> LogRange:
        return LogRange(0, self.end - self.end % 1_000, self.end)

    @rule(size=st.integers(1, 700))
    def append(self, size: int) -> None:
        self.end += size
        self.now_ms += 1

    @rule()
    def join(self) -> None:
        self.table.join("s:1", self.now_ms)

    @precondition(lambda self: self.table.slaves)
    @rule(data=st.data(), offset=st.integers(-5, 5_000))
    def report(self, data: st.DataObject, offset: int) -> None:
        slave = data.draw(st.sampled_from(self.table.slaves))
        first, holds = slave.next_offset < 0, slave.next_offset
        problem = self.table.report(slave, offset, self.log(), self.now_ms)
        honest = 0 <= offset <= self.end and (first or offset <= holds)
        assert (problem is None) == honest
        if problem is None:
            self.replicated = max(self.replicated, offset)
        else:
            self.table.leave(slave)

    @precondition(lambda self: any(slave.next_offset >= 0 for slave in self.table.slaves))
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        slave = data.draw(st.sampled_from([slave for slave in self.table.slaves if slave.next_offset >= 0]))
        self.table.sent(slave, min(200, self.end - slave.next_offset), self.now_ms)

    @invariant()
    def laws(self) -> None:
        # Not check_invariants' first report, whose slave may hold less than where it was told to begin.
        self.table.check_invariants(self.end)
        assert self.table.replicated == self.replicated


TestSlaves = Slaves.TestCase
TestSlaves.settings = settings(max_examples=examples(60), deadline=None)

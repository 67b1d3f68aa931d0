# SPDX-License-Identifier: Apache-2.0
"""core.handover: when a broker may let go, and that it serves on whatever goes wrong before."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from examples import examples
from sprocketmq.core.cluster.handover import ROUND_LIMIT_MS, Handover, HandoverState, MetadataKind

ROUND = tuple(MetadataKind)
END = 1_000


def ask(machine: Handover, *kinds: MetadataKind, host: str = "s", version: object = 1, now_ms: int = 10) -> None:
    for kind in kinds:
        machine.asked(kind, host, version, True, END, now_ms)


def drained() -> Handover:
    machine = Handover()
    machine.begin(0, 60_000)
    ask(machine, *ROUND)
    machine.poll(END, 11)
    assert machine.state is HandoverState.DRAINED
    return machine


@pytest.fixture
def machine() -> Handover:
    """A handover was asked for."""
    made = Handover()
    made.begin(0, 60_000)
    return made


def test_writes_stop_at_the_slaves_question_for_offsets_and_not_before(machine):
    ask(machine, MetadataKind.TOPICS)
    assert not machine.refuses_writes
    ask(machine, MetadataKind.OFFSETS)
    assert machine.refuses_writes
    assert machine.log_end == END


def test_nothing_stops_without_a_handover_request():
    machine = Handover()
    ask(machine, *ROUND)
    machine.poll(END, 11)
    assert machine.state is HandoverState.SERVING


def test_a_handover_is_drained_when_the_round_has_ended_and_the_log_is_acknowledged(machine):
    ask(machine, MetadataKind.TOPICS, MetadataKind.OFFSETS, MetadataKind.DELAY_OFFSETS)
    machine.poll(END, 11)
    assert "groups" in machine.missing(1, END, END)
    ask(machine, MetadataKind.GROUPS)
    machine.poll(END - 1, 12)
    assert machine.state is HandoverState.FROZEN
    assert "1 bytes of the log" in machine.missing(1, END - 1, END)
    machine.poll(END, 13)
    assert machine.state is HandoverState.DRAINED


def test_topics_that_changed_since_the_slave_copied_them_mean_another_round(machine):
    ask(machine, MetadataKind.TOPICS, version=1)
    ask(machine, MetadataKind.OFFSETS, version=2)
    assert machine.state is HandoverState.WAITING
    ask(machine, MetadataKind.TOPICS, MetadataKind.OFFSETS, version=2)
    assert machine.state is HandoverState.FROZEN


def test_other_clients_than_slaves_cannot_freeze_the_broker(machine):
    for kind in ROUND:
        machine.asked(kind, "tool", 1, False, END, 10)
    assert machine.state is HandoverState.WAITING


def test_another_slave_does_not_end_the_round(machine):
    ask(machine, MetadataKind.TOPICS, MetadataKind.OFFSETS)
    ask(machine, *ROUND, host="other")
    machine.poll(END, 11)
    assert machine.state is HandoverState.FROZEN


def test_a_round_that_does_not_end_unfreezes_the_broker(machine):
    ask(machine, MetadataKind.TOPICS, MetadataKind.OFFSETS, now_ms=10)
    machine.poll(END, 10 + ROUND_LIMIT_MS)
    assert machine.state is HandoverState.FROZEN
    machine.poll(END, 11 + ROUND_LIMIT_MS)
    assert machine.state is HandoverState.WAITING


def test_a_slave_that_goes_after_its_round_may_not_have_everything():
    machine = drained()
    machine.poll(-1, 12)
    assert machine.state is HandoverState.WAITING
    assert not machine.finish()


@pytest.mark.parametrize("frozen", [False, True])
def test_when_the_time_is_over_the_broker_serves_on(frozen):
    machine = drained() if frozen else Handover()
    machine.begin(0, 60_000)
    machine.poll(END, 60_000)
    assert machine.state is HandoverState.SERVING
    assert not machine.refuses_writes


def test_after_finish_a_handover_cannot_be_cancelled():
    machine = drained()
    assert machine.finish()
    machine.cancel()
    machine.begin(0, 1)
    machine.poll(-1, 10**9)
    assert machine.state is HandoverState.GIVEN
    assert machine.refuses_writes


def test_a_cancelled_handover_serves_on():
    machine = drained()
    machine.cancel()
    assert machine.state is HandoverState.SERVING
    assert not machine.finish()


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: who is DRAINED has had a whole round of one host after the freeze, and the whole log."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Handover()
        self.now_ms = 0
        self.acked = 0
        self.seen: list[tuple[str, MetadataKind]] = []
        self.given = False

    @rule(timeout_ms=st.integers(1, 20_000))
    def begin(self, timeout_ms: int) -> None:
        self.machine.begin(self.now_ms, timeout_ms)

    @rule(kind=st.sampled_from(ROUND), host=st.sampled_from("st"), version=st.integers(1, 2), slave=st.booleans())
    def asked(self, kind: MetadataKind, host: str, version: int, slave: bool) -> None:
        before = self.machine.state
        self.machine.asked(kind, host, version, slave, END, self.now_ms)
        if before is HandoverState.WAITING and self.machine.state is HandoverState.FROZEN:
            self.seen = []
        self.seen.append((host, kind))

    @rule(acked=st.sampled_from([-1, 0, END - 1, END]), passed_ms=st.sampled_from([0, 1, 6_000, 30_000]))
    def poll(self, acked: int, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.acked = acked
        before = self.machine.state
        self.machine.poll(acked, self.now_ms)
        if self.machine.state is HandoverState.DRAINED and before is not HandoverState.DRAINED:
            kinds = {kind for host, kind in self.seen if host == self.machine.host}
            assert kinds >= set(ROUND) - {MetadataKind.TOPICS}
            assert acked >= END

    @rule()
    def cancel(self) -> None:
        self.machine.cancel()

    @rule()
    def finish(self) -> None:
        could = self.machine.state in (HandoverState.DRAINED, HandoverState.GIVEN)
        assert self.machine.finish() == could
        self.given = self.given or could

    @invariant()
    def given_is_final(self) -> None:
        assert (self.machine.state is HandoverState.GIVEN) == self.given


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(60), deadline=None)

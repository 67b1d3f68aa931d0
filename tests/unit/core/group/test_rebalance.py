# SPDX-License-Identifier: Apache-2.0
"""core.rebalance: what an allocation changes, the lives of queues, and a model with a slow driver."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.core.consume.process_queue import PULL_MAX_IDLE_MS, ProcessQueue
from sprocketmq.core.group.rebalance import Add, Drop, DropReason, QueueLife, RebalanceTable
from sprocketmq.wire.records.message import MessageQueue

A, B, C, D = (MessageQueue("flights", "broker-a", number) for number in range(4))
OTHER = MessageQueue("arrivals", "broker-a", 0)
REASSIGNED, EXPIRED = DropReason.REASSIGNED, DropReason.PULL_EXPIRED


def add(table: RebalanceTable, *queues: MessageQueue, now_ms: int = 0) -> list[ProcessQueue]:
    """Assign and carry out at once."""
    table.assigned("flights", queues, now_ms)
    added = [table.added(queue, now_ms) for queue in queues]
    assert all(added)
    return [queue for queue in added if queue is not None]


@pytest.fixture
def table() -> RebalanceTable:
    return RebalanceTable()


def test_an_allocation_is_carried_out_in_queue_order_with_drops_first(table):
    add(table, B, A)
    assert table.assigned("flights", [D, C], 0) == [Drop(A, REASSIGNED), Drop(B, REASSIGNED), Add(C), Add(D)]


def test_a_reassigned_queue_is_dropped_at_once_and_leaves_when_removed(table):
    (process_queue,) = add(table, A)
    assert table.assigned("flights", [], 1) == [Drop(A, REASSIGNED)]
    assert process_queue.dropped
    assert table.get(A) is None
    assert table.life(A) is QueueLife.DROPPING
    assert table.removed(A, 2) == []
    assert table.life(A) is None


def test_a_refused_removal_is_asked_again_next_round(table):
    (process_queue,) = add(table, A)
    table.assigned("flights", [], 1)
    assert table.assigned("flights", [], 2) == [], "the removal is under way"
    table.removal_refused(A)
    assert process_queue.try_unlock_times == 1
    assert table.assigned("flights", [], 3) == [Drop(A, REASSIGNED)]


def test_a_refused_removal_is_asked_again_at_the_shutdown(table):
    add(table, A, B)
    table.assigned("flights", [], 1)
    table.removal_refused(A)
    assert table.drop_all() == [Drop(A, DropReason.SHUTDOWN)], "that of B is under way"


def test_the_time_without_a_pull_begins_when_the_queue_was_added(table):
    table.assigned("flights", [A], 0)
    assert table.assigned("flights", [A], 300_000) == [], "its lock or offset takes long, nobody can pull it yet"
    assert table.added(A, 300_000) is not None
    assert table.assigned("flights", [A], 420_000) == []
    assert table.assigned("flights", [A], 420_001) == [Drop(A, EXPIRED)]


def test_a_topic_no_longer_subscribed_is_dropped_whole(table):
    add(table, A, B)
    assert table.subscribed(["flights"]) == []
    unsubscribed = DropReason.UNSUBSCRIBED
    assert table.subscribed(["arrivals"]) == [Drop(A, unsubscribed), Drop(B, unsubscribed)]
    assert table.subscribed(["arrivals"]) == [], "the removals are under way"
    assert table.removed(A, 1) == []


def test_rebalance_of_one_topic_leaves_the_others_alone(table):
    add(table, A)
    assert table.assigned("arrivals", [OTHER], 0) == [Add(OTHER)]
    assert table.get(A) is not None


def test_an_illegal_offset_drops_one_queue_and_shutdown_all(table):
    add(table, A, B)
    assert table.drop(A, DropReason.OFFSET_ILLEGAL) == [Drop(A, DropReason.OFFSET_ILLEGAL)]
    assert table.drop(A, DropReason.OFFSET_ILLEGAL) == [], "that is under way"
    table.removal_refused(A)
    assert table.drop(A, DropReason.OFFSET_ILLEGAL) == [Drop(A, DropReason.OFFSET_ILLEGAL)], (
        "as a second reset asks for"
    )
    assert table.removed(A, 1) == [Add(A)]
    table.added(A, 1)
    shutdown = DropReason.SHUTDOWN
    assert table.drop_all() == [Drop(A, shutdown), Drop(B, shutdown)]
    assert table.removed(A, 2) == []


class RebalanceModel(RuleBasedStateMachine):
    """Effects are carried out late and in any order; the model tracks what is under way."""

    queues = (A, B, C, D)

    @initialize()
    def begin(self) -> None:
        self.table = RebalanceTable()
        self.now_ms = 0
        self.wanted: set[MessageQueue] = set()
        self.adding: set[MessageQueue] = set()
        self.dropping: set[MessageQueue] = set()
        self.refused: set[MessageQueue] = set()
        self.active: dict[MessageQueue, ProcessQueue] = {}
        self.loops: list[ProcessQueue] = []

    def take(self, effects: list[Drop | Add]) -> None:
        kinds = [type(effect) for effect in effects]
        assert kinds == sorted(kinds, key=lambda kind: kind is Add), "a drop after an add"
        for effect in effects:
            queue = effect.queue
            if isinstance(effect, Add):
                assert queue not in self.adding | self.dropping | self.refused | self.active.keys(), "a second Add"
                self.adding.add(queue)
            else:
                assert queue in self.adding | self.refused | self.active.keys(), "a Drop of nothing"
                self.adding.discard(queue)
                self.refused.discard(queue)
                if queue in self.active:
                    assert self.active.pop(queue).dropped
                self.dropping.add(queue)

    @rule(wanted=st.sets(st.sampled_from(queues)), ms=st.sampled_from([0, 20_000, 130_000]))
    def assigned(self, wanted: set[MessageQueue], ms: int) -> None:
        self.now_ms += ms
        self.wanted = wanted
        stays = self.active.keys() & wanted
        expired = {queue for queue in stays if self.now_ms - self.active[queue].last_pull_ms > PULL_MAX_IDLE_MS}
        self.take(self.table.assigned("flights", wanted, self.now_ms))
        assert self.active.keys() == stays - expired
        assert not self.refused
        assert wanted <= self.adding | self.dropping | self.active.keys()

    @rule()
    def unsubscribed(self) -> None:
        self.wanted = set()
        self.take(self.table.subscribed([]))
        assert not self.adding
        assert not self.refused
        assert not self.active

    @rule(queue=st.sampled_from(queues), ok=st.booleans())
    def add_ends(self, queue: MessageQueue, ok: bool) -> None:
        if not ok:
            self.table.add_failed(queue)
            self.adding.discard(queue)
            return
        process_queue = self.table.added(queue, self.now_ms)
        assert (process_queue is not None) == (queue in self.adding)
        if process_queue is not None:
            self.adding.discard(queue)
            self.active[queue] = process_queue
            assert not any(process_queue is loop for loop in self.loops), "a process queue came back to life"
            self.loops.append(process_queue)

    @rule(queue=st.sampled_from(queues), refused=st.booleans())
    def drop_ends(self, queue: MessageQueue, refused: bool) -> None:
        if queue not in self.dropping:
            return
        self.dropping.discard(queue)
        if refused:
            self.table.removal_refused(queue)
            self.refused.add(queue)
            return
        effects = self.table.removed(queue, self.now_ms)
        assert effects == ([Add(queue)] if queue in self.wanted else [])
        self.take(effects)

    @rule(queue=st.sampled_from(queues))
    def pulled(self, queue: MessageQueue) -> None:
        if queue in self.active:
            self.active[queue].last_pull_ms = self.now_ms

    @rule(queue=st.sampled_from(queues))
    def illegal_offset(self, queue: MessageQueue) -> None:
        if queue in self.active:
            self.take(self.table.drop(queue, DropReason.OFFSET_ILLEGAL))

    @invariant()
    def laws_hold(self) -> None:
        self.table.check_invariants()
        assert self.table.active() == self.active
        assert len(self.table) == len(self.adding) + len(self.dropping) + len(self.refused) + len(self.active)
        living = [loop for loop in self.loops if not loop.dropped]
        assert {loop.queue for loop in living} == self.active.keys()
        assert len(living) == len(self.active), "two pull loops for one queue"
        settled = not (self.adding or self.dropping or self.refused)
        assert self.table.is_balanced == (settled and self.active.keys() == self.wanted)


TestRebalanceModel = RebalanceModel.TestCase
TestRebalanceModel.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)

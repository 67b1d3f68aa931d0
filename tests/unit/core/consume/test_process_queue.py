# SPDX-License-Identifier: Apache-2.0
"""core.process_queue against its laws, and against a model that recomputes everything each time."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from examples import examples
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt

from ..messages import QUEUE, message, messages, offsets_of


@pytest.fixture
def queue() -> ProcessQueue:
    return ProcessQueue(QUEUE)


def test_the_commit_offset_is_the_lowest_unfinished_message(queue):
    queue.put(messages(10, 11, 12, 13))
    assert queue.commit_offset == 10
    ten, eleven, twelve = queue.take(3, 77)
    assert queue.last_consume_ms == 77
    assert queue.done([eleven]) == queue.commit_offset == 10
    assert queue.done([twelve]) == queue.commit_offset == 10
    assert queue.done([ten]) == queue.commit_offset == 13  # waits to be taken
    assert queue.done(queue.take(1, 0)) == queue.commit_offset == 14
    assert (queue.count, queue.in_flight_count) == (0, 0)


def test_the_commit_offset_counts_gaps_of_filtered_messages_as_done(queue):
    queue.put(messages(3, 9, 40))
    first = queue.take(1, 0)
    assert queue.done(first) == queue.commit_offset == 9
    assert queue.done(queue.take(5, 0)) == queue.commit_offset == 41


def test_there_is_no_commit_offset_before_the_first_message():
    assert ProcessQueue(QUEUE).commit_offset is None


def test_a_commit_before_an_offset_leaves_the_message_at_it_in_flight(queue):
    queue.put(messages(0, 1, 2, 3))
    queue.take(4, 0)
    assert queue.commit(before=2) == 2
    assert offsets_of(queue.in_flight()) == [2, 3]


def test_a_dropped_queue_gives_nothing_out_and_moves_no_progress(queue):
    queue.put(messages(1, 2))
    taken = queue.take(1, 0)
    queue.drop()
    assert queue.take(5, 0) == []
    assert queue.done(taken) is None
    assert queue.commit() is None


def test_a_message_settled_before_is_settled_once(queue):
    queue.put(messages(1, 2))
    one, two = queue.take(2, 0)
    assert queue.done([one]) == 2
    assert queue.done([one]) is None
    assert queue.done([one, two]) == 3
    assert queue.size_bytes == 0


def test_a_pull_is_expired_after_120_s_without_a_look():
    queue = ProcessQueue(QUEUE, now_ms=1_000)
    assert not queue.is_pull_expired(121_000)
    assert queue.is_pull_expired(121_001)
    queue.last_pull_ms = 5_000
    assert not queue.is_pull_expired(125_000)


def test_a_rewound_offset_is_taken_in_its_place(queue):
    queue.put(messages(10, 12))
    assert queue.put(messages(3, 11, 13)) == 3
    queue.check_invariants()
    assert queue.commit_offset == 3
    assert offsets_of(queue.take(9, 0)) == [3, 10, 11, 12, 13]


def test_after_a_restart_nothing_from_before_counts(queue):
    queue.put(messages(5, 6, 7))
    before = queue.take(2, 0)
    queue.restart(2)
    queue.check_invariants()
    assert (queue.count, queue.in_flight_count, queue.size_bytes, queue.commit_offset) == (0, 0, 0, None)
    assert queue.done(before) is None
    queue.put_back(before)
    assert queue.take(9, 0) == []
    queue.put(messages(3))  # lower than what was seen before: no late-comer, but the first
    assert queue.done(queue.take(1, 0)) == 4


def test_clear_forgets_messages_and_keeps_the_highest_offset(queue):
    queue.put(messages(1, 2))
    queue.take(1, 0)
    queue.drop()
    queue.clear()
    queue.check_invariants()
    assert (queue.count, queue.size_bytes, queue.commit_offset) == (0, 0, 3)


class ProcessQueueModel(RuleBasedStateMachine):
    """The queue next to two plain dicts."""

    @initialize(start=st.integers(0, 5))
    def begin(self, start: int) -> None:
        self.queue = ProcessQueue(QUEUE)
        self.next_offset = start
        self.pending: dict[int, MessageExt] = {}
        self.in_flight: dict[int, MessageExt] = {}
        self.highest = -1
        self.dropped = False
        self.last_commit = -1

    @rule(steps=st.lists(st.integers(1, 4), max_size=6), size=st.integers(0, 9))
    def put_rising(self, steps: list[int], size: int) -> None:
        batch = []
        for step in steps:
            batch.append(message(self.next_offset, b"b" * size))
            self.next_offset += step
        assert self.queue.put(batch) == len(batch)
        for one in batch:
            self.pending[one.queue_offset] = one
            self.highest = one.queue_offset

    @rule(data=st.data())
    def put_a_second_copy(self, data: st.DataObject) -> None:
        cached = sorted(self.pending.keys() | self.in_flight.keys())
        if cached:
            offset = data.draw(st.sampled_from(cached))
            assert self.queue.put([message(offset, b"another copy")]) == 0

    @rule(size=st.integers(1, 5))
    def take(self, size: int) -> None:
        expected = [] if self.dropped else sorted(self.pending)[:size]
        assert offsets_of(self.queue.take(size, 0)) == expected
        for offset in expected:
            self.in_flight[offset] = self.pending.pop(offset)

    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        if not self.in_flight:
            return
        offsets = data.draw(st.lists(st.sampled_from(sorted(self.in_flight)), unique=True, min_size=1))
        result = self.queue.done([self.in_flight.pop(offset) for offset in offsets])
        lowest = min(self.pending.keys() | self.in_flight.keys(), default=self.highest + 1)
        assert result == (None if self.dropped else lowest)
        if result is not None:
            assert result >= self.last_commit
            self.last_commit = result

    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        if not self.in_flight:
            return
        offsets = data.draw(st.lists(st.sampled_from(sorted(self.in_flight)), unique=True, min_size=1))
        back = [self.in_flight.pop(offset) for offset in offsets]
        self.queue.put_back(back)
        self.pending |= {one.queue_offset: one for one in back}

    @rule()
    def rollback(self) -> None:
        self.queue.rollback()
        self.pending |= self.in_flight
        self.in_flight.clear()

    @precondition(lambda self: len(self.pending) > 12)
    @rule()
    def drop(self) -> None:
        self.queue.drop()
        self.dropped = True

    @invariant()
    def laws_hold(self) -> None:
        queue = self.queue
        queue.check_invariants()
        cached = self.pending | self.in_flight
        assert queue.count == len(cached)
        assert queue.pending_count == len(self.pending)
        assert queue.in_flight_count == len(self.in_flight)
        assert queue.size_bytes == sum(len(one.body) for one in cached.values())
        assert queue.span == (max(cached) - min(cached) if cached else 0)


TestProcessQueueModel = ProcessQueueModel.TestCase
TestProcessQueueModel.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)

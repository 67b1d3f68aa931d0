# SPDX-License-Identifier: Apache-2.0
"""core.polled_queues against its laws, and against a model that remembers every offset."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.core.consume.polled_queues import PolledQueues
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageQueue

from ..messages import message, messages, offsets_of

QUEUES = [MessageQueue("flights", "broker-a", number) for number in range(3)]
FIRST, SECOND, THIRD = QUEUES


def _reading(polled: PolledQueues, queue: MessageQueue = FIRST, offset: int = 0) -> ProcessQueue:
    process_queue = ProcessQueue(queue)
    polled.queue_added(process_queue, offset)
    return process_queue


def _arrive(polled: PolledQueues, process_queue: ProcessQueue, *offsets: int) -> None:
    process_queue.put(messages(*offsets))
    assert polled.arrived(process_queue)


def _taken(polled: PolledQueues, count: int) -> dict[MessageQueue | None, list[int]]:
    return {process_queue.queue: offsets_of(part) for process_queue, part in polled.take(count, 0)}


@pytest.fixture
def polled() -> PolledQueues:
    return PolledQueues()


def test_a_commit_covers_what_was_handed_out_and_not_what_waits(polled):
    process_queue = _reading(polled)
    _arrive(polled, process_queue, 0, 1, 2)
    assert polled.to_commit() == {}
    assert _taken(polled, 2) == {FIRST: [0, 1]}
    assert polled.to_commit() == {FIRST: 2}
    polled.committed(FIRST, 2)
    assert polled.to_commit() == {}


def test_what_was_handed_out_no_longer_counts_for_flow_control(polled):
    process_queue = _reading(polled)
    _arrive(polled, process_queue, *range(100))
    polled.take(100, 0)
    assert (process_queue.count, process_queue.size_bytes, polled.waiting_count) == (0, 0, 0)


def test_queues_take_turns_although_one_is_refilled_all_the_time(polled):
    busy, quiet = _reading(polled, FIRST), _reading(polled, SECOND)
    _arrive(polled, busy, *range(10))
    _arrive(polled, quiet, 0)
    assert _taken(polled, 4) == {FIRST: [0, 1, 2, 3]}
    _arrive(polled, busy, 10, 11)
    assert _taken(polled, 4) == {SECOND: [0], FIRST: [4, 5, 6]}


def test_a_dropped_process_queue_hands_out_nothing_and_commits_nothing(polled):
    old = _reading(polled)
    _arrive(polled, old, 0, 1)
    polled.take(1, 0)
    old.drop()
    assert _taken(polled, 5) == {}
    assert (polled.to_commit(), polled.position(FIRST)) == ({}, None)
    assert polled.remove_dropped() == [FIRST]
    polled.check_invariants()


def test_a_late_answer_to_the_previous_reader_moves_no_offset(polled):
    old = _reading(polled)
    old.drop()
    new = _reading(polled, offset=5)
    old.put(messages(0, 1))
    assert not polled.arrived(old)
    assert not polled.skipped(old, 40)
    assert polled.position(FIRST) == 5
    _arrive(polled, new, 5)
    assert _taken(polled, 9) == {FIRST: [5]}


def test_after_a_seek_the_place_is_committed_by_the_next_commit(polled):
    _reading(polled, offset=10)
    polled.sought(FIRST, 10)
    assert polled.to_commit() == {FIRST: 10}


def test_what_is_in_hand_is_not_done_until_it_is_committed(polled):
    assert polled.done(FIRST, 7) == 7
    process_queue = _reading(polled, offset=3)
    assert polled.done(FIRST, 7) == 3
    _arrive(polled, process_queue, 3, 4, 20)
    assert _taken(polled, 2) == {FIRST: [3, 4]}
    assert polled.done(FIRST, 20) == 3
    polled.committed(FIRST, 4)
    assert polled.done(FIRST, 20) == 4
    polled.committed(FIRST, 5)
    assert polled.done(FIRST, 20) == 5
    for offset, done in ((30, 5), (2, 2)):  # forward: nothing of it is committed; back
        before = polled.done(FIRST, offset)
        _reading(polled, offset=offset)
        polled.sought(FIRST, before)
        assert polled.done(FIRST, offset) == done


def test_a_withheld_queue_waits_until_it_is_released(polled):
    process_queue = ProcessQueue(FIRST)
    polled.queue_added(process_queue, 0, withheld=True)
    _arrive(polled, process_queue, 0)
    _arrive(polled, _reading(polled, SECOND), 7)
    assert _taken(polled, 9) == {SECOND: [7]}
    polled.release([FIRST])
    assert _taken(polled, 9) == {FIRST: [0]}


def test_it_is_full_while_more_waits_than_allowed_over_all_queues():
    polled = PolledQueues(max_waiting=4)
    _arrive(polled, _reading(polled, FIRST), 0, 1, 2)
    second = _reading(polled, SECOND)
    _arrive(polled, second, 0)
    assert not polled.is_full
    _arrive(polled, second, 1)
    assert polled.is_full
    polled.take(1, 0)
    assert not polled.is_full


def test_what_a_broker_acknowledged_is_known_until_progress_changes(polled):
    _arrive(polled, _reading(polled), 0, 1)
    polled.take(2, 0)
    polled.committed(FIRST, 2)
    polled.persisted(FIRST, 2)
    assert polled.is_persisted(FIRST, 2)
    polled.committed(FIRST, 1)
    polled.committed(FIRST, 2)
    assert not polled.is_persisted(FIRST, 2)


def test_messages_put_back_after_a_seek_or_a_drop_are_discarded(polled):
    process_queue = _reading(polled)
    _arrive(polled, process_queue, 0, 1)
    ((_, part),) = polled.take(2, 0)
    process_queue.drop()
    _reading(polled, FIRST, 2)
    polled.put_back(process_queue, part)
    assert polled.positions() == {FIRST: 2}
    assert polled.take(9, 0) == []
    assert polled.to_commit() == {}


class Polling(RuleBasedStateMachine):
    """Messages arrive and are polled while queues come, go and are sought: per reading all come once, in order, none is skipped."""

    @initialize()
    def begin(self) -> None:
        self.polled = PolledQueues(max_waiting=20)
        self.reading: dict[MessageQueue, ProcessQueue] = {}
        self.next_put: dict[MessageQueue, int] = {}
        self.expected: dict[MessageQueue, list[int]] = {}
        self.position: dict[MessageQueue, int] = {}

    @rule(queue=st.sampled_from(QUEUES), offset=st.integers(0, 50))
    def take_up(self, queue: MessageQueue, offset: int) -> None:
        if queue in self.reading:
            self.reading[queue].drop()
        self.reading[queue] = _reading(self.polled, queue, offset)
        self.next_put[queue], self.expected[queue], self.position[queue] = offset, [], offset

    @rule(queue=st.sampled_from(QUEUES))
    def give_up(self, queue: MessageQueue) -> None:
        if queue in self.reading:
            self.reading.pop(queue).drop()
            del self.expected[queue], self.position[queue]
            assert queue in self.polled.remove_dropped()

    @rule(queue=st.sampled_from(QUEUES), gap=st.integers(0, 3), count=st.integers(1, 5))
    def arrive(self, queue: MessageQueue, gap: int, count: int) -> None:
        if queue not in self.reading:
            return
        first = self.next_put[queue] + gap
        offsets = list(range(first, first + count))
        self.reading[queue].put([message(offset) for offset in offsets])
        assert self.polled.arrived(self.reading[queue])
        self.expected[queue] += offsets
        self.next_put[queue] = first + count

    @rule(queue=st.sampled_from(QUEUES), gap=st.integers(1, 9))
    def skip(self, queue: MessageQueue, gap: int) -> None:
        if queue not in self.reading:
            return
        offset = self.next_put[queue] = self.next_put[queue] + gap
        waiting, uncommitted = bool(self.expected[queue]), queue in self.polled.to_commit()
        assert self.polled.skipped(self.reading[queue], offset) == (not waiting and not uncommitted)
        if not waiting:
            self.position[queue] = offset

    @rule(count=st.integers(1, 12))
    def poll(self, count: int) -> None:
        waiting = sum(map(len, self.expected.values()))
        taken = self.polled.take(count, 0)
        assert sum(len(part) for _, part in taken) == min(count, waiting)
        for process_queue, part in taken:
            queue = process_queue.queue
            assert queue is not None
            offsets = offsets_of(part)
            assert offsets == self.expected[queue][: len(offsets)]
            del self.expected[queue][: len(offsets)]
            self.position[queue] = self.expected[queue][0] if self.expected[queue] else offsets[-1] + 1

    @rule(count=st.integers(1, 12), committed=st.booleans())
    def poll_and_hand_back(self, count: int, committed: bool) -> None:
        before = dict(self.position)
        taken = self.polled.take(count, 0)
        if committed:  # by another thread, meanwhile
            for queue, offset in self.polled.to_commit().items():
                self.polled.committed(queue, offset)
        for process_queue, part in taken:
            self.polled.put_back(process_queue, part)
            queue = process_queue.queue
            assert queue is not None
            first = part[0].queue_offset
            assert before[queue] <= self.polled.position(queue) == first
            self.position[queue] = first
            assert self.polled.to_commit()[queue] == first

    @rule()
    def commit(self) -> None:
        for queue, offset in self.polled.to_commit().items():
            assert offset == self.position[queue]
            self.polled.committed(queue, offset)
        assert not self.polled.to_commit()

    @invariant()
    def laws(self) -> None:
        if hasattr(self, "polled"):
            self.polled.check_invariants()
            assert self.polled.positions() == {queue: self.position[queue] for queue in self.reading}


TestPolling = Polling.TestCase
TestPolling.settings = settings(max_examples=examples(30), stateful_step_count=30, deadline=None)

# SPDX-License-Identifier: Apache-2.0
"""core.consume_progress: the offset table against a model, and where a new group begins."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.core.consume.consume_progress import (
    OFFSET_NOT_FOUND,
    OFFSET_UNKNOWN,
    AskMaxOffset,
    AskOffsetByTime,
    ConsumeFromWhere,
    ConsumeProgress,
    SkipThisRound,
    StartAt,
    decide_start,
)
from sprocketmq.wire.records.message import MessageQueue

QUEUES = [MessageQueue("flights", "broker-a", number) for number in range(3)]
FIRST, LAST, TIME = (
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
)


def test_a_concurrent_result_never_moves_progress_back():
    progress = ConsumeProgress()
    assert progress.read(QUEUES[0]) == OFFSET_NOT_FOUND
    assert progress.update(QUEUES[0], 10)
    assert not progress.update(QUEUES[0], 9)
    assert progress.read(QUEUES[0]) == 10
    assert progress.update(QUEUES[0], 4, increase_only=False)
    assert progress.read(QUEUES[0]) == 4


def test_a_loaded_file_is_read():
    progress = ConsumeProgress()
    progress.load({QUEUES[1]: 7})
    assert progress.snapshot() == {QUEUES[1]: 7}


@pytest.mark.parametrize("where", list(ConsumeFromWhere))
@pytest.mark.parametrize("topic", ["flights", "%RETRY%g"])
def test_stored_progress_wins_and_unknown_progress_is_not_guessed(where, topic):
    assert decide_start(where, topic, 0, 5) == StartAt(0)
    assert decide_start(where, topic, 12, 5) == StartAt(12)
    assert decide_start(where, topic, OFFSET_UNKNOWN, 5) == SkipThisRound()


@pytest.mark.parametrize(
    ("where", "topic", "expected"),
    [
        (FIRST, "flights", StartAt(0)),
        (FIRST, "%RETRY%g", StartAt(0)),
        (LAST, "flights", AskMaxOffset()),
        (LAST, "%RETRY%g", StartAt(0)),
        (ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET, "flights", AskMaxOffset()),
        (TIME, "flights", AskOffsetByTime(5)),
        (TIME, "%RETRY%g", AskMaxOffset()),
    ],
)
def test_a_new_group_begins_where_it_was_told_to(where, topic, expected):
    assert decide_start(where, topic, OFFSET_NOT_FOUND, 5) == expected


class ProgressModel(RuleBasedStateMachine):
    queues = st.sampled_from(QUEUES)

    @initialize()
    def begin(self) -> None:
        self.progress = ConsumeProgress()
        self.offsets: dict[MessageQueue, int] = {}
        self.frozen: set[MessageQueue] = set()

    @rule(queue=queues, offset=st.integers(0, 20), increase_only=st.booleans())
    def update(self, queue: MessageQueue, offset: int, increase_only: bool) -> None:
        accepted = queue not in self.frozen and not (increase_only and offset < self.offsets.get(queue, -1))
        assert self.progress.update(queue, offset, increase_only=increase_only) == accepted
        if accepted:
            self.offsets[queue] = offset

    @rule(queue=queues, offset=st.integers(0, 20))
    def freeze(self, queue: MessageQueue, offset: int) -> None:
        self.progress.update_and_freeze(queue, offset)
        self.offsets[queue] = offset
        self.frozen.add(queue)

    @rule(queue=queues)
    def remove(self, queue: MessageQueue) -> None:
        self.progress.remove(queue)
        self.offsets.pop(queue, None)
        self.frozen.discard(queue)

    @rule(owned=st.sets(queues))
    def persist(self, owned: set[MessageQueue]) -> None:
        self.offsets = {queue: offset for queue, offset in self.offsets.items() if queue in owned}
        self.frozen &= owned
        assert self.progress.to_persist(owned) == self.offsets

    @invariant()
    def laws_hold(self) -> None:
        self.progress.check_invariants()
        assert self.progress.snapshot() == self.offsets
        for queue in QUEUES:
            assert self.progress.read(queue) == self.offsets.get(queue, -1)
            assert (queue in self.progress._frozen) == (queue in self.frozen)


TestProgressModel = ProgressModel.TestCase
TestProgressModel.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)

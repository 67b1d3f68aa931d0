# SPDX-License-Identifier: Apache-2.0
"""core.long_poll: waiting, waking, giving up; and a model that keeps one flat list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from sprocketmq.core.long_poll import LongPoll, ParkedPull


def requests(pulls: Iterable[ParkedPull[str] | None]) -> list[str]:
    return [pull.request for pull in pulls if pull is not None]


@pytest.fixture
def room() -> LongPoll[str]:
    return LongPoll()


def test_pulls_that_leave_or_arrive_during_a_wake_are_skipped(room):
    gone, stays = object(), object()
    for number in range(3):
        room.park("flights", 0, 0, 100, f"stays {number}", owner=stays)
        room.park("flights", 0, 0, 100, f"gone {number}", owner=gone)
    woken = room.wake("flights", 0, 1)
    assert requests([next(woken), next(woken)]) == ["stays 0", "gone 0"]
    room.discard_owner(gone)
    room.park("flights", 0, 0, 100, "came")
    assert requests(woken) == ["stays 1", "stays 2"]
    expired = room.expire(100)
    room.park("flights", 0, 0, 100, "came, too")
    assert requests(expired) == ["came", "came, too"]
    room.check_invariants()


@pytest.mark.parametrize(
    "leave",
    [
        lambda room, number: [*room.wake("flights", 0, number + 1)],
        lambda room, number: room.take("flights", 0, lambda request: True),
        lambda room, number: [None] * room.discard_owner("c"),
    ],
)
def test_pulls_that_have_left_do_not_pile_up_until_their_deadlines(room, leave):
    for number in range(10_000):
        room.park("flights", 0, number, 15_000 + number, "r", owner="c")
        assert len(leave(room, number)) == 1
    assert len(room._heap) < 200


def test_waking_one_queue_asks_no_other_queue():
    asked: list[int] = []
    room: LongPoll[str] = LongPoll()
    for number in range(1_000):
        room.park(f"topic-{number}", 0, 0, 15_000, "r", match=lambda code, number=number: bool(asked.append(number)))
    assert list(room.wake("topic-7", 0, 1, [1])) == [None]
    assert asked == [7]


def test_drain_removes_all_pulls(room):
    room.park("flights", 0, 0, 100, "a")
    room.park("flights", 1, 0, 100, "b")
    assert sorted(requests(room.drain())) == ["a", "b"]
    room.check_invariants()
    assert (len(room), room.next_deadline_ms(), ("flights", 0) in room.queues) == (0, None, False)


class LongPollModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.room: LongPoll[int] = LongPoll()
        self.model: list[ParkedPull[int]] = []
        self.now_ms = 0
        self.number = 0

    @rule(
        queue=st.integers(0, 2),
        offset=st.integers(0, 5),
        wait_ms=st.integers(0, 50),
        code=st.sampled_from([None, 1, 2]),
        owner=st.sampled_from("ab"),
    )
    def park(self, queue: int, offset: int, wait_ms: int, code: int | None, owner: str) -> None:
        self.number += 1
        match = None if code is None else (lambda arrived: arrived == code)
        self.model.append(
            self.room.park("t", queue, offset, self.now_ms + wait_ms, self.number, match=match, owner=owner)
        )

    def expect(self, left: Iterable[ParkedPull[int] | None], expected: list[ParkedPull[int]]) -> None:
        assert [pull.request for pull in left if pull is not None] == [pull.request for pull in expected]
        self.model = [pull for pull in self.model if pull not in expected]

    @rule(queue=st.integers(0, 2), max_offset=st.integers(0, 7), code=st.sampled_from([None, 1, 2]))
    def wake(self, queue: int, max_offset: int, code: int | None) -> None:
        expected = [
            pull
            for pull in self.model
            if pull.queue_id == queue
            and pull.offset < max_offset
            and (code is None or pull.match is None or pull.match(code))
        ]
        self.expect(self.room.wake("t", queue, max_offset, None if code is None else [code]), expected)

    @rule(ms=st.integers(0, 30))
    def expire(self, ms: int) -> None:
        self.now_ms += ms
        due = [pull for pull in self.model if pull.deadline_ms <= self.now_ms]
        self.expect(self.room.expire(self.now_ms), sorted(due, key=lambda pull: (pull.deadline_ms, pull.request)))

    @rule(queue=st.integers(0, 2), remainder=st.integers(0, 2))
    def take(self, queue: int, remainder: int) -> None:
        taken = self.room.take("t", queue, lambda number: number % 3 == remainder)
        gone = [pull for pull in self.model if pull.queue_id == queue and pull.request % 3 == remainder]
        assert taken == [pull.request for pull in gone]
        self.model = [pull for pull in self.model if pull not in gone]

    @rule(owner=st.sampled_from("ab"))
    def close(self, owner: str) -> None:
        gone = [pull for pull in self.model if pull.owner == owner]
        assert self.room.discard_owner(owner) == len(gone)
        self.model = [pull for pull in self.model if pull not in gone]

    @invariant()
    def laws_hold(self) -> None:
        self.room.check_invariants()
        assert len(self.room) == len(self.model)
        assert self.room.next_deadline_ms() == min((pull.deadline_ms for pull in self.model), default=None)
        for queue in range(3):
            assert (("t", queue) in self.room.queues) == any(pull.queue_id == queue for pull in self.model)


TestLongPollModel = LongPollModel.TestCase
TestLongPollModel.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)


def test_a_connection_that_closes_costs_its_own_waiters_only(room):
    for owner in range(50):
        for queue_id in range(4):
            room.park("t", queue_id, 0, 1_000, "r", owner=owner)
    others = {queue: Unseen(waiting) for queue, waiting in room.queues.items()}
    room.queues = others  # type: ignore[assignment]
    assert room.discard_owner(7) == 4
    assert len(room) == 196


class Unseen(dict[object, None]):
    """Waiters of a queue that nobody goes through."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all waiters of a queue were looked at")

# SPDX-License-Identifier: Apache-2.0
"""core.pull_cursor: one table per kind of event, and one whole story."""

from __future__ import annotations

import pytest

from sprocketmq.core.consume.flow_control import FlowControlCause, FlowLimits
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import (
    CorrectOffset,
    Dispatch,
    DropQueue,
    LoopEnded,
    OffsetRead,
    PullCursor,
    PullDue,
    PullEvent,
    PullFailed,
    PullLater,
    PullNow,
    PullOutdated,
    PullReturned,
    PullStatus,
    ReadOffset,
    SendPull,
    pull_status,
)

from ..messages import QUEUE, messages

FOUND, NO_NEW, NO_MATCHED, ILLEGAL = PullStatus


def cursor(next_offset: int = 5, *, orderly: bool = False, interval_ms: int = 0) -> PullCursor:
    return PullCursor(ProcessQueue(QUEUE, 0), next_offset, orderly=orderly, pull_interval_ms=interval_ms)


def delays(cursor: PullCursor, event: PullEvent, now_ms: int = 0) -> list[int]:
    return [effect.delay_ms for effect in cursor.handle(event, now_ms) if isinstance(effect, PullLater)]


@pytest.fixture
def one() -> PullCursor:
    return cursor()


def test_response_codes_are_statuses_or_errors():
    assert [pull_status(code) for code in (0, 19, 20, 21, 1, 24)] == [FOUND, NO_NEW, NO_MATCHED, ILLEGAL, None, None]


def test_a_due_queue_is_pulled_from_its_next_offset_once():
    one = cursor(5)
    assert one.handle(PullDue(), 77) == [SendPull(5)]
    assert one.process_queue.last_pull_ms == 77
    assert one.handle(PullDue(), 78) == []
    assert delays(one, PullFailed("no answer")) == [1_000]
    assert one.handle(PullDue(), 79) == [SendPull(5)]
    assert one.handle(PullDue(), 80) == []
    one.handle(PullReturned(FOUND, 900, messages(5, 8)), 81)
    assert one.handle(PullDue(), 82) == [SendPull(900)], "where the broker says, not behind the last message"


def test_found_messages_are_cached_dispatched_and_the_next_pull_follows_at_once():
    one = cursor(5)
    one.handle(PullDue(), 0)
    assert one.handle(PullReturned(FOUND, 9, messages(5, 8)), 1) == [Dispatch(2), PullNow(9)]
    assert one.process_queue.count == 2
    assert one.handle(PullDue(), 2) == [SendPull(9)]


def test_a_pull_interval_delays_only_pulls_that_found_something():
    one = cursor(interval_ms=300)
    assert delays(one, PullReturned(FOUND, 9, messages(5))) == [300]
    assert delays(one, PullReturned(FOUND, 10)) == [], "all of them filtered by the client"
    assert delays(one, PullReturned(NO_MATCHED, 10)) == []
    assert delays(one, PullReturned(NO_NEW, 10)) == []


@pytest.mark.parametrize("status", [NO_NEW, NO_MATCHED])
def test_without_messages_progress_moves_only_when_nothing_is_cached(one, status):
    assert one.handle(PullReturned(status, 800), 0) == [CorrectOffset(800), PullNow(800)]
    one.process_queue.put(messages(800))
    assert one.handle(PullReturned(status, 1600), 0) == [PullNow(1600)]
    assert one.next_offset == 1600
    one.process_queue.take(1, 0)  # a listener has it
    assert one.handle(PullReturned(status, 2400), 0) == [PullNow(2400)]


@pytest.mark.parametrize(("offset", "is_beyond_end", "begin"), [(7, True, 5), (7, False, 7), (4000, False, 4000)])
def test_an_illegal_offset_drops_the_queue_and_skips_no_message_of_a_log_that_lost_its_end(
    one, offset, is_beyond_end, begin
):
    """A broker that lost the end of its log in a power cut still has those before."""
    one.handle(PullReturned(FOUND, 9, messages(5, 6, 7, 8)), 0)
    first, *_ = one.process_queue.take(2, 0)
    assert first.queue_offset == 5
    assert one.handle(PullReturned(ILLEGAL, offset, is_beyond_end=is_beyond_end), 0) == [
        DropQueue(begin, is_beyond_end)
    ]
    assert one.process_queue.dropped
    assert one.handle(PullDue(), 1) == [LoopEnded()]


@pytest.mark.parametrize(
    "event",
    [PullDue(), PullReturned(FOUND, 9, messages(5)), PullReturned(ILLEGAL, 1), PullFailed("x"), OffsetRead(3)],
)
def test_a_dropped_queue_ends_the_loop_and_takes_nothing_in(one, event):
    one.process_queue.drop()
    assert one.handle(event, 0) == [LoopEnded()]
    assert one.process_queue.count == 0


def test_an_answer_under_another_subscription_is_asked_again_from_the_same_offset():
    one = cursor(5)
    one.handle(PullDue(), 0)
    assert one.handle(PullOutdated(), 1) == [PullNow(5)]
    assert one.handle(PullDue(), 2) == [SendPull(5)]


def test_failures_wait_a_second_and_broker_flow_control_20_ms(one):
    one.handle(PullDue(), 0)
    assert one.handle(PullFailed("no answer"), 0) == [PullLater(1_000, "no answer")]
    assert one.handle(PullDue(), 1_000) == [SendPull(5)]
    assert delays(one, PullFailed("code 215", broker_flow_control=True)) == [20]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (PullDue(running=False), "not running"),
        (PullDue(paused=True), "paused"),
        (PullDue(subscribed=False), "no subscription"),
    ],
)
def test_a_consumer_that_must_not_pull_looks_again_in_a_second(one, event, reason):
    (effect,) = one.handle(event, 9)
    assert isinstance(effect, PullLater)
    assert effect.delay_ms == 1_000
    assert reason in effect.reason
    assert one.process_queue.last_pull_ms == 9
    assert not one.in_flight


def test_a_full_queue_waits_50_ms_and_is_pulled_when_it_drained(one):
    one.limits = FlowLimits(max_count=1)
    one.handle(PullReturned(FOUND, 9, messages(5, 6)), 0)
    (effect,) = one.handle(PullDue(), 0)
    assert isinstance(effect, PullLater)
    assert (effect.delay_ms, effect.cause) == (50, FlowControlCause.COUNT)
    one.process_queue.done(one.process_queue.take(1, 0))
    assert one.handle(PullDue(), 50) == [SendPull(9)]


def test_orderly_pulls_only_with_a_valid_lock_and_rereads_the_offset_once():
    one = cursor(5, orderly=True)
    assert delays(one, PullDue()) == [1_000]
    one.process_queue.lock.granted(0)
    assert one.handle(PullDue(), 10) == [ReadOffset()]
    assert delays(one, OffsetRead(-1)) == [1_000]
    assert one.handle(PullDue(), 20) == [ReadOffset()]
    assert one.handle(OffsetRead(3), 30) == [PullNow(3)]
    assert one.handle(PullDue(), 40) == [SendPull(3)]
    one.handle(PullReturned(FOUND, 4, messages(3)), 50)
    assert delays(one, PullDue(), 30_001) == [1_000], "the lock expired"
    one.process_queue.lock.granted(30_001)
    assert one.handle(PullDue(), 30_002) == [SendPull(4)]


def locked_again(*, at_ms: int = 100_000) -> PullCursor:
    """Offsets 3 to 6 are cached, 3 is being consumed, the next pull is 7; the lock was lost and came back."""
    one = cursor(3, orderly=True)
    lock = one.process_queue.lock
    lock.granted(0)
    one.handle(PullDue(), 0)
    one.handle(OffsetRead(3), 0)
    one.handle(PullDue(), 0)
    one.handle(PullReturned(FOUND, 7, messages(3, 4, 5, 6)), 0)
    one.process_queue.take(1, 0)
    lock.lost()
    lock.granted(at_ms)
    assert one.handle(PullDue(), at_ms) == [ReadOffset()]
    return one


@pytest.mark.parametrize("stored", [0, 3])
def test_a_queue_locked_again_continues_where_no_other_member_consumed(stored):
    one = locked_again()
    assert one.handle(OffsetRead(stored), 100_000) == [CorrectOffset(3), Dispatch(0), PullNow(7)]
    assert one.process_queue.count == 4
    assert one.handle(PullDue(), 100_000) == [SendPull(7)]
    one.process_queue.check_invariants()


@pytest.mark.parametrize("stored", [4, 7, 900])
def test_a_lock_that_comes_back_begins_anew_where_another_member_ended(stored):
    one = locked_again()
    queue = one.process_queue
    before = messages(3)
    assert one.handle(OffsetRead(stored), 100_000) == [PullNow(stored)]
    assert one.handle(PullDue(), 100_000) == [SendPull(stored)]
    assert (queue.count, queue.size_bytes, queue.commit_offset) == (0, 0, None)
    assert queue.done(before) is None, "what a listener still had in hand settles nothing"
    one.handle(PullReturned(FOUND, stored + 2, messages(stored, stored + 1)), 100_000)
    assert queue.done(queue.take(1, 0)) == stored + 1
    queue.check_invariants()


def test_an_offset_that_cannot_be_read_keeps_what_is_cached_for_the_next_try():
    one = locked_again()
    assert delays(one, OffsetRead(-1), 100_000) == [1_000]
    assert one.handle(PullDue(), 100_010) == [ReadOffset()]
    assert one.own_offset == 3
    assert one.handle(OffsetRead(one.own_offset), 100_020)[0] == CorrectOffset(3)


def test_an_offset_that_was_asked_for_before_the_lock_was_away_again_is_read_again():
    one = locked_again()
    one.process_queue.lock.lost()
    one.process_queue.lock.granted(100_005)
    assert one.handle(OffsetRead(3), 100_010) == [PullNow(7)], "another member may have gone past us since"
    assert one.handle(PullDue(), 100_010) == [ReadOffset()]
    assert one.handle(OffsetRead(5), 100_020) == [PullNow(5)]
    assert one.process_queue.count == 0


@pytest.mark.parametrize(
    "due", [PullDue(), PullDue(paused=True), PullDue(full=True)], ids=["full queue", "paused", "full consumer"]
)
def test_nothing_that_stops_pulls_keeps_a_lock_that_came_back_from_reading_the_offset(due):
    """Nothing is consumed before, so that a full queue would stay full."""
    one = locked_again()
    one.limits = FlowLimits(max_count=3)  # 4 are cached
    assert one.handle(due, 100_010) == [ReadOffset()]
    one.handle(OffsetRead(3), 100_020)
    assert delays(one, due, 100_030) == [50 if due == PullDue() else 1_000]


def test_concurrent_pulls_need_no_lock_and_orderly_ones_no_span():
    concurrent, orderly = cursor(), cursor(orderly=True)
    orderly.process_queue.lock.granted(0)
    orderly.previously_locked = True
    for one in (concurrent, orderly):
        one.process_queue.put(messages(0, 5_000))
    assert delays(concurrent, PullDue()) == [50]
    assert orderly.handle(PullDue(), 0) == [SendPull(5)]

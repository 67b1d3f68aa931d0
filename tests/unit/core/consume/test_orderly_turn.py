# SPDX-License-Identifier: Apache-2.0
"""core.orderly_turn: the table of results, locks and limits; and random listeners that must never see the order broken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.consume.orderly_turn import (
    Commit,
    ConsumeBatch,
    ConsumeOrderlyStatus,
    DeadLetterNeeded,
    LockLater,
    OrderlyTurn,
    Suspended,
    TurnEnded,
    TurnOver,
    read_orderly_answer,
)
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.wire.records.message import MessageExt

from ..messages import QUEUE, messages, offsets_of

SUCCESS, ROLLBACK, COMMIT, SUSPEND = ConsumeOrderlyStatus


def locked_queue(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue(QUEUE)
    queue.lock.granted(0)
    queue.put(messages(*offsets))
    return queue


def batch_of(turn: OrderlyTurn, now_ms: int = 0) -> list[MessageExt]:
    effect = turn.next(now_ms)
    assert isinstance(effect, ConsumeBatch), effect
    return effect.messages


def test_a_turn_hands_out_batches_in_order_until_nothing_is_pending():
    turn = OrderlyTurn(locked_queue(1, 2, 3), batch_size=2)
    first = batch_of(turn)
    assert offsets_of(first) == [1, 2]
    assert turn.settle(first, SUCCESS) == [Commit(3)]
    second = batch_of(turn)
    assert turn.settle(second, SUCCESS) == [Commit(4)]
    assert turn.next(0) == TurnEnded()


@pytest.mark.parametrize("status", [SUCCESS, COMMIT, ROLLBACK])
def test_with_auto_commit_everything_but_suspend_commits(status):
    turn = OrderlyTurn(locked_queue(1, 2))
    assert turn.settle(batch_of(turn), status) == [Commit(2)]


def test_without_auto_commit_success_goes_on_and_commit_settles_all():
    turn = OrderlyTurn(locked_queue(1, 2, 3))
    assert turn.settle(batch_of(turn), SUCCESS, auto_commit=False) == []
    assert turn.settle(batch_of(turn), SUCCESS, auto_commit=False) == []
    assert turn.process_queue.commit_offset == 1
    assert turn.settle(batch_of(turn), COMMIT, auto_commit=False) == [Commit(4)]


def test_without_auto_commit_rollback_brings_all_uncommitted_back():
    turn = OrderlyTurn(locked_queue(1, 2, 3), suspend_ms=700)
    turn.settle(batch_of(turn), SUCCESS, auto_commit=False)
    assert turn.settle(batch_of(turn), ROLLBACK, auto_commit=False) == [Suspended(700)]
    assert offsets_of(turn.process_queue.take(9, 0)) == [1, 2, 3]


@pytest.mark.parametrize("auto_commit", [True, False])
def test_suspend_blocks_the_queue_and_counts_the_try(auto_commit):
    turn = OrderlyTurn(locked_queue(1, 2))
    batch = batch_of(turn)
    assert turn.settle(batch, SUSPEND, auto_commit=auto_commit) == [Suspended(1_000)]
    again = OrderlyTurn(turn.process_queue)
    (same,) = batch_of(again)
    assert (same.queue_offset, same.reconsume_times) == (1, 1)


@pytest.mark.parametrize(("asked_ms", "pause_ms"), [(-1, 1_000), (0, 10), (5, 10), (2_000, 2_000), (99_999, 30_000)])
def test_the_pause_is_held_within_10_ms_and_30_s(asked_ms, pause_ms):
    turn = OrderlyTurn(locked_queue(1))
    assert turn.settle(batch_of(turn), SUSPEND, suspend_ms=asked_ms) == [Suspended(pause_ms)]


def test_a_message_over_its_limit_is_dead_lettered_and_the_queue_goes_on():
    turn = OrderlyTurn(locked_queue(1, 2), max_reconsume_times=2)
    for _ in range(2):
        assert turn.settle(batch_of(turn), SUSPEND) == [Suspended(1_000)]
    batch = batch_of(turn)
    assert turn.settle(batch, SUSPEND) == [DeadLetterNeeded(batch)]
    assert turn.dead_lettered(batch, []) == [Commit(2)]
    assert offsets_of(batch_of(turn)) == [2]


def test_a_dead_letter_that_could_not_be_stored_blocks_the_queue():
    turn = OrderlyTurn(locked_queue(1, 2), max_reconsume_times=0)
    batch = batch_of(turn)
    assert turn.settle(batch, SUSPEND) == [DeadLetterNeeded(batch)]
    assert turn.dead_lettered([], batch) == [Suspended(1_000)]
    assert offsets_of(batch_of(turn)) == [1]
    assert batch[0].reconsume_times == 1


def test_in_a_mixed_batch_what_was_stored_is_not_stored_again():
    queue = locked_queue(1, 2)
    first, second = queue.take(2, 0)
    first.reconsume_times = 5
    queue.rollback()
    turn = OrderlyTurn(queue, batch_size=2, max_reconsume_times=5)
    batch = batch_of(turn)
    assert turn.settle(batch, SUSPEND, suspend_ms=50) == [DeadLetterNeeded([first])]
    assert turn.dead_lettered([first], []) == [Commit(2), Suspended(50)]
    assert batch_of(turn) == [second]
    assert second.reconsume_times == 1


def test_a_dead_letter_without_auto_commit_does_not_commit_what_came_before():
    turn = OrderlyTurn(locked_queue(1, 2), max_reconsume_times=0)
    turn.settle(batch_of(turn), SUCCESS, auto_commit=False)
    batch = batch_of(turn)
    turn.settle(batch, SUSPEND, auto_commit=False)
    assert turn.dead_lettered(batch, []) == [Commit(1)]


def test_without_a_lock_a_turn_does_not_begin():
    queue = ProcessQueue(QUEUE)
    queue.put(messages(1))
    assert OrderlyTurn(queue).next(0) == LockLater(100)
    assert isinstance(OrderlyTurn(queue, clustering=False).next(0), ConsumeBatch)


def test_what_was_cached_under_an_earlier_lock_is_not_handed_out():
    turn = OrderlyTurn(locked_queue(0, 1))
    lock = turn.process_queue.lock
    lock.lost()
    lock.granted(10)
    assert turn.next(10) == TurnEnded()
    turn.process_queue.tenure = lock.tenure  # the pull loop found that nobody went past us
    assert batch_of(turn, 10)


def test_a_lock_that_expires_during_the_turn_ends_it_before_the_next_batch():
    turn = OrderlyTurn(locked_queue(1, 2))
    turn.settle(batch_of(turn, 0), SUCCESS)
    assert turn.next(30_001) == LockLater(10)
    turn.process_queue.lock.granted(30_001)
    assert offsets_of(batch_of(turn, 30_002)) == [2]


def test_a_turn_gives_way_after_60_s():
    queue = locked_queue(1, 2, 3)
    turn = OrderlyTurn(queue, clustering=False)
    turn.settle(batch_of(turn, 1_000), SUCCESS)
    turn.settle(batch_of(turn, 61_000), SUCCESS)
    assert turn.next(61_001) == TurnOver(10)
    assert queue.pending_count == 1


def test_a_dropped_queue_ends_the_turn_and_commits_nothing():
    turn = OrderlyTurn(locked_queue(1, 2))
    batch = batch_of(turn)
    turn.process_queue.drop()
    assert turn.settle(batch, SUCCESS) == []
    assert turn.next(0) == TurnEnded()
    turn.process_queue.lock.lost()
    assert turn.next(0) == TurnEnded()  # not even its lock is asked for again


@pytest.mark.parametrize(
    ("returned", "pause", "status", "complaint"),
    [
        (SUCCESS, -1, SUCCESS, None),
        (SUSPEND, 500, SUSPEND, None),
        (None, -1, SUSPEND, "returned None"),
        (1, -1, SUSPEND, "returned 1"),
        ("SUCCESS", -1, SUSPEND, "returned 'SUCCESS'"),
        (SUSPEND, "1s", SUSPEND, "set context.suspend_current_queue_time_ms to '1s'"),
        (SUSPEND, None, SUSPEND, "set context.suspend_current_queue_time_ms to None"),
        (SUSPEND, 0.5, SUSPEND, "set context.suspend_current_queue_time_ms to 0.5"),
    ],
)
def test_a_pause_that_is_no_number_is_replaced_and_told(returned, pause, status, complaint):
    context = SimpleNamespace(suspend_current_queue_time_ms=pause)
    got, said = read_orderly_answer(returned, context)
    assert got is status
    assert said is None if complaint is None else said is not None and complaint in said
    assert isinstance(context.suspend_current_queue_time_ms, int)


@given(
    count=st.integers(1, 12),
    batch_size=st.integers(1, 4),
    answers=st.lists(st.tuples(st.sampled_from(list(ConsumeOrderlyStatus)), st.booleans(), st.booleans()), max_size=60),
)
def test_whatever_the_listener_answers_no_message_is_skipped(count, batch_size, answers):
    """Each batch starts at the first offset that is neither settled nor handed out and uncommitted; commits never pass it."""
    queue = locked_queue(*range(count))
    turn = OrderlyTurn(queue, batch_size=batch_size, max_reconsume_times=2)
    settled: set[int] = set()
    uncommitted: list[int] = []
    for status, auto_commit, stored in answers:
        effect = turn.next(0)
        expected = [offset for offset in range(count) if offset not in settled and offset not in uncommitted][
            :batch_size
        ]
        if not expected:
            assert effect == TurnEnded()
            break
        assert isinstance(effect, ConsumeBatch)
        batch = effect.messages
        assert offsets_of(batch) == expected
        effects = turn.settle(batch, status, auto_commit=auto_commit)
        if effects and isinstance(needed := effects[0], DeadLetterNeeded):
            over = needed.messages
            effects = turn.dead_lettered(over, []) if stored else turn.dead_lettered([], over)
            settled |= set(offsets_of(over)) if stored else set()
        elif status is not SUSPEND and (auto_commit or status is COMMIT):
            settled |= set(expected) | set(uncommitted)
            uncommitted = []
        elif status is SUCCESS:
            uncommitted += expected
        elif status is ROLLBACK:
            uncommitted = []
        commits = [effect.offset for effect in effects if isinstance(effect, Commit)]
        first_open = next((offset for offset in range(count) if offset not in settled), count)
        assert commits in ([], [first_open])
        queue.check_invariants()

# SPDX-License-Identifier: Apache-2.0
"""Where batches begin and end, with Hypothesis playing brokers that grow, delete, restart and gain queues."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.new_queue_start import NewQueueStart
from sprocketmq.spark.offsets import QueueRange, StreamOffset, batch_ranges
from sprocketmq.spark.options.bound import Bound
from sprocketmq.spark.read.plan import (
    BrokerOffsets,
    QueueBounds,
    plan_batch,
    resolve_batch,
    resolve_end,
    resolve_start,
    unread_queues,
)
from sprocketmq.wire.records.message import MessageQueue

A, B, C = (MessageQueue("t", "broker", at) for at in range(3))
RETRY = MessageQueue("%RETRY%g", "broker", 0)
HELD = {A: QueueBounds(5, 20), B: QueueBounds(0, 10)}
BOUNDS = st.builds(lambda low, size: QueueBounds(low, low + size), st.integers(0, 50), st.integers(0, 50))


def test_starts_follow_the_option() -> None:
    assert resolve_start(Bound("earliest"), BrokerOffsets(HELD)) == {A: 5, B: 0}
    assert resolve_start(Bound("latest"), BrokerOffsets(HELD)) == {A: 20, B: 10}
    assert resolve_start(Bound("offsets", offsets={A: 7}), BrokerOffsets(HELD)) == {A: 7, B: 0}
    assert resolve_start(Bound("offsets", offsets={A: -1, B: -2}), BrokerOffsets(HELD)) == {A: 20, B: 0}


def test_a_start_by_time_takes_what_was_found_and_says_what_was_not() -> None:
    bound = Bound("timestamp", 1234)
    facts = BrokerOffsets(HELD, by_time={A: 9})
    assert resolve_start(bound, facts, strategy="latest") == {A: 9, B: 10}
    assert resolve_start(bound, BrokerOffsets({A: QueueBounds(7, 7)})) == {A: 7}  # empty: young enough for any time
    with pytest.raises(
        ConfigurationError, match="startingTimestamp is 1234, and t/broker/1 holds no message that young"
    ):
        resolve_start(bound, facts, strategy="error")


def test_each_queue_has_a_time_of_its_own() -> None:
    bound = Bound("timestamps", offsets={A: 1234}, option="startingOffsetsByTimestamp")
    assert resolve_start(bound, BrokerOffsets(HELD, by_time={A: 9})) == {A: 9, B: 0}
    assert resolve_start(bound, BrokerOffsets(HELD), strategy="latest") == {A: 20, B: 0}
    with pytest.raises(ConfigurationError, match="startingOffsetsByTimestamp is 1234, and t/broker/0 holds no message"):
        resolve_start(bound, BrokerOffsets(HELD))
    assert resolve_end(bound, BrokerOffsets(HELD, by_time={A: 9})) == {A: 9, B: 10}


def test_a_start_by_group_takes_its_commits_and_falls_back_as_told() -> None:
    facts = BrokerOffsets(HELD, committed={A: 9})
    assert resolve_start(Bound("group"), facts, fallback="earliest") == {A: 9, B: 0}
    assert resolve_start(Bound("group"), facts, fallback="latest") == {A: 9, B: 10}
    with pytest.raises(ConfigurationError, match="committed nothing for t/broker/1"):
        resolve_start(Bound("group"), facts, fallback="error")


def test_retries_are_read_from_where_their_group_left_them_even_by_a_stream_that_starts_at_the_end() -> None:
    held = {RETRY: QueueBounds(0, 8)}
    assert resolve_start(Bound("latest"), BrokerOffsets(held)) == {RETRY: 0}
    assert resolve_start(Bound("latest"), BrokerOffsets(held, committed={RETRY: 3})) == {RETRY: 3}


def test_a_named_queue_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(
        ConfigurationError, match="startingOffsets names t/broker/2, which does not exist; known are t/broker/0"
    ):
        resolve_start(Bound("offsets", offsets={C: 1}), BrokerOffsets(HELD))
    with pytest.raises(ConfigurationError, match="endingOffsets names t/broker/2, which does not exist"):
        resolve_end(Bound("offsets", offsets={C: 1}, option="endingOffsets"), BrokerOffsets(HELD))


def test_ends_are_cut_to_what_is_there() -> None:
    assert resolve_end(Bound("latest"), BrokerOffsets(HELD)) == {A: 20, B: 10}
    assert resolve_end(Bound("offsets", offsets={A: 7, B: 99}), BrokerOffsets(HELD)) == {A: 7, B: 10}
    assert resolve_end(Bound("timestamp", 1), BrokerOffsets(HELD, by_time={A: 6})) == {A: 6, B: 10}


def test_a_batch_leaves_lost_messages_out_and_names_them() -> None:
    ranges, losses = resolve_batch({A: 2, B: 10}, {A: 20, B: 10}, HELD)
    assert ranges == [QueueRange(A, 5, 20)]
    assert [loss.count for loss in losses] == [3]
    ranges, losses = resolve_batch({A: 2}, {A: 4}, HELD)
    assert ranges == []
    assert [(loss.start, loss.end) for loss in losses] == [(2, 4)], "no more than it would have read"
    with pytest.raises(ConfigurationError, match="would start at 9 and end at 7"):
        resolve_batch({A: 9}, {A: 7}, HELD)


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_batches_meet_whatever_brokers_do(data: st.DataObject) -> None:
    """Growing, late and vanishing queues under changing limits: read together, the ranges are each queue from its start to its head."""
    held = {A: data.draw(BOUNDS), B: data.draw(BOUNDS)}
    begin = {queue: bounds.min for queue, bounds in held.items()}
    first = plan_batch(StreamOffset(begin), held, limit=data.draw(st.none() | st.integers(1, 20)), first=True)
    read: dict[MessageQueue, int] = dict(begin)
    position = StreamOffset(initial="earliest")
    end = first.end
    for _ in range(data.draw(st.integers(0, 8))):
        position = _check_batch(position, end, read)
        held = {
            queue: QueueBounds(bounds.min, bounds.max + data.draw(st.integers(0, 9))) for queue, bounds in held.items()
        }
        if C not in held and data.draw(st.booleans()):
            held[C] = data.draw(BOUNDS)
            read[C] = held[C].min
        seen = {queue: bounds for queue, bounds in held.items() if data.draw(st.booleans())}
        step = plan_batch(position, seen, limit=data.draw(st.none() | st.integers(1, 20)))
        assert not step.losses
        end = step.end
    position = _check_batch(position, end, read)
    _check_batch(position, plan_batch(position, held).end, read)
    assert {queue: at for queue, at in read.items() if at > held[queue].min} == {
        queue: bounds.max for queue, bounds in held.items() if bounds.max > bounds.min
    }


def _check_batch(start: StreamOffset, end: StreamOffset, read: dict[MessageQueue, int]) -> StreamOffset:
    """The batch goes on exactly where the last one ended. Through JSON, as Spark does it."""
    start, end = (StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) for offset in (start, end))
    for entry in batch_ranges(start, end):
        assert entry.start == read[entry.queue]
        read[entry.queue] = entry.end
    return end


def test_without_new_messages_the_end_is_the_same_offset_object() -> None:
    start = StreamOffset({A: 20, B: 10}, {A: 1})
    assert plan_batch(start, HELD).end is start
    assert plan_batch(start, {}).end is start


def test_the_first_step_is_journaled_even_if_nothing_is_there() -> None:
    step = plan_batch(StreamOffset({A: 20, B: 10}), HELD, first=True)
    assert step.end == StreamOffset({A: 20, B: 10}, {A: 20, B: 10})


def test_deleted_messages_are_a_loss_of_one_batch_and_the_stream_goes_on_at_what_is_left() -> None:
    step = plan_batch(StreamOffset({A: 2, B: 10}), HELD)
    assert [str(loss) for loss in step.losses] == [
        "t/broker/0: offsets 2 to 5 (3 messages) are missing, the broker holds 5 to 20 (deleted by retention)"
    ]
    assert batch_ranges(StreamOffset({A: 2, B: 10}), step.end) == [QueueRange(A, 5, 20)]
    journaled = StreamOffset.from_json(json.loads(json.dumps(step.end.to_json())))
    assert journaled.lost == step.losses
    assert plan_batch(journaled, HELD).end is journaled  # and not told again with the next one


def test_a_topic_made_anew_is_a_loss_of_unknown_size_and_is_read_from_its_beginning() -> None:
    step = plan_batch(StreamOffset({A: 99, B: 10}), HELD)
    assert step.losses[0].count is None
    assert batch_ranges(StreamOffset({A: 99, B: 10}), step.end) == [QueueRange(A, 5, 20)]


def test_available_now_after_a_restart_beyond_the_target_neither_goes_back_nor_loses() -> None:
    position = StreamOffset({A: 18, B: 0})
    step = plan_batch(position, HELD, target={A: QueueBounds(5, 15), B: QueueBounds(0, 0)})
    assert step.end is position
    assert not step.losses


# -- what is lost ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["topic gone", "queue gone"])
def test_a_queue_that_is_gone_leaves_the_stream_and_names_what_was_not_read(reason: str) -> None:
    position = StreamOffset({A: 7, B: 10})
    step = plan_batch(position, {B: HELD[B]}, gone={A: reason}, known={A: 20, B: 10})  # type: ignore[dict-item]
    assert [(loss.queue, loss.reason, loss.start, loss.end) for loss in step.losses] == [(A, reason, 7, 20)]
    assert step.end.queues == {B: 10}
    assert batch_ranges(position, step.end) == []
    back = plan_batch(step.end, {A: QueueBounds(0, 3), B: HELD[B]})
    assert batch_ranges(step.end, back.end) == [QueueRange(A, 0, 3)]


def test_a_queue_that_is_gone_was_perhaps_read_whole() -> None:
    (loss,) = plan_batch(StreamOffset({A: 20}), {}, gone={A: "topic gone"}, known={A: 20}).losses
    assert loss.count == 0
    (loss,) = plan_batch(StreamOffset({A: 20}), {}, gone={A: "topic gone"}).losses
    assert loss.count is None
    assert not plan_batch(StreamOffset({A: 20}), {}, gone={B: "topic gone"}).losses, "B was never in the stream"


def test_a_head_that_goes_back_loses_what_was_known_and_the_stream_reads_on() -> None:
    position = StreamOffset({A: 7})
    step = plan_batch(position, {A: QueueBounds(5, 12)}, known={A: 20})
    assert [(loss.reason, loss.start, loss.end) for loss in step.losses] == [("went back", 12, 20)]
    assert batch_ranges(position, step.end) == [QueueRange(A, 7, 12)]


def test_a_queue_that_comes_late_begins_where_it_is_told() -> None:
    position = StreamOffset({A: 7}, new_queue_start=NewQueueStart("latest", 5, "trains"))
    step = plan_batch(position, {A: QueueBounds(0, 7), B: QueueBounds(2, 20)}, starts={B: 15})
    assert batch_ranges(position, step.end) == [QueueRange(B, 15, 20)]
    assert (step.losses, step.end.new_queue_start) == ((), position.new_queue_start)
    assert plan_batch(position, {A: QueueBounds(0, 7), B: QueueBounds(2, 20)}, starts={B: 20}).end is position


@pytest.mark.parametrize("held", [QueueBounds(0, 0), QueueBounds(0, 3), QueueBounds(9, 9)])
def test_a_group_that_is_where_a_late_queue_holds_nothing_is_one_loss(held: QueueBounds) -> None:
    position = StreamOffset({A: 7})
    step = plan_batch(position, {B: held}, starts={B: 5})
    assert [loss.start for loss in step.losses] == [5]
    assert step.end.queues[B] == held.max
    assert plan_batch(step.end, {B: held}, starts={}).end is step.end


# -- AvailableNow ----------------------------------------------------------------------------------------------------------------


def test_a_run_is_not_over_while_a_queue_of_its_target_or_of_its_checkpoint_is_away() -> None:
    target = {A: QueueBounds(5, 20), B: QueueBounds(0, 10)}
    assert unread_queues(StreamOffset({A: 20, B: 7}), target) == [B]
    assert unread_queues(StreamOffset({A: 20, B: 10}), target) == []
    assert unread_queues(StreamOffset({A: 20}), target) == [B]  # not begun
    assert unread_queues(StreamOffset({A: 20}), {A: target[A], C: QueueBounds(4, 4)}) == []  # nothing in it
    assert unread_queues(StreamOffset({A: 20, C: 3}), {A: target[A]}) == [C]  # its broker was away when the run began


def test_a_target_queue_that_vanishes_before_its_first_message_was_read_is_lost_whole() -> None:
    step = plan_batch(StreamOffset({A: 20}), {A: HELD[A]}, target=HELD, gone={B: "topic gone"})
    assert [(loss.queue, loss.start, loss.end) for loss in step.losses] == [(B, 0, 10)]


@settings(deadline=None)
@given(BOUNDS, BOUNDS, BOUNDS, st.none() | st.integers(1, 20), st.integers(0, 1 << 32))
def test_available_now_reads_each_target_queue_to_its_target_and_no_further(
    one: QueueBounds, other: QueueBounds, late: QueueBounds, limit: int | None, seed: int
) -> None:
    """Whatever grows, appears, hides or comes back: when a run is over, everything of its target was read once, and nothing else."""
    dice = random.Random(seed)
    target = {A: one, B: other}
    begin = {queue: dice.randint(held.min, held.max) for queue, held in target.items()}
    position, held = StreamOffset(begin), {**target, C: late}
    for _ in range(400):
        if not unread_queues(position, target):
            break
        held = {queue: QueueBounds(now.min, now.max + dice.randint(0, 2)) for queue, now in held.items()}
        seen = {queue: now for queue, now in held.items() if dice.randint(0, 2)}
        step = plan_batch(position, seen, limit=limit, target=target)
        assert not step.losses
        position = step.end
    assert position.queues == {queue: max(begin[queue], aim.max) for queue, aim in target.items()}
    assert plan_batch(position, held, target=target).end is position

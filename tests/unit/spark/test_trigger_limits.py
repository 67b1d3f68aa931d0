# SPDX-License-Identifier: Apache-2.0
"""How much a micro-batch may hold."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sprocketmq.spark.read.trigger_limits import ASSUMED_BYTES, ByteLimit, MessageSizes, TriggerDelay, limited_end
from sprocketmq.wire.records.message import MessageQueue

A, B, C = (MessageQueue("t", "broker", at) for at in range(3))
OTHER = MessageQueue("u", "broker", 0)
QUEUES = st.dictionaries(st.sampled_from([A, B, C]), st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1)
SIZES = st.fixed_dictionaries({queue: st.integers(1, 5000) for queue in (A, B, C)})


@example({A: (0, 1), B: (0, 1), C: (0, 4)}, 3)
@settings(deadline=None)
@given(QUEUES, st.integers(1, 60))
def test_a_limit_is_shared_fairly_and_kept(queues: dict[MessageQueue, tuple[int, int]], limit: int) -> None:
    start = {queue: low for queue, (low, _) in queues.items()}
    head = {queue: low + size for queue, (low, size) in queues.items()}
    end = limited_end(start, head, limit)
    assert all(start[queue] < end[queue] <= head[queue] for queue in head if head[queue] > start[queue])
    waiting = [size for _, size in queues.values() if size]
    assert sum(end[queue] - start[queue] for queue in end) == min(sum(waiting), max(limit, len(waiting)))


@settings(deadline=None)
@given(QUEUES, SIZES, st.integers(1, 200_000), st.none() | st.integers(1, 60))
def test_a_limit_in_bytes_is_shared_fairly_and_kept_beside_the_other(
    queues: dict[MessageQueue, tuple[int, int]], sizes: dict[MessageQueue, int], most: int, limit: int | None
) -> None:
    start = {queue: low for queue, (low, _) in queues.items()}
    head = {queue: low + size for queue, (low, size) in queues.items()}
    end = limited_end(start, head, limit, ByteLimit(most, lambda queue: float(sizes[queue])))
    waiting = [queue for queue in head if head[queue] > start[queue]]
    assert all(start[queue] < end[queue] <= head[queue] for queue in waiting)
    taken = sum((end[queue] - start[queue]) * sizes[queue] for queue in waiting)
    assert taken <= max(most, sum(sizes[queue] for queue in waiting)) + 1e-6
    if limit is None and sum((head[queue] - start[queue]) * sizes[queue] for queue in waiting) <= most:
        assert end == head
    if limit is not None:
        assert sum(end[queue] - start[queue] for queue in end) <= max(limit, len(queues))


def test_a_queue_of_large_messages_gets_as_many_bytes_as_one_of_small_ones_of_the_same_backlog() -> None:
    sizes = {A: 100.0, B: 10_000.0}
    end = limited_end({A: 0, B: 0}, {A: 10_000, B: 100}, None, ByteLimit(200_000, sizes.__getitem__))
    assert abs(end[A] * 100 - end[B] * 10_000) <= 20_000


def test_the_size_of_a_queue_that_was_not_looked_at_is_that_of_its_topic() -> None:
    sizes = MessageSizes()
    assert sizes.of(A) == ASSUMED_BYTES
    sizes.learn(OTHER, 10, 50_000)
    assert sizes.of(A) == 5000
    sizes.learn(B, 10, 1000)
    assert (sizes.of(A), sizes.of(B)) == (100, 100)


def test_a_size_follows_what_comes() -> None:
    sizes = MessageSizes()
    sizes.learn(A, 1, 100)
    for _ in range(12):
        sizes.learn(A, 32, 32 * 9000)
    assert 8900 < sizes.of(A) < 9000
    sizes.learn(A, 0, 0)  # an empty look teaches nothing
    assert 8900 < sizes.of(A) < 9000


def test_a_small_trigger_waits_for_more_but_not_for_ever() -> None:
    delay = TriggerDelay(10, 1000)
    asked = [(5, 0), (5, 900), (0, 999), (9, 1000), (9, 1999), (10, 1999), (9, 2999)]
    assert [delay.is_due(available, at_ms) for available, at_ms in asked] == [
        True, False, False, True, False, True, True,
    ]  # fmt: skip


def test_the_delay_runs_from_the_last_trigger_with_messages_or_without() -> None:
    """As KafkaMicroBatchStream.delayBatch: when nothing came in a whole delay, a new one begins."""
    delay = TriggerDelay(10, 1000)
    assert delay.is_due(10, 0)
    assert delay.is_due(0, 1000)
    assert not delay.is_due(1, 1500)
    assert delay.is_due(1, 2000)

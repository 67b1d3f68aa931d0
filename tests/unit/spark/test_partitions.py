# SPDX-License-Identifier: Apache-2.0
"""Packing loses nothing, repeats nothing and balances."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sprocketmq.spark.offsets import QueueRange
from sprocketmq.spark.options.read_options import read_options
from sprocketmq.spark.read.partitions import RECORDS_PER_TASK, split_ranges, task_count
from sprocketmq.wire.records.message import MessageQueue

SIZES = st.lists(st.integers(0, 40), max_size=12)


def ranges_of(sizes: list[int]) -> list[QueueRange]:
    return [QueueRange(MessageQueue("t", "b", at), 100, 100 + size) for at, size in enumerate(sizes)]


def messages(ranges: list[QueueRange]) -> list[tuple[int, int]]:
    return [(entry.queue.queue_id, offset) for entry in ranges for offset in range(entry.start, entry.end)]


@settings(deadline=None)
@given(SIZES, st.integers(1, 9), st.booleans())
def test_each_message_is_in_exactly_one_piece(sizes: list[int], tasks: int, ordered: bool) -> None:
    ranges = ranges_of(sizes)
    pieces = split_ranges(ranges, tasks, ordered=ordered)
    assert sorted(messages([entry for piece in pieces for entry in piece])) == messages(ranges)
    assert len(pieces) <= tasks
    assert all(piece for piece in pieces)
    assert all(entry.count for piece in pieces for entry in piece)


@settings(deadline=None)
@given(SIZES, st.integers(1, 9))
def test_pieces_are_equal_but_for_the_last(sizes: list[int], tasks: int) -> None:
    counts = [sum(entry.count for entry in piece) for piece in split_ranges(ranges_of(sizes), tasks)]
    assert all(count == -(-sum(sizes) // tasks) for count in counts[:-1])


@settings(deadline=None)
@given(SIZES, st.integers(1, 9))
def test_ordered_keeps_each_queue_whole(sizes: list[int], tasks: int) -> None:
    pieces = split_ranges(ranges_of(sizes), tasks, ordered=True)
    queues = [entry.queue for piece in pieces for entry in piece]
    assert len(queues) == len(set(queues))


def tasks_of(total: int, **options: str) -> int:
    given = {"namesrvAddr": "h:1", "topic": "t", **options}
    return task_count([QueueRange(MessageQueue("t", "b", 0), 0, total)], read_options(given, streaming=False))


def test_a_task_has_up_to_a_quarter_of_a_million_messages_and_the_first_four_less() -> None:
    assert tasks_of(0) == tasks_of(1_000) == tasks_of(100_000) == 1
    assert tasks_of(100_001) == tasks_of(200_000) == 2
    assert tasks_of(300_001) == tasks_of(4 * RECORDS_PER_TASK) == 4
    assert tasks_of(4 * RECORDS_PER_TASK + 1) == 5
    assert tasks_of(9 * RECORDS_PER_TASK) == 9


def test_the_users_limits_come_before_the_queues() -> None:
    assert tasks_of(1000, minPartitions="7") == 7
    assert tasks_of(1000, maxRecordsPerPartition="100") == 10
    assert tasks_of(1000, maxRecordsPerPartition="10", maxPartitions="4") == 4
    assert tasks_of(3, minPartitions="7") == 3


def test_a_task_for_each_queue_where_that_is_asked_for() -> None:
    """``ordered`` with a ``minPartitions`` of at least the number of queues, whatever the sizes."""
    ranges = ranges_of([500_000, 3, 40, 1])
    pieces = split_ranges(ranges, tasks_of(500_044, minPartitions="100"), ordered=True)
    assert sorted(pieces) == [(entry,) for entry in sorted(ranges)]

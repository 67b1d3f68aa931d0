# SPDX-License-Identifier: Apache-2.0
"""Divides the queue ranges of a batch into tasks. No I/O.

A Python task costs about 40 ms of a core in each micro-batch, and RocketMQ topics often have a hundred queues, so a task is not a
queue: ranges are put in queue order and cut into as many equal parts as there are tasks. Queue offsets have no gaps, so a cut is exact.
With ``ordered`` each queue stays in one task. Spark tells a Python source nothing about the cluster, so the number of tasks depends on
what is read and on the options only.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from pyspark.sql.datasource import InputPartition

from sprocketmq.spark.losses import Loss
from sprocketmq.spark.offsets import QueueRange
from sprocketmq.spark.options.read_options import ReadOptions

# A task costs 40 ms of a core and connections of its own, so on few cores many tasks are slower. But one task alone leaves cores without
# work: a batch of 200,000 messages took 0.81 to 0.85 of the time in two tasks, on two cores, and 0.92 to 1.03 in four.
RECORDS_PER_TASK: Final = 250_000
_RECORDS_PER_FIRST_TASK: Final = 100_000
_FIRST_TASKS: Final = 4


class TaskPartition(InputPartition):
    """The ranges of one Spark task. The first task of a batch also carries the losses found by planning, and reports them."""

    def __init__(self, ranges: tuple[QueueRange, ...], losses: tuple[Loss, ...] = ()) -> None:
        super().__init__(ranges)
        self.ranges, self.losses = ranges, losses

    def __repr__(self) -> str:
        return f"TaskPartition({', '.join(map(str, self.ranges))})"


def task_count(ranges: Sequence[QueueRange], options: ReadOptions) -> int:
    """The number of tasks that read ``ranges``: one for each 250,000 messages, and up to four of 100,000. ``minPartitions`` and
    ``maxRecordsPerPartition`` raise it; ``maxPartitions`` is the upper limit."""
    total = sum(entry.count for entry in ranges)
    count = max(-(-total // RECORDS_PER_TASK), min(-(-total // _RECORDS_PER_FIRST_TASK), _FIRST_TASKS))
    if options.max_records_per_partition is not None:
        count = max(count, -(-total // options.max_records_per_partition))
    count = max(count, options.min_partitions or 0)
    if options.max_partitions is not None:
        count = min(count, options.max_partitions)
    return max(1, min(count, total))


def partitions_for(
    ranges: Sequence[QueueRange], tasks: int, ordered: bool, losses: tuple[Loss, ...] = ()
) -> list[InputPartition]:
    pieces = split_ranges(ranges, tasks, ordered=ordered)
    if losses and not pieces:
        pieces = [()]  # everything is lost: one task must report it
    return [TaskPartition(piece, losses if number == 0 else ()) for number, piece in enumerate(pieces)]


def split_ranges(ranges: Sequence[QueueRange], tasks: int, *, ordered: bool = False) -> list[tuple[QueueRange, ...]]:
    filled = [entry for entry in ranges if entry.count > 0]
    return _pack_whole(filled, tasks) if ordered else _cut(filled, tasks)


def _cut(ranges: Sequence[QueueRange], tasks: int) -> list[tuple[QueueRange, ...]]:
    total = sum(entry.count for entry in ranges)
    if not total:
        return []
    size = -(-total // tasks)
    pieces: list[tuple[QueueRange, ...]] = []
    piece: list[QueueRange] = []
    room = size
    for entry in ranges:
        at = entry.start
        while at < entry.end:
            upto = min(entry.end, at + room)
            piece.append(QueueRange(entry.queue, at, upto))
            room -= upto - at
            at = upto
            if not room:
                pieces.append(tuple(piece))
                piece, room = [], size
    if piece:
        pieces.append(tuple(piece))
    return pieces


def _pack_whole(ranges: Sequence[QueueRange], tasks: int) -> list[tuple[QueueRange, ...]]:
    """Put the largest range into the emptiest task first: within a third of the optimum, and always the same result."""
    bins: list[tuple[int, int]] = [(0, number) for number in range(tasks)]
    pieces: list[list[QueueRange]] = [[] for _ in range(tasks)]
    for entry in sorted(ranges, key=lambda one: (-one.count, one.queue)):
        filled, number = heapq.heappop(bins)
        pieces[number].append(entry)
        heapq.heappush(bins, (filled + entry.count, number))
    return [tuple(sorted(piece)) for piece in pieces if piece]

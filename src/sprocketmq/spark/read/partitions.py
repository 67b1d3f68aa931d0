"""Queue ranges into Spark tasks. Pure.

A Python task costs about 65 ms of a core in every micro-batch, whatever it reads, and RocketMQ topics easily have a hundred queues: one
task per queue, as other sources plan, spends its time starting tasks. So ranges are laid end to end in queue order and cut into as many
equal pieces as there shall be tasks; a task reads several queues at once, and a hot queue is shared by several tasks. Queue offsets are
dense, so a cut is exact. ``ordered`` keeps each queue whole in one task instead.

Spark tells a Python source neither the cores of the cluster nor its own settings, and the driver's machine says nothing of them. So how
many tasks there are follows from what is read and from the options, and from nothing else: the same on every machine.

Laws: every message of the ranges is in exactly one piece; without ``ordered`` no piece holds more than ceil(total / tasks) messages; at
most ``tasks`` pieces, none empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from sprocketmq.spark.offsets import QueueRange

__all__ = ["RECORDS_PER_TASK", "pack", "task_count"]

# Below this many messages a second task costs more than it saves on few cores: 65 ms of a core, and its own connections, against about a
# million small messages a second (400,000 of 16 queues on 2 cores: 0.9 s in few tasks, 1.9 s in eight).
RECORDS_PER_TASK: Final = 250_000


def task_count(
    total: int,
    *,
    min_partitions: int | None = None,
    max_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> int:
    """How many tasks should read ``total`` messages.

    By default one per 250,000. ``minPartitions`` and ``maxRecordsPerPartition`` ask for more, ``maxPartitions`` has the last word.
    """
    count = -(-total // RECORDS_PER_TASK)
    if max_records_per_partition is not None:
        count = max(count, -(-total // max_records_per_partition))
    if min_partitions is not None:
        count = max(count, min_partitions)
    if max_partitions is not None:
        count = min(count, max_partitions)
    return max(1, min(count, total))


def pack(ranges: Sequence[QueueRange], tasks: int, *, ordered: bool = False) -> list[tuple[QueueRange, ...]]:
    """``ranges`` as at most ``tasks`` pieces of (nearly) equal size."""
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
    """Largest first into the emptiest task: within a third of the best possible, and stable."""
    bins: list[tuple[int, int]] = [(0, number) for number in range(tasks)]
    pieces: list[list[QueueRange]] = [[] for _ in range(tasks)]
    for entry in sorted(ranges, key=lambda one: (-one.count, one.queue)):
        filled, number = heapq.heappop(bins)
        pieces[number].append(entry)
        heapq.heappush(bins, (filled + entry.count, number))
    return [tuple(sorted(piece)) for piece in pieces if piece]

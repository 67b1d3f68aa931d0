"""Offsets that a broker does not tell, found by a look at messages: where a queue begins, where a time is, how large and how old what waits
is. The driver's few pulls; the rows themselves are read by tasks (``reader``).

A look is one pull of some messages, answered soon or not at all. Where it only helps to plan (``look_at``, ``first_held``) a broker that
does not answer is passed over: the next look, or the task, asks again. A time decides what is read: it is searched for until it is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sprocketmq.errors import RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import QueueBounds
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records

__all__ = ["Look", "first_held", "look_at", "offsets_by_time", "search_by_time"]

# Messages around a time: what a broker gives in one answer from memory.
_LOOK: Final = 32
_LOOK_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Look:
    """What some of the next messages of a queue were: when the first was stored, how many, and their stored bytes."""

    stored_ms: int
    messages: int
    total_bytes: int


def look_at(cluster: Cluster, queues: Mapping[MessageQueue, int], group: str, count: int) -> dict[MessageQueue, Look]:
    """The next up to ``count`` messages of each queue at its offset; a queue that does not answer at once is left out."""

    async def one(queue: MessageQueue, offset: int) -> Look | None:
        try:
            messages = await _pulled(cluster, queue, offset, group, count)
        except RocketMQError:
            return None
        sizes = sum(message.store_size_bytes for message in messages)
        return Look(messages[0].store_timestamp_ms, len(messages), sizes) if messages else None

    found = cluster.engine.run(cluster.gather(one(queue, offset) for queue, offset in queues.items()))
    return {queue: seen for queue, seen in zip(queues, found, strict=True) if seen is not None}


def first_held(
    cluster: Cluster, bounds: Mapping[MessageQueue, QueueBounds], group: str
) -> dict[MessageQueue, QueueBounds]:
    """``bounds`` with the offsets of the first messages that are really there: one pull for each queue of a 4.x broker.

    Such a broker leaves the smallest offset where it was when all messages of a queue were deleted, also when new ones have come,
    until it deletes a file of its log again. What is gone is a beginning, so halving finds its end.
    """

    async def has(queue: MessageQueue, offset: int) -> bool:
        try:
            messages = await _pulled(cluster, queue, offset, group, 1)
        except RocketMQError:
            return True  # nobody knows: the task will
        return bool(messages) and messages[0].queue_offset == offset

    async def one(queue: MessageQueue, held: QueueBounds) -> QueueBounds:
        if held.min_is_sure or held.min == held.max or await has(queue, held.min):
            return held
        gone, there = held.min, held.max
        while there - gone > 1:
            middle = (gone + there) // 2
            if await has(queue, middle):
                there = middle
            else:
                gone = middle
        return replace(held, min=there)

    found = cluster.run(lambda: cluster.gather(one(queue, held) for queue, held in bounds.items()))
    return dict(zip(bounds, found, strict=True))


def offsets_by_time(
    cluster: Cluster, bounds: Mapping[MessageQueue, QueueBounds], times_ms: Mapping[MessageQueue, int], group: str
) -> dict[MessageQueue, int]:
    """``search_by_time``, asked again while its failure can pass."""
    return cluster.run(lambda: search_by_time(cluster, bounds, times_ms, group))


async def search_by_time(
    cluster: Cluster, bounds: Mapping[MessageQueue, QueueBounds], times_ms: Mapping[MessageQueue, int], group: str
) -> dict[MessageQueue, int]:
    """The first offset stored at or after the time of each queue; a queue without so young a message is left out.

    A 4.9 broker answers with the message nearest to the time, which may be older, or any of those of the same millisecond. So the
    answer is where the search begins: the store times of the messages around it decide.
    """

    async def one(queue: MessageQueue, timestamp_ms: int) -> int:
        held = bounds[queue]
        at = await cluster.api.search_offset(await cluster.address(queue), queue, timestamp_ms)
        at = min(max(at, held.min), held.max)
        while at > held.min:
            before = await _stored(cluster, queue, max(held.min, at - _LOOK), group)
            older = [offset for offset, stored_ms in before if offset < at and stored_ms < timestamp_ms]
            if older or not before or before[0][0] >= at:
                at = older[-1] + 1 if older else at
                break
            at = before[0][0]
        while at < held.max:
            after = await _stored(cluster, queue, at, group)
            if not after or after[0][1] >= timestamp_ms:
                break
            at = next((offset for offset, stored_ms in after if stored_ms >= timestamp_ms), after[-1][0] + 1)
        return at

    queues = list(times_ms)
    found = await cluster.gather(one(queue, times_ms[queue]) for queue in queues)
    return {queue: at for queue, at in zip(queues, found, strict=True) if 0 <= at < bounds[queue].max}


async def _stored(cluster: Cluster, queue: MessageQueue, offset: int, group: str) -> list[tuple[int, int]]:
    messages = await _pulled(cluster, queue, offset, group, _LOOK)
    return [(message.queue_offset, message.store_timestamp_ms) for message in messages]


async def _pulled(cluster: Cluster, queue: MessageQueue, offset: int, group: str, count: int) -> list[MessageExt]:
    address = await cluster.address(queue)
    pulled = await cluster.api.read_queue(address, group, queue, offset, count, timeout_ms=_LOOK_TIMEOUT_MS)
    return decode_records(pulled.body, queue.broker_name, decompress=False) if pulled.body else []

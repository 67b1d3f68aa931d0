# SPDX-License-Identifier: Apache-2.0
"""Offsets that a broker does not report and that are found by short pulls of the driver: where a queue really begins, the first message
of a time, size and age of unread messages. Where they only help to plan (``sample_queues``, ``real_min_offsets``) a broker that does
not answer is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.errors import RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import QueueBounds
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.requests.offsets import SEARCH_OFFSET_BY_TIMESTAMP

# Messages in one pull around a time: what a broker returns in one answer from memory.
_PULLED: Final = 32
_PULL_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class QueueSample:
    """Some of the next messages of a queue: when the first was stored, how many they are, and their stored bytes."""

    stored_ms: int
    messages: int
    total_bytes: int


def sample_queues(
    cluster: Cluster, queues: Mapping[MessageQueue, int], group: str, count: int
) -> dict[MessageQueue, QueueSample]:
    """The next ``count`` messages of each queue at its offset, or fewer. Queues whose broker does not answer at once are left out."""

    async def one(queue: MessageQueue, offset: int) -> QueueSample | None:
        try:
            messages = await _pulled(cluster, queue, offset, group, count)
        except RocketMQError:
            return None
        sizes = sum(message.store_size_bytes for message in messages)
        return QueueSample(messages[0].store_timestamp_ms, len(messages), sizes) if messages else None

    found = cluster.engine.run(cluster.gather(one(queue, offset) for queue, offset in queues.items()))
    return {queue: seen for queue, seen in zip(queues, found, strict=True) if seen is not None}


def real_min_offsets(
    cluster: Cluster, bounds: Mapping[MessageQueue, QueueBounds], group: str
) -> dict[MessageQueue, QueueBounds]:
    """``bounds`` with the offset of the first message that really exists. When all messages of a queue were deleted, a 4.x broker
    reports the old smallest offset until it deletes a log file again. Messages are deleted from the beginning, so a binary search finds
    the first one."""

    async def has(queue: MessageQueue, offset: int) -> bool:
        try:
            messages = await _pulled(cluster, queue, offset, group, 1)
        except RocketMQError:
            return True  # unknown: the task will find out
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


async def search_by_time(
    cluster: Cluster, bounds: Mapping[MessageQueue, QueueBounds], times_ms: Mapping[MessageQueue, int], group: str
) -> dict[MessageQueue, int]:
    """The first offset stored at or after the time of each queue. Queues without such a message are left out. A 4.9 broker answers with
    the message nearest to the time, which may be older, or any of the same millisecond; so the store times around it decide."""

    async def one(queue: MessageQueue, timestamp_ms: int) -> int:
        held = bounds[queue]
        at = (await cluster.ask_queue(SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp=timestamp_ms)).offset
        at = min(max(at, held.min), held.max)
        while at > held.min:
            before = await _stored(cluster, queue, max(held.min, at - _PULLED), group)
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
    messages = await _pulled(cluster, queue, offset, group, _PULLED)
    return [(message.queue_offset, message.store_timestamp_ms) for message in messages]


async def _pulled(cluster: Cluster, queue: MessageQueue, offset: int, group: str, count: int) -> list[MessageExt]:
    address = await cluster.master(queue.broker_name, queue.topic)
    pulled = await read_queue(cluster, address, group, queue, offset, count, timeout_ms=_PULL_TIMEOUT_MS)
    return decode_records(pulled.body, queue.broker_name, decompress=False) if pulled.body else []

# SPDX-License-Identifier: Apache-2.0
"""First stage: publish every flight, in order per aircraft. One sender per queue with one batch in flight, because a batch must not
overtake one that has to be sent again; all queues together keep the connection busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sprocketmq as rmq
from sprocketmq.cli.demo.flights import Flights, queue_of
from sprocketmq.cli.demo.reports import ORDERLY_GROUP, PUSH_GROUP, QUEUES, SPARK_GROUP, TOPIC

if TYPE_CHECKING:
    from typing import Unpack

_BATCH_MESSAGES: Final = 256


@dataclass(frozen=True)
class Published:
    acknowledged: int
    seconds: float


async def publish(
    flights: Flights, advance: Callable[[int], object] = lambda count: None, **options: Unpack[rmq.CommonOptions]
) -> Published:
    """``advance(n)`` runs at each acknowledgement. Raises ConfigurationError (the topic has messages)."""
    async with rmq.AsyncAdmin(**options) as admin:
        await _make_topic(admin)
    by_queue: list[list[tuple[str, str | None, bytes]]] = [[] for _ in range(QUEUES)]
    table = flights.table
    tails = table["tailnum"].astype(object).where(table["tailnum"].notna(), None)
    for key, carrier, tail, body in zip(flights.sharding_keys, table["carrier"], tails, flights.bodies(), strict=True):
        by_queue[queue_of(key, QUEUES)].append((carrier, tail, body))
    async with rmq.AsyncProducer("flights-publisher", **options) as producer:
        queues = sorted(await producer.publish_queues(TOPIC))
        started_s = time.perf_counter()
        sent = await asyncio.gather(
            *(_send_to_queue(producer, queue, part, advance) for queue, part in zip(queues, by_queue, strict=True))
        )
        return Published(sum(sent), time.perf_counter() - started_s)


async def _make_topic(admin: rmq.AsyncAdmin) -> None:
    try:
        stats = await admin.topic_stats(TOPIC)
    except rmq.TopicNotExist:
        stats = {}
    if stored := sum(held.max_offset for held in stats.values()):
        raise rmq.ConfigurationError(
            f"topic {TOPIC!r} has {stored:,} messages already, and the demo counts what it sends; delete the topic first"
        )
    proxy = await admin.proxy()
    if proxy is None:
        await admin.create_topic(TOPIC, queues=QUEUES)
    elif len(stats) != QUEUES:
        raise rmq.ConfigurationError(
            f"topic {TOPIC!r} has {len(stats)} queues at the proxy {proxy}, which creates none; create it there with {QUEUES} queues in "
            f"all and the type NORMAL, and the groups {PUSH_GROUP}, {ORDERLY_GROUP}, {SPARK_GROUP} and flights-auditor"
        )


async def _send_to_queue(
    producer: rmq.AsyncProducer,
    queue: rmq.MessageQueue,
    flights: list[tuple[str, str | None, bytes]],
    advance: Callable[[int], object],
) -> int:
    for start in range(0, len(flights), _BATCH_MESSAGES):
        batch = [
            rmq.Message(TOPIC, body, tags=carrier, keys=tail)
            for carrier, tail, body in flights[start : start + _BATCH_MESSAGES]
        ]
        await producer.send_batch(batch, queue=queue)
        advance(len(batch))
    return len(flights)

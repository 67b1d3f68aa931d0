# SPDX-License-Identifier: Apache-2.0
"""Where queues begin that appear while the stream runs. Each broker is asked once, by the rule of the query's start.

A queue whose broker was unreachable when the query began is read from where it would have been read otherwise. A new queue of a broker
that was there begins at its first message, whatever the clocks say. A broker that does not answer delays the stream by a second at
most: its new queues wait for the next poll.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sprocketmq.core.resource_names import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import QueueBounds
from sprocketmq.spark.new_queue_start import NewQueueStart
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.group_progress import query_committed
from sprocketmq.spark.read.offset_search import search_by_time
from sprocketmq.wire.records.message import MessageQueue

# No message is left out if a broker's clock is behind the driver's by up to this.
_CLOCKS_MS: Final = 500
_PATIENCE_MS: Final = 1_000

BrokerFailure = NetworkError | RequestTimeout | RemoteError


def new_queue_start(options: ReadOptions, now_ms: int, seen: Iterable[str]) -> NewQueueStart | None:
    """The rule of a query that begins now, while the brokers ``seen`` are there; None if other queues begin at their smallest offset."""
    kind, begun_ms = options.starting.kind, now_ms - _CLOCKS_MS
    if kind in ("latest", "timestamp"):
        ms = options.starting.timestamp_ms if kind == "timestamp" else begun_ms
        return NewQueueStart.of_topics("latest", ms, options.topics, options.topics_pattern, seen)
    if kind == "group":
        return NewQueueStart.of_topics("group", begun_ms, options.topics, options.topics_pattern, seen)
    return None


class NewQueues:
    """Remembers where new queues begin, because a queue has no position before its first message is read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._starts: dict[MessageQueue, int | None] = {}  # None: the smallest offset

    def starts(
        self, cluster: Cluster, position: StreamOffset, bounds: Mapping[MessageQueue, QueueBounds]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, BrokerFailure]]:
        """Where the queues of ``bounds`` begin that are not in ``position``, and the queues whose broker did not answer. Others begin
        at their smallest offset. Raises ConfigurationError (no committed offset, and ``groupOffsetsFallback`` is error)."""
        for queue in [queue for queue in self._starts if queue not in bounds or queue in position.queues]:
            del self._starts[queue]  # its broker is unreachable again, or the queue has a position now
        new = {
            queue: held for queue, held in bounds.items() if queue not in position.queues and queue not in self._starts
        }
        unanswered: dict[MessageQueue, BrokerFailure] = {}
        if new:
            found, unanswered = self._asked(cluster, position.new_queue_start, new)
            self._starts.update({queue: found.get(queue) for queue in new if queue not in unanswered})
        return {queue: at for queue, at in self._starts.items() if at is not None}, unanswered

    def _asked(
        self, cluster: Cluster, start: NewQueueStart | None, new: Mapping[MessageQueue, QueueBounds]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, BrokerFailure]]:
        of_broker: dict[str, dict[MessageQueue, QueueBounds]] = {}
        for queue, held in new.items():
            if queue.topic.startswith(RETRY_PREFIX) or (start is not None and start.covers(queue)):
                of_broker.setdefault(queue.broker_name, {})[queue] = held

        async def one(held: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int] | BrokerFailure:
            try:
                return await cluster.retrying(lambda: self._answer(cluster, start, held), _PATIENCE_MS)
            except (NetworkError, RequestTimeout, RemoteError) as error:
                return error

        found: dict[MessageQueue, int] = {}
        unanswered: dict[MessageQueue, BrokerFailure] = {}
        answers = cluster.engine.run(cluster.gather(map(one, of_broker.values()))) if of_broker else []
        for queues, answer in zip(of_broker.values(), answers, strict=True):
            if isinstance(answer, dict):
                found.update(answer)
            else:
                unanswered.update(dict.fromkeys(queues, answer))
        return found, unanswered

    async def _answer(
        self, cluster: Cluster, start: NewQueueStart | None, held: Mapping[MessageQueue, QueueBounds]
    ) -> dict[MessageQueue, int]:
        ruled = [queue for queue in held if not queue.topic.startswith(RETRY_PREFIX)]
        asked: Sequence[MessageQueue] = [queue for queue in held if queue.topic.startswith(RETRY_PREFIX)]
        if start is not None and start.rule == "group":
            asked = list(held)
        found = await query_committed(cluster, self._options.group, asked) if asked else {}
        rest = [queue for queue in ruled if queue not in found]
        if start is not None and start.rule == "group" and rest:
            fallback = self._options.group_offsets_fallback
            if fallback == "error":
                raise ConfigurationError(
                    f"startingOffsets is 'group', and the group has committed nothing for {rest[0]}, whose broker appeared later; "
                    "set groupOffsetsFallback to earliest or latest"
                )
            if fallback == "earliest":
                return found
        if start is not None and rest:
            by_time = await search_by_time(cluster, held, dict.fromkeys(rest, start.ms), self._options.group)
            found.update({queue: by_time.get(queue, held[queue].max) for queue in rest})
        return found

"""Where queues begin that a stream sees for the first time while it runs: asked of their brokers once, by the rule of the query's start.

Laws (tests/inproc/spark/test_late_brokers.py)
1. A queue whose broker was away when the query began is read from where it would have been read had it been there; it makes no difference
   when it returns, nor how often the query was restarted meanwhile.
2. A new queue of a broker that was there begins at its first message, whatever the clocks say.
3. A broker is asked about a queue until it has answered, and not again. One that does not answer holds up no other, and nobody for longer
   than a second: its new queues are left for the next look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sprocketmq.core.retry.retry_schedule import RETRY_PREFIX
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import QueueBounds
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.options.late_start import LateStart
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.spark.read.group_progress import query_committed
from sprocketmq.spark.read.offset_search import search_by_time
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["LateQueues", "late_rule"]

# A broker whose clock is so far behind the driver's still has nothing left out.
_CLOCKS_MS: Final = 500
_PATIENCE_MS: Final = 1_000

Unheard = NetworkError | RequestTimeout | RemoteError


def late_rule(options: ReadOptions, now_ms: int, seen: Iterable[str]) -> LateStart | None:
    """The rule of a query that begins now, while the brokers ``seen`` are there; None when what it does not see begins at its smallest
    offset (``earliest``, JSON)."""
    kind, begun_ms = options.starting.kind, now_ms - _CLOCKS_MS
    if kind in ("latest", "timestamp"):
        ms = options.starting.timestamp_ms if kind == "timestamp" else begun_ms
        return LateStart.of_topics("latest", ms, options.topics, options.topics_pattern, seen)
    if kind == "group":
        return LateStart.of_topics("group", begun_ms, options.topics, options.topics_pattern, seen)
    return None


class LateQueues:
    """Remembers what it found, as a queue has no position before its first message is read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._starts: dict[MessageQueue, int | None] = {}  # None: it begins at its smallest offset

    def starts(
        self, cluster: Cluster, position: StreamOffset, bounds: Mapping[MessageQueue, QueueBounds]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, Unheard]]:
        """Where queues of ``bounds`` begin that ``position`` does not know, one that is not named at its smallest offset; and those whose
        broker did not say, and why.

        Raises:
            ConfigurationError: the group has no progress there, and ``groupOffsetsFallback`` is error.
        """
        for queue in [queue for queue in self._starts if queue not in bounds or queue in position.queues]:
            del self._starts[queue]  # its broker went away again, or it is no news any more
        new = {
            queue: held for queue, held in bounds.items() if queue not in position.queues and queue not in self._starts
        }
        unheard: dict[MessageQueue, Unheard] = {}
        if new:
            found, unheard = self._asked(cluster, position.late, new)
            self._starts.update({queue: found.get(queue) for queue in new if queue not in unheard})
        return {queue: at for queue, at in self._starts.items() if at is not None}, unheard

    def _asked(
        self, cluster: Cluster, late: LateStart | None, new: Mapping[MessageQueue, QueueBounds]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, Unheard]]:
        """All brokers at once, each for itself."""
        of_broker: dict[str, dict[MessageQueue, QueueBounds]] = {}
        for queue, held in new.items():
            if queue.topic.startswith(RETRY_PREFIX) or (late is not None and late.covers(queue)):
                of_broker.setdefault(queue.broker_name, {})[queue] = held

        async def one(held: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int] | Unheard:
            try:
                return await cluster.retrying(lambda: self._answer(cluster, late, held), _PATIENCE_MS)
            except (NetworkError, RequestTimeout, RemoteError) as error:
                return error

        found: dict[MessageQueue, int] = {}
        unheard: dict[MessageQueue, Unheard] = {}
        answers = cluster.engine.run(cluster.gather(map(one, of_broker.values()))) if of_broker else []
        for queues, answer in zip(of_broker.values(), answers, strict=True):
            if isinstance(answer, dict):
                found.update(answer)
            else:
                unheard.update(dict.fromkeys(queues, answer))
        return found, unheard

    async def _answer(
        self, cluster: Cluster, late: LateStart | None, held: Mapping[MessageQueue, QueueBounds]
    ) -> dict[MessageQueue, int]:
        """What one broker says of its queues."""
        ruled = [queue for queue in held if not queue.topic.startswith(RETRY_PREFIX)]
        asked: Sequence[MessageQueue] = [queue for queue in held if queue.topic.startswith(RETRY_PREFIX)]
        if late is not None and late.rule == "group":
            asked = list(held)
        found = await query_committed(cluster, self._options.group, asked) if asked else {}
        rest = [queue for queue in ruled if queue not in found]
        if late is not None and late.rule == "group" and rest:
            fallback = self._options.group_offsets_fallback
            if fallback == "error":
                raise ConfigurationError(
                    f"startingOffsets is 'group', and the group has committed nothing for {rest[0]}, whose broker came later; "
                    "set groupOffsetsFallback to earliest or latest"
                )
            if fallback == "earliest":
                return found
        if late is not None and rest:
            by_time = await search_by_time(cluster, held, dict.fromkeys(rest, late.ms), self._options.group)
            found.update({queue: by_time.get(queue, held[queue].max) for queue in rest})
        return found

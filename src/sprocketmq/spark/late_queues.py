"""Where queues begin that a stream sees for the first time while it runs: asked of their brokers once, by the rule of the query's start.

Law (tests/inproc/spark/test_late_brokers.py): a queue whose broker was away when the query began is read from where it would have been read
had it been there; it makes no difference when it returns, nor how often the query was restarted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.cluster import Cluster
from sprocketmq.spark.group_progress import committed_offsets
from sprocketmq.spark.late_start import LateStart
from sprocketmq.spark.losses import QueueBounds
from sprocketmq.spark.offset_search import offsets_by_time
from sprocketmq.spark.offsets import StreamOffset
from sprocketmq.spark.plan import RETRY_PREFIX
from sprocketmq.spark.read_options import ReadOptions
from sprocketmq.wire.message import MessageQueue

__all__ = ["LateQueues", "late_rule"]

# A broker whose clock is so far behind the driver's still has nothing left out.
_CLOCKS_MS: Final = 500


def late_rule(options: ReadOptions, now_ms: int) -> LateStart | None:
    """The rule of a query that begins now; None when what it does not see begins at its smallest offset (``earliest``, JSON)."""
    kind, begun_ms = options.starting.kind, now_ms - _CLOCKS_MS
    if kind in ("latest", "timestamp"):
        ms = options.starting.timestamp_ms if kind == "timestamp" else begun_ms
        return LateStart.of_topics("latest", ms, options.topics, options.topics_pattern)
    if kind == "group":
        return LateStart.of_topics("group", begun_ms, options.topics, options.topics_pattern)
    return None


class LateQueues:
    """Remembers what it found, as a queue has no position before its first message is read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._starts: dict[MessageQueue, int] = {}

    def starts(
        self, cluster: Cluster, position: StreamOffset, bounds: Mapping[MessageQueue, QueueBounds]
    ) -> dict[MessageQueue, int]:
        """Where queues of ``bounds`` begin that ``position`` does not know; one that is not named begins at its smallest offset.

        Raises:
            NetworkError, RequestTimeout, RemoteError: a broker went away again.
            ConfigurationError: the group has no progress there, and ``groupOffsetsFallback`` is error.
        """
        for queue in [queue for queue in self._starts if queue not in bounds or queue in position.queues]:
            del self._starts[queue]  # its broker went away again, or it is no news any more
        new = {
            queue: held for queue, held in bounds.items() if queue not in position.queues and queue not in self._starts
        }
        self._starts.update(self._asked(cluster, position.late, new) if new else {})
        return dict(self._starts)

    def _asked(
        self, cluster: Cluster, late: LateStart | None, new: Mapping[MessageQueue, QueueBounds]
    ) -> dict[MessageQueue, int]:
        retries = [queue for queue in new if queue.topic.startswith(RETRY_PREFIX)]
        ruled = [queue for queue in new if queue not in retries and late is not None and late.covers(queue.topic)]
        asked = retries + (ruled if late is not None and late.rule == "group" else [])
        committed = committed_offsets(cluster, self._options.group, asked) if asked else {}
        found = {queue: committed[queue] for queue in asked if queue in committed}
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
            by_time = offsets_by_time(cluster, new, dict.fromkeys(rest, late.ms), self._options.group)
            found.update({queue: by_time.get(queue, new[queue].max) for queue in rest})
        return found

# SPDX-License-Identifier: Apache-2.0
"""One question to each broker instead of one for each topic: which topics of the stream's group have no new message.

GET_CONSUME_STATS without a topic names the next offset of each queue of all topics in which the group has progress
(AdminBrokerProcessor.getConsumeStats, 4.9 and 5.x). So it is asked only for a stream that commits its progress. A topic whose queues are
where they were keeps its bounds; the others are asked about one by one, as are those that the answer does not name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from sprocketmq.errors import RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.losses import QueueBounds
from sprocketmq.spark.options.read_options import ReadOptions
from sprocketmq.wire import requests
from sprocketmq.wire.headers import GetConsumeStatsRequestHeader
from sprocketmq.wire.records.message import MessageQueue

T = TypeVar("T")

# Fewer topics and brokers are asked about one by one: those answers also tell the smallest offsets.
_FEW: Final = 8
# After so long all smallest offsets are asked for again; they move when messages are deleted.
_OLDEST_S: Final = 60.0
# After a broker that does not answer, or refuses.
_AGAIN_S: Final = 30.0


class UnchangedTopics:
    """The bounds that one stream's brokers answered last, by topic and broker. ``queues_named``: how many queues the last answers had."""

    def __init__(self, options: ReadOptions) -> None:
        self._group = options.group if options.group_given and options.commit_offsets != "off" else None
        self._held: dict[tuple[str, str], dict[MessageQueue, QueueBounds]] = {}
        self._held_until_s = 0.0
        self._again_s: dict[str, float] = {}  # by broker
        self.queues_named = 0

    def bounds(self, cluster: Cluster, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        """The bounds of the queues in whose topic and broker nothing is new."""
        now_s = time.monotonic()
        self.queues_named = 0
        if now_s >= self._held_until_s:
            self._held.clear()
            self._held_until_s = now_s + _OLDEST_S
        wanted = _by_topic(dict.fromkeys(queues))
        if self._group is None or len(wanted) <= _FEW or cluster.behind_proxy:
            return {}
        a_topic = {name: topic for topic, name in self._held if now_s >= self._again_s.get(name, 0.0)}
        asked = (_next_offsets(cluster, self._group, name, topic) for name, topic in a_topic.items())
        ends: dict[MessageQueue, int] = {}
        for name, answer in zip(a_topic, cluster.engine.run(cluster.gather(asked)), strict=True):
            if answer is None:
                self._again_s[name] = now_s + _AGAIN_S
            else:
                ends.update(answer)
        self.queues_named = len(ends)
        return {
            queue: bounds
            for pair, held in self._held.items()
            if held.keys() == wanted.get(pair, {}).keys()
            and all(ends.get(queue) == bounds.max for queue, bounds in held.items())
            for queue, bounds in held.items()
        }

    def learn(self, bounds: Mapping[MessageQueue, QueueBounds]) -> None:
        self._held.update(_by_topic(bounds))


def _by_topic(queues: Mapping[MessageQueue, T]) -> dict[tuple[str, str], dict[MessageQueue, T]]:
    found: dict[tuple[str, str], dict[MessageQueue, T]] = {}
    for queue, value in queues.items():
        found.setdefault((queue.topic, queue.broker_name), {})[queue] = value
    return found


async def _next_offsets(
    cluster: Cluster, group: str, broker_name: str, topic: str
) -> Mapping[MessageQueue, int] | None:
    try:
        address = await cluster.master(broker_name, topic)
        header = GetConsumeStatsRequestHeader(consumer_group=group)
        stats = await cluster.ask_body(requests.offsets.GET_CONSUME_STATS, header, at=address)
    except RocketMQError:
        return None
    return {queue: offsets.broker_offset for queue, offsets in stats.offset_table.items()}

"""What the brokers hold of queues, and which queues are no more: asked by the driver for a plan, and by a task whose queue vanished.

    (topic, broker) --GET_TOPIC_STATS_INFO--> smallest and next offset, newest store time of each of its queues --> QueueBounds

Laws
1. One question per topic and broker, however many queues they have.
2. A broker that is away, or has no master now, has lost nothing: its queues are left out (``partial``) or the failure is raised, they are
   never empty or gone.
3. A queue of a 4.x broker whose last message is gone is empty; where the others begin there is for ``offset_search.first_held`` to find.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sprocketmq.client.masters import MASTER
from sprocketmq.errors import RocketMQError, TopicNotExist
from sprocketmq.spark.cluster import Cluster, can_pass, is_apache_4
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.wire import bodies
from sprocketmq.wire.message import MessageQueue

__all__ = ["gone_queues", "held_bounds"]


def held_bounds(
    cluster: Cluster, queues: Sequence[MessageQueue], *, partial: bool = False
) -> dict[MessageQueue, QueueBounds]:
    """What the brokers hold of each queue: one question per topic and broker.

    ``partial`` leaves the queues of a broker that cannot be reached, or does not know the topic, out, so that one broker's restart
    does not hold up the others; it still raises when there are queues and no broker answers at all.
    """
    pairs = sorted({(queue.topic, queue.broker_name) for queue in queues})
    wanted = set(queues)

    async def ask() -> dict[MessageQueue, QueueBounds]:
        answers = await cluster.gather(_maybe_topic_stats(cluster, topic, broker) for topic, broker in pairs)
        failures = [answer for answer in answers if isinstance(answer, RocketMQError)]
        silent = [error for error in failures if not isinstance(error, TopicNotExist)]
        if failures and not (partial and len(silent) < max(1, len(answers)) and all(map(can_pass, silent))):
            raise (silent or failures)[0]
        held = {}
        for answer in answers:
            if isinstance(answer, RocketMQError):
                continue
            table, min_is_sure = answer
            for queue, offsets in table.offset_table.items():
                if queue in wanted:
                    low, high = max(0, offsets.min_offset), max(0, offsets.max_offset)
                    newest_ms = max(0, offsets.last_update_timestamp)
                    held[queue] = QueueBounds(low, high, newest_ms, min_is_sure)
        return held

    return cluster.run(ask)


def gone_queues(cluster: Cluster, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Reason]:
    """Which of ``queues`` their own master says it does not have; one that is not there to be asked has none of them lost."""
    asked = list(queues)
    pairs = sorted({(queue.topic, queue.broker_name) for queue in asked})

    async def one(info: bodies.ClusterInfo, topic: str, broker_name: str) -> set[MessageQueue] | None:
        """What the master has of the topic; None when it was not to be asked."""
        known = info.broker_addr_table.get(broker_name)
        master = known.broker_addrs.get(MASTER) if known is not None else None
        if not master:
            return None
        try:
            return set((await cluster.api.topic_stats(master, topic)).offset_table)
        except TopicNotExist:
            return set()
        except RocketMQError:
            return None

    async def ask() -> dict[MessageQueue, Reason]:
        info = await cluster.api.cluster_info()
        there = dict(zip(pairs, await cluster.gather(one(info, *pair) for pair in pairs), strict=True))
        found: dict[MessageQueue, Reason] = {}
        for queue in asked:
            queues_now = there[queue.topic, queue.broker_name]
            if queues_now is not None and queue not in queues_now:
                found[queue] = "queue gone" if queues_now else "topic gone"
        return found

    return cluster.run(ask)


async def _maybe_topic_stats(
    cluster: Cluster, topic: str, broker_name: str
) -> tuple[bodies.TopicStatsTable, bool] | RocketMQError:
    """The master's answer, and whether its smallest offsets can be believed (see ``offset_search.first_held``)."""
    try:
        return await _topic_stats(cluster, await cluster.broker_address(broker_name, topic), topic)
    except RocketMQError as error:
        return error


async def _topic_stats(cluster: Cluster, address: str, topic: str) -> tuple[bodies.TopicStatsTable, bool]:
    """A queue of a 4.x broker whose last message is gone is empty, wherever it says that it begins."""
    answer = await cluster.api.topic_stats_answer(address, topic)
    table, is_old = bodies.TopicStatsTable.decode(answer.body), is_apache_4(answer)
    for offsets in table.offset_table.values():
        if offsets.last_update_timestamp < 0 and is_old:
            offsets.min_offset = offsets.max_offset
    return table, not is_old

"""What the brokers hold of queues, and which queues are no more: asked by the driver for a plan, and by a task whose queue vanished.

    (topic, broker) --GET_TOPIC_STATS_INFO--> smallest and next offset, newest store time of each of its queues --> QueueBounds

Laws
1. One question per topic and broker, however many queues they have. Apache's brokers before 5.3 name only the queues to write in their
   answer (AdminBrokerProcessor.getTopicStatsInfo): the others that are read are asked for one by one (codes 31, 30).
2. A broker that is away, or has no master now, has lost nothing: its queues are left out (``partial``) or the failure is raised, they are
   never empty or gone.
3. A queue is gone if neither its master nor the route names it.
4. A queue of a 4.x broker whose last message is gone is empty; where the others begin there is for ``offset_search.first_held`` to find.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from sprocketmq.client.remoting.masters import MASTER
from sprocketmq.errors import RocketMQError, TopicNotExist
from sprocketmq.spark.cluster.cluster import Cluster, can_pass, is_apache_4
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.wire import bodies
from sprocketmq.wire.codes import Version
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["gone_queues", "held_bounds"]


def held_bounds(
    cluster: Cluster, queues: Sequence[MessageQueue], *, partial: bool = False
) -> dict[MessageQueue, QueueBounds]:
    """What the brokers hold of each queue, in the order of queues: one question per topic and broker.
    An error names the first that it is about.

    ``partial`` leaves the queues of a broker that cannot be reached, or does not know the topic, out, so that one broker's restart
    does not hold up the others; it still raises when there are queues and no broker answers at all.
    """
    wanted: dict[tuple[str, str], set[MessageQueue]] = {}
    for queue in queues:
        wanted.setdefault((queue.topic, queue.broker_name), set()).add(queue)

    async def ask() -> dict[MessageQueue, QueueBounds]:
        answers = await cluster.gather(_maybe_held(cluster, *pair, wanted[pair]) for pair in sorted(wanted))
        failures = [answer for answer in answers if isinstance(answer, RocketMQError)]
        silent = [error for error in failures if not isinstance(error, TopicNotExist)]
        if failures and not (partial and len(silent) < max(1, len(answers)) and all(map(can_pass, silent))):
            raise (silent or failures)[0]
        held: dict[MessageQueue, QueueBounds] = {}
        for answer in answers:
            if not isinstance(answer, RocketMQError):
                held.update(answer)
        return {queue: held[queue] for queue in sorted(held)}

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

    async def routed(topic: str) -> set[MessageQueue]:
        """What may be read of the topic by the name server's word of now."""
        route = await cluster.api.route(topic)
        return {
            MessageQueue(topic, data.broker_name, queue_id)
            for data in (route.queue_datas if route is not None else ())
            for queue_id in range(data.read_queue_nums)
        }

    async def ask() -> dict[MessageQueue, Reason]:
        info = await cluster.api.cluster_info()
        there = dict(zip(pairs, await cluster.gather(one(info, *pair) for pair in pairs), strict=True))
        topics = sorted({topic for topic, _ in pairs})
        read = set().union(*await cluster.gather(map(routed, topics)))
        found: dict[MessageQueue, Reason] = {}
        for queue in asked:
            queues_now = there[queue.topic, queue.broker_name]
            if queues_now is not None and not queues_now:
                found[queue] = "topic gone"
            elif queues_now is not None and queue not in queues_now and queue not in read:
                found[queue] = "queue gone"
        return found

    return cluster.run(ask)


async def _maybe_held(
    cluster: Cluster, topic: str, broker_name: str, wanted: AbstractSet[MessageQueue]
) -> dict[MessageQueue, QueueBounds] | RocketMQError:
    """What the master holds of the ``wanted`` queues, and whether its smallest offsets can be believed (``offset_search.first_held``)."""
    try:
        return await _held(cluster, await cluster.broker_address(broker_name, topic), topic, wanted)
    except RocketMQError as error:
        return error


async def _held(
    cluster: Cluster, address: str, topic: str, wanted: AbstractSet[MessageQueue]
) -> dict[MessageQueue, QueueBounds]:
    """A queue of a 4.x broker whose last message is gone is empty, wherever it says that it begins."""

    async def one(queue: MessageQueue) -> QueueBounds:
        low, high = await cluster.api.min_offset(address, queue), await cluster.api.max_offset(address, queue)
        return QueueBounds(max(0, low), max(0, high), 0, not is_old)

    answer = await cluster.api.topic_stats_answer(address, topic)
    table, is_old = bodies.TopicStatsTable.decode(answer.body).offset_table, is_apache_4(answer)
    held = {}
    for queue in wanted & table.keys():
        offsets = table[queue]
        low, high = max(0, offsets.min_offset), max(0, offsets.max_offset)
        if offsets.last_update_timestamp < 0 and is_old:
            low = high
        held[queue] = QueueBounds(low, high, max(0, offsets.last_update_timestamp), not is_old)
    unnamed = sorted(wanted - table.keys())
    if unnamed and answer.language == "JAVA" and answer.version < Version.V5_3_1:
        held.update(zip(unnamed, await cluster.gather(map(one, unnamed)), strict=True))
    return held

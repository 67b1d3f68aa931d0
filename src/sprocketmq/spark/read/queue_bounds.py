# SPDX-License-Identifier: Apache-2.0
"""Smallest and next offsets of queues, and which queues no longer exist. For the driver's plans, and for a task whose queue vanished.

There is one request for each topic and broker (GET_TOPIC_STATS_INFO), and two for each queue behind a proxy, which does not serve that,
and for queues that a broker before 5.3 leaves out because they cannot be written (AdminBrokerProcessor.getTopicStatsInfo). The queues
of a broker that is unreachable or has no master never count as empty or gone. A queue is gone if neither its master nor the route has
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.pulls import read_queue
from sprocketmq.client.remoting.queue_offsets import queue_ends, topic_stats
from sprocketmq.client.remoting.retrying import is_transient
from sprocketmq.core.produce.route_table import MASTER_ID
from sprocketmq.errors import RemoteError, RequestNotServed, RocketMQError, TopicNotExist
from sprocketmq.spark.cluster.cluster import Cluster, is_apache_4
from sprocketmq.spark.losses import QueueBounds, Reason
from sprocketmq.spark.troubles import troubles
from sprocketmq.troubles import listed
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.codes import Version
from sprocketmq.wire.headers import GetTopicStatsInfoRequestHeader
from sprocketmq.wire.records.message import MessageQueue

# PullMessageProcessor, for a queue id beyond the topic's read queues; our broker
_NO_SUCH_QUEUE: Final = ("queueId[", "queueId is ")


def request_count(cluster: Cluster, queues: Iterable[MessageQueue]) -> int:
    if cluster.behind_proxy:
        return 2 * len(set(queues))
    return len({(queue.topic, queue.broker_name) for queue in queues})


def queue_bounds(
    cluster: Cluster, queues: Sequence[MessageQueue], *, partial: bool = False
) -> dict[MessageQueue, QueueBounds]:
    """The offsets that the brokers hold of each queue, in queue order. An error names the first broker that failed. ``partial``: leave
    out the queues of a broker that is unreachable or does not know the topic; it still raises if no broker answers at all."""
    wanted: dict[tuple[str, str], set[MessageQueue]] = {}
    for queue in queues:
        wanted.setdefault((queue.topic, queue.broker_name), set()).add(queue)

    async def ask() -> dict[MessageQueue, QueueBounds]:
        answers = await cluster.gather(_bounds_or_error(cluster, *pair, wanted[pair]) for pair in sorted(wanted))
        failures = [answer for answer in answers if isinstance(answer, RocketMQError)]
        silent = [error for error in failures if not isinstance(error, TopicNotExist)]
        if failures and not (partial and len(silent) < max(1, len(answers)) and all(map(is_transient, silent))):
            raise (silent or failures)[0]
        held: dict[MessageQueue, QueueBounds] = {}
        for answer in answers:
            if not isinstance(answer, RocketMQError):
                held.update(answer)
        return {queue: held[queue] for queue in sorted(held)}

    return cluster.run(ask)


def hidden_queues(cluster: Cluster, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
    """The queues with messages that no reader gets, because their topic has fewer read queues now, at the topics and brokers of
    ``queues``. A broker that does not answer has none, and a proxy does not tell."""

    async def ask(topic: str, broker_name: str) -> dict[MessageQueue, QueueBounds]:
        try:
            stats = await topic_stats(cluster, await cluster.master(broker_name, topic), topic)
            held = {queue: at for queue, at in stats.offset_table.items() if at.max_offset > max(0, at.min_offset)}
            readable = await _routed(cluster, topic) if held else set()
        except RocketMQError:
            return {}
        return {
            queue: QueueBounds(max(0, at.min_offset), at.max_offset)
            for queue, at in held.items()
            if queue not in readable
        }

    async def ask_all() -> dict[MessageQueue, QueueBounds]:
        pairs = sorted({(queue.topic, queue.broker_name) for queue in queues})
        found: dict[MessageQueue, QueueBounds] = {}
        for answer in await cluster.gather(ask(*pair) for pair in pairs):
            found.update(answer)
        return found

    return {} if cluster.behind_proxy else cluster.run(ask_all)


def warn_of_hidden(queues: Mapping[MessageQueue, QueueBounds]) -> None:
    if queues:
        held = listed([f"{queue}: {bounds.max - bounds.min}" for queue, bounds in sorted(queues.items())])
        sentence = (
            "nobody can read the messages of %s: their topics have fewer read queues now; give them %d to read them"
        )
        troubles.failed("hidden", sentence, held, max(queue.queue_id for queue in queues) + 1)


def gone_queues(cluster: Cluster, queues: Iterable[MessageQueue], group: str) -> dict[MessageQueue, Reason]:
    """Which of ``queues`` no longer exist, by their own master. A master that is unreachable has lost none."""
    asked = list(queues)
    pairs = sorted({(queue.topic, queue.broker_name) for queue in asked})

    async def one(info: bodies.ClusterInfo, topic: str, broker_name: str) -> set[MessageQueue] | None:
        """The queues of the topic at the master; None if it cannot be asked."""
        known = info.broker_addr_table.get(broker_name)
        master = known.broker_addrs.get(MASTER_ID) if known is not None else None
        if not master:
            return None
        try:
            return set((await topic_stats(cluster, master, topic)).offset_table)
        except TopicNotExist:
            return set()
        except RocketMQError:
            return None

    async def ask() -> dict[MessageQueue, Reason]:
        try:
            info = await cluster.name_servers.cluster_info()
        except RequestNotServed:
            reasons = await cluster.gather(_refused(cluster, queue, group) for queue in asked)
            return {queue: reason for queue, reason in zip(asked, reasons, strict=True) if reason is not None}
        at_master = dict(zip(pairs, await cluster.gather(one(info, *pair) for pair in pairs), strict=True))
        topics = sorted({topic for topic, _ in pairs})
        readable = set().union(*await cluster.gather(_routed(cluster, topic) for topic in topics))
        found: dict[MessageQueue, Reason] = {}
        for queue in asked:
            queues_now = at_master[queue.topic, queue.broker_name]
            if queues_now is not None and not queues_now:
                found[queue] = "topic gone"
            elif queues_now is not None and queue not in readable:
                # Our broker still tells of a queue that holds messages and that its topic does not have any more.
                reason = await _refused(cluster, queue, group) if queue in queues_now else "queue gone"
                if reason is not None:
                    found[queue] = reason
        return found

    return cluster.run(ask)


async def _routed(cluster: Cluster, topic: str) -> set[MessageQueue]:
    route = await cluster.name_servers.route(topic)
    return {
        MessageQueue(topic, data.broker_name, queue_id)
        for data in (route.queue_datas if route is not None else ())
        for queue_id in range(data.read_queue_nums)
    }


async def _refused(cluster: Cluster, queue: MessageQueue, group: str) -> Reason | None:
    """Why the master refuses to read the queue; None if it does not, or cannot be asked."""
    try:
        master = (await cluster.name_servers.broker_addresses(queue.broker_name)).get(MASTER_ID)
        if master is not None:
            await read_queue(cluster, master, group, queue, 0, 1, timeout_ms=cluster.timeout_ms)
    except TopicNotExist:
        # A proxy answers the same when its cache says that the broker is not registered; then it tells no address of it, either.
        return "topic gone" if await cluster.name_servers.broker_addresses(queue.broker_name) else None
    except RemoteError as error:
        return "queue gone" if error.remark.startswith(_NO_SUCH_QUEUE) else None
    except RocketMQError:
        pass
    return None


async def _bounds_or_error(
    cluster: Cluster, topic: str, broker_name: str, wanted: AbstractSet[MessageQueue]
) -> dict[MessageQueue, QueueBounds] | RocketMQError:
    try:
        return await _bounds(cluster, await cluster.master(broker_name, topic), topic, wanted)
    except RocketMQError as error:
        return error


async def _bounds(
    cluster: Cluster, address: str, topic: str, wanted: AbstractSet[MessageQueue]
) -> dict[MessageQueue, QueueBounds]:
    """A queue of a 4.x broker whose last message was deleted is empty, whatever its smallest offset says."""

    async def one(queue: MessageQueue) -> QueueBounds:
        low, high = await queue_ends(cluster, queue, at=address)
        return QueueBounds(max(0, low), max(0, high), None, not is_old)

    try:
        header = GetTopicStatsInfoRequestHeader(topic=topic)
        answer = await cluster.ask(requests.topics.GET_TOPIC_STATS_INFO, header, at=address)
    except RequestNotServed:
        # A broker answers 0 for a queue that it does not have.
        there = [queue for queue in await cluster.readable_queues(topic) if queue in wanted]
        is_old = False
        return dict(zip(there, await cluster.gather(map(one, there)), strict=True))
    table, is_old = (await answer_body(requests.topics.GET_TOPIC_STATS_INFO, answer)).offset_table, is_apache_4(answer)
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

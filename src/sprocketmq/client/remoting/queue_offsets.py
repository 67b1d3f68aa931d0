# SPDX-License-Identifier: Apache-2.0
"""The progress of groups in queues, and where queues begin and end. What one request tells is asked by ``Cluster.ask_queue``."""

from __future__ import annotations

from typing import Final

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.cluster import Cluster, queue_header
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.pulls import TOOLS_GROUP
from sprocketmq.errors import RemoteError
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.requests.declaration import AnyRequest
from sprocketmq.wire.requests.offsets import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    QUERY_CONSUMER_OFFSET,
    QUERY_CORRECTION_OFFSET,
    UPDATE_CONSUMER_OFFSET,
)
from sprocketmq.wire.requests.topics import GET_TOPIC_STATS_INFO

_TRIED_QUEUES: Final = 8
_LAST_TRIED: Final = 1_023  # whatever a broker answers


async def queue_ends(cluster: Cluster, queue: MessageQueue, *, at: str | None = None) -> tuple[int, int]:
    """The offset of the oldest message, and one behind the newest. ``at``: default: the master."""

    async def ask(asked: AnyRequest) -> int:
        return int((await cluster.ask_queue(asked, queue, at=at)).offset)

    low, high = await all_ended([ask(GET_MIN_OFFSET), ask(GET_MAX_OFFSET)])
    return low, high


async def committed_offset(
    cluster: Cluster, group: str, queue: MessageQueue, *, at: str | None = None, zero_if_young: bool = True
) -> int | None:
    """The progress of ``group``; None only for code 22, every other failure raises: it must not look like "no offset". ``at``: the broker's
    address; default as Java finds it (findBrokerAddressInSubscribe): a replica while there is no master. ``zero_if_young`` False asks a 5.x
    broker not to answer 0 for a young topic when nothing is committed."""
    asked = QUERY_CONSUMER_OFFSET
    fields = {"consumer_group": group, "set_zero_if_not_found": None if zero_if_young else False}
    try:
        return (await cluster.ask_queue(asked, queue, at=at, or_replica=True, **fields)).offset
    except RemoteError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise


async def commit_offset(
    cluster: Cluster, group: str, queue: MessageQueue, offset: int, *, at: str | None = None, oneway: bool = False
) -> None:
    """Set the progress of ``group``. ``at``: as in ``committed_offset``. ``oneway``: do not wait for the answer."""
    at = at or (await cluster.broker(queue.broker_name, queue.topic, or_replica=True)).address
    header = queue_header(UPDATE_CONSUMER_OFFSET, queue, consumer_group=group, commit_offset=offset)
    if oneway:
        await cluster.send_oneway(UPDATE_CONSUMER_OFFSET, header, at=at)
    else:
        await cluster.ask(UPDATE_CONSUMER_OFFSET, header, at=at)


async def topic_stats(cluster: Cluster, address: str, topic: str) -> bodies.TopicStatsTable:
    """GET_TOPIC_STATS_INFO, and the queues with messages that Apache's broker leaves out, because the topic has fewer queues now."""
    answer = await cluster.ask(GET_TOPIC_STATS_INFO, headers.GetTopicStatsInfoRequestHeader(topic=topic), at=address)
    stats = await answer_body(GET_TOPIC_STATS_INFO, answer)
    if answer.language == "JAVA" and stats.offset_table:
        stats.offset_table.update(await _hidden_queues(cluster, address, max(stats.offset_table)))
    return stats


async def _hidden_queues(cluster: Cluster, address: str, last: MessageQueue) -> dict[MessageQueue, bodies.TopicOffset]:
    """The queues behind ``last`` that hold messages. No request lists them. Tried are those in which a group has progress, and the next
    ones, until ``_TRIED_QUEUES`` in a row hold nothing. (GET_MIN_OFFSET would create them, GET_MAX_OFFSET does not.)"""

    async def end(queue: MessageQueue) -> int:
        try:
            return (await cluster.ask_queue(GET_MAX_OFFSET, queue, at=address)).offset
        except RemoteError:
            return 0

    header = headers.QueryCorrectionOffsetHeader(topic=last.topic, compare_group=TOOLS_GROUP)
    try:
        of_groups = (await cluster.ask_body(QUERY_CORRECTION_OFFSET, header, at=address)).correction_offsets
    except RemoteError:
        of_groups = {}
    found: dict[MessageQueue, bodies.TopicOffset] = {}
    tried, upto = last.queue_id, max(last.queue_id, *of_groups) if of_groups else last.queue_id
    while tried < (upto := min(upto + _TRIED_QUEUES, _LAST_TRIED)):
        queues = [MessageQueue(last.topic, last.broker_name, number) for number in range(tried + 1, upto + 1)]
        ends = await all_ended(map(end, queues))
        held = {queue: at for queue, at in zip(queues, ends, strict=True) if at > 0}
        for queue, at in held.items():
            begin = (await cluster.ask_queue(GET_MIN_OFFSET, queue, at=address)).offset
            found[queue] = bodies.TopicOffset(max(0, begin), at, 0)
        tried, upto = upto, max(held).queue_id if held else 0
    return {queue: at for queue, at in found.items() if at.max_offset > at.min_offset}

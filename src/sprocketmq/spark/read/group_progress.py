"""The progress of a consumer group, as the brokers keep it: where a query may begin (``startingOffsets=group``, retry topics), and what a
stream shows of itself to people and tools. Spark's checkpoint is the truth of a running query, not this.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from sprocketmq.errors import RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster, can_pass, is_apache_4
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["ShownProgress", "commit_offsets", "committed_offsets", "query_committed"]

log = logging.getLogger("sprocketmq.spark")

_AGAIN_S: Final = 10.0
_WARN_EACH_S: Final = 30.0


def committed_offsets(cluster: Cluster, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """``query_committed``, asked again while its failure can pass."""
    return cluster.run(lambda: query_committed(cluster, group, queues))


async def query_committed(cluster: Cluster, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """What ``group`` has committed; a queue without a commit is left out. A failed question raises: it must not look like "none".

    A 4.x broker does not say "none" for a topic whose first message is still in its memory, it says 0. So whoever hears 0 from one asks
    for its whole table, as a slave does.
    """

    async def one(queue: MessageQueue) -> int | None:
        return await cluster.api.query_consumer_offset(await cluster.address(queue), group, queue, zero_if_young=False)

    async def table(address: str) -> Mapping[str, Mapping[int, int]] | None:
        answer = await cluster.api.invoke(
            address, requests.offsets.GET_ALL_CONSUMER_OFFSET.command(), cluster.api.timeout_ms
        )
        if answer.code != ResponseCode.SUCCESS or not is_apache_4(answer):
            return None  # to be believed
        return requests.offsets.GET_ALL_CONSUMER_OFFSET.answer_body_in(answer).offset_table

    answers = dict(zip(queues, await cluster.gather(map(one, queues)), strict=True))
    found = {queue: at for queue, at in answers.items() if at is not None and at >= 0}
    zeros = {queue: await cluster.address(queue) for queue, at in found.items() if at == 0}
    addresses = sorted(set(zeros.values()))
    tables = dict(zip(addresses, await cluster.gather(map(table, addresses)), strict=True))
    for queue, address in zeros.items():
        known = tables[address]
        if known is not None and queue.queue_id not in known.get(f"{queue.topic}@{group}", {}):
            del found[queue]
    return found


def commit_offsets(
    cluster: Cluster, group: str, offsets: Mapping[MessageQueue, int]
) -> dict[MessageQueue, RocketMQError]:
    """Show ``offsets`` (next to read) as the progress of ``group`` on the brokers: each queue for itself and once, as it is for people to
    see, and a stream has other things to do.

    Returns:
        The queues that could not be told, and why.
    """

    async def one(queue: MessageQueue, offset: int) -> RocketMQError | None:
        try:
            await cluster.api.update_consumer_offset(await cluster.address(queue), group, queue, offset)
        except RocketMQError as error:
            return error
        return None

    answers = cluster.engine.run(cluster.gather(one(queue, offset) for queue, offset in offsets.items()))
    return {queue: error for queue, error in zip(offsets, answers, strict=True) if error is not None}


class ShownProgress:
    """What a stream has shown of its progress. A queue whose broker cannot be told holds up no other, and is left alone for a while: the
    broker may be gone for good, while the checkpoint still names its queues. One that is refused is told once more with the next call, as
    the group may be on its way, and then left alone, too.

    Attributes:
        offsets: what the brokers have been told.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self.offsets: dict[MessageQueue, int] = {}
        self._again_s: dict[MessageQueue, float] = {}  # of the queues that failed last time
        self._warn_again_s: dict[str, float] = {}

    def show(self, cluster: Cluster, offsets: Mapping[MessageQueue, int], now_s: float) -> None:
        """Tell what is new. A failure is logged and made up for later."""
        moved = {
            queue: at
            for queue, at in offsets.items()
            if self.offsets.get(queue) != at and now_s >= self._again_s.get(queue, 0.0)
        }
        if not moved:
            return
        failed = commit_offsets(cluster, self._group, moved)
        for queue in moved.keys() - failed.keys():
            self.offsets[queue] = moved[queue]
            self._again_s.pop(queue, None)
        for queue, error in failed.items():
            is_first_refusal = queue not in self._again_s and not can_pass(error)
            self._again_s[queue] = now_s if is_first_refusal else now_s + _AGAIN_S
        for name, error in {queue.broker_name: error for queue, error in failed.items()}.items():
            if now_s >= self._warn_again_s.get(name, now_s):
                self._warn_again_s[name] = now_s + _WARN_EACH_S
                log.warning("progress of group %s is not on broker %s yet: %s", self._group, name, error)
        if any(map(can_pass, failed.values())):
            cluster.forget_routes()  # a broker may have moved

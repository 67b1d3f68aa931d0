"""The progress of a consumer group, as the brokers keep it: where a query may begin (``startingOffsets=group``, retry topics), and what a
stream shows of itself to people and tools. Spark's checkpoint is the truth of a running query, not this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sprocketmq.spark.cluster import Cluster, is_apache_4
from sprocketmq.wire import bodies
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.command import request
from sprocketmq.wire.message import MessageQueue

__all__ = ["commit_offsets", "committed_offsets"]

_COMMIT_PATIENCE_MS: Final = 2_000


def committed_offsets(cluster: Cluster, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """What ``group`` has committed; a queue without a commit is left out. A failed question raises: it must not look like "none".

    A 4.x broker does not say "none" for a topic whose first message is still in its memory, it says 0. So whoever hears 0 from one asks
    for its whole table, as a slave does.
    """

    async def one(queue: MessageQueue) -> int | None:
        return await cluster.api.query_consumer_offset(await cluster.address(queue), group, queue, zero_if_young=False)

    async def table(address: str) -> Mapping[str, Mapping[int, int]] | None:
        answer = await cluster.api.invoke(address, request(RequestCode.GET_ALL_CONSUMER_OFFSET), cluster.api.timeout_ms)
        if answer.code != ResponseCode.SUCCESS or not is_apache_4(answer):
            return None  # to be believed
        return bodies.ConsumerOffsetSerializeWrapper.decode(answer.body).offset_table

    async def ask() -> dict[MessageQueue, int]:
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

    return cluster.run(ask)


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[MessageQueue, int]) -> None:
    """Show ``offsets`` (next to read) as the progress of ``group`` on the brokers. Tried for a short while only: it is for people to
    see, and a stream has other queues to read.
    """

    async def one(queue: MessageQueue, offset: int) -> None:
        await cluster.api.update_consumer_offset(await cluster.address(queue), group, queue, offset)

    cluster.run(lambda: cluster.gather(one(queue, offset) for queue, offset in offsets.items()), _COMMIT_PATIENCE_MS)

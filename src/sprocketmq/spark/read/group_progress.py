# SPDX-License-Identifier: Apache-2.0
"""The progress of a consumer group at the brokers. A query may begin there (``startingOffsets=group``, retry topics), and a stream
commits its progress for people and tools to see. The progress of a running query is in Spark's checkpoint, not here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.remoting.queue_offsets import commit_offset, committed_offset
from sprocketmq.client.remoting.retrying import is_transient
from sprocketmq.errors import RocketMQError
from sprocketmq.spark.cluster.cluster import Cluster, is_apache_4
from sprocketmq.wire import requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

_AGAIN_S: Final = 10.0


async def query_committed(cluster: Cluster, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """Queues without a committed offset are left out. A failed request raises: it must not look like "none". For a topic whose first
    message is still in memory, a 4.x broker answers 0 instead of "none", so then its whole offset table is requested, as a slave does."""

    async def one(queue: MessageQueue) -> int | None:
        address = await cluster.master(queue.broker_name, queue.topic)
        return await committed_offset(cluster, group, queue, at=address, zero_if_young=False)

    async def table(address: str) -> Mapping[str, Mapping[int, int]] | None:
        answer = await cluster.invoke(address, requests.offsets.GET_ALL_CONSUMER_OFFSET.command(), cluster.timeout_ms)
        if answer.code != ResponseCode.SUCCESS or not is_apache_4(answer):
            return None  # its answer 0 is right
        return (await answer_body(requests.offsets.GET_ALL_CONSUMER_OFFSET, answer)).offset_table

    answers = dict(zip(queues, await cluster.gather(map(one, queues)), strict=True))
    found = {queue: at for queue, at in answers.items() if at is not None and at >= 0}
    zeros = {queue: await cluster.master(queue.broker_name, queue.topic) for queue, at in found.items() if at == 0}
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
    """One request for each queue, without retries: the stream must not wait. Returns the queues whose commit failed, with the error."""

    async def one(queue: MessageQueue, offset: int) -> RocketMQError | None:
        try:
            address = await cluster.master(queue.broker_name, queue.topic)
            await commit_offset(cluster, group, queue, offset, at=address)
        except RocketMQError as error:
            return error
        return None

    answers = cluster.engine.run(cluster.gather(one(queue, offset) for queue, offset in offsets.items()))
    return {queue: error for queue, error in zip(offsets, answers, strict=True) if error is not None}


class GroupProgress:
    """Commits the progress of a stream. A queue whose broker cannot be reached does not delay the others; it is skipped for a while. A
    commit that is refused is repeated with the next call, because the group may be created meanwhile, and skipped after that."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.offsets: dict[MessageQueue, int] = {}
        self._again_s: dict[MessageQueue, float] = {}  # when to try again the queues that failed

    def commit(self, cluster: Cluster, offsets: Mapping[MessageQueue, int], now_s: float) -> None:
        moved = {
            queue: at
            for queue, at in offsets.items()
            if self.offsets.get(queue) != at and now_s >= self._again_s.get(queue, 0.0)
        }
        if not moved:
            return
        first = self._one_of_each_new_table(moved)
        failed = commit_offsets(cluster, self._group, {queue: moved[queue] for queue in first}) if first else {}
        away = {queue.broker_name: error for queue, error in failed.items() if is_transient(error)}
        rest = {queue: at for queue, at in moved.items() if queue not in first and queue.broker_name not in away}
        failed.update(commit_offsets(cluster, self._group, rest))
        failed.update({queue: away[queue.broker_name] for queue in moved if queue.broker_name in away})
        for queue in moved.keys() - failed.keys():
            self.offsets[queue] = moved[queue]
            self._again_s.pop(queue, None)
        for queue, error in failed.items():
            is_first_refusal = queue not in self._again_s and not is_transient(error)
            self._again_s[queue] = now_s if is_first_refusal else now_s + _AGAIN_S
        for name, error in {queue.broker_name: error for queue, error in failed.items()}.items():
            sentence = "progress of group %s is not on broker %s yet, the stream reads on: %s"
            cluster.outages.failed("progress", error, sentence, self._group, name, error, of=self._group)
        if any(map(is_transient, failed.values())):
            cluster.routes.forget()  # a broker may have moved

    def _one_of_each_new_table(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """One queue of each topic and broker where nothing was committed yet; its commit must be over before the others begin. Of two
        first commits at the same moment each makes a table, and the second replaces the first (ConsumerOffsetManager.commitOffset)."""
        known = {(queue.topic, queue.broker_name) for queue in self.offsets}
        firsts = {(queue.topic, queue.broker_name): queue for queue in queues}
        return {queue for table, queue in firsts.items() if table not in known}

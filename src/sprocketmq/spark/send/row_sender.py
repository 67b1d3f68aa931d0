# SPDX-License-Identifier: Apache-2.0
"""What the two senders of a Spark task share: ``message_sender`` (ordinary messages) and ``half_messages`` (which wait for a decision).

Rows with one sharding key go to one queue, the one that Java's SelectMessageQueueByHash chooses; rows with a queue id go to that queue,
of the broker they name if it has the queue; in the task's order. A transient failure is retried until ``retryTimeoutMs`` is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.client.remoting.retrying import retrying
from sprocketmq.core.backoff import Backoff
from sprocketmq.core.produce.send_latency import queue_of_sharding_key
from sprocketmq.errors import (
    ConfigurationError,
    RemoteError,
    RocketMQError,
    SignatureRefused,
    SystemBusy,
)
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.task_process import prepare_task_process
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.send.row_messages import OutgoingRow
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records.message import MessageQueue

_PASSING: Final = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})

T = TypeVar("T")


class RowSender:
    """Sends the rows of one task. ``sent`` counts the rows that are stored. ``options``: of the sink. ``producer``: started."""

    def __init__(self, options: SinkOptions, producer: AsyncProducer) -> None:
        prepare_task_process()
        self._options = options
        self._producer = producer
        self._engine = Engine.shared()
        self.sent = 0

    async def _queue_of(self, row: OutgoingRow) -> MessageQueue | None:
        """The queue of a bound row; None for a row that may go to any queue."""
        topic = row.message.topic
        if not row.is_bound:
            return None
        queues = await self._until_answered(lambda: self._producer.publish_queues(topic))
        if row.queue_id < 0:
            assert row.sharding_key is not None
            return queue_of_sharding_key(row.sharding_key, queues)
        named: list[MessageQueue] = [queue for queue in queues if queue.queue_id == row.queue_id]
        same_broker = [queue for queue in named if queue.broker_name == row.broker_name]
        if not named:
            raise ConfigurationError(
                f"queueId is {row.queue_id}, and topic {topic!r} has the writable queues {', '.join(map(str, queues))}; use one of them"
            )
        return (same_broker or named)[0]

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """After the producer's own retries at other brokers, and slower, because a row that was not answered may be stored."""
        within_ms = self._options.retry_timeout_ms
        return await retrying(ask, within_ms, is_transient_send_error, backoff=Backoff(0.1, 2.0))


def is_transient_send_error(error: RocketMQError) -> bool:
    return (
        not isinstance(error, RemoteError) or isinstance(error, SystemBusy | SignatureRefused) or error.code in _PASSING
    )

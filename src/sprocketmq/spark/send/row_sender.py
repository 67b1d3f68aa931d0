# SPDX-License-Identifier: Apache-2.0
"""What the two senders of a Spark task share: ``message_sender`` (ordinary messages) and ``half_messages`` (which wait for a decision).

Rows with one sharding key go to one queue, the one that Java's SelectMessageQueueByHash chooses; rows with a queue id go to that queue,
of the broker they name if it has the queue; in the task's order. A transient failure is retried until ``retryTimeoutMs`` is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.core.produce.send_latency import queue_of_sharding_key
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    RemoteError,
    RequestTimeout,
    RocketMQError,
    SignatureRefused,
    SystemBusy,
)
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.task_process import prepare_task_process
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.send.row_messages import SEND_COLUMNS, OutgoingRow
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
_PASSING: Final = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})

AsMessages = Callable[[Mapping[str, Sequence[Any]], "str | None"], Iterator[OutgoingRow]]


class RowSender:
    """Sends the rows of one task. ``sent`` counts the rows that are stored. ``options``: of the sink. ``producer``: started."""

    def __init__(self, options: SinkOptions, producer: AsyncProducer) -> None:
        prepare_task_process()
        self._options = options
        self._producer = producer
        self._engine = Engine.shared()
        self.sent = 0

    def _messages_of(self, batch: pa.RecordBatch, as_messages: AsMessages) -> list[OutgoingRow]:
        """The rows as messages, one by one. Raises ConfigurationError if a row cannot be a message."""
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in SEND_COLUMNS}
        return list(as_messages(columns, self._options.topic))

    async def _queue_of(self, row: OutgoingRow) -> MessageQueue | None:
        """The queue of a bound row; None for a row that may go to any queue."""
        topic = row.message.topic
        if row.sharding_key is not None:
            row.message.properties[props.SHARDING_KEY] = props.checked_value("shardingKey", row.sharding_key)
        if not row.is_bound:
            return None
        queues: list[MessageQueue] = await self._until_answered(lambda: self._producer.publish_queues(topic))
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

    async def _until_answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        deadline_s = time.monotonic() + self._options.retry_timeout_ms / 1000
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except (NetworkError, RequestTimeout, RemoteError) as error:
                if not is_transient_send_error(error) or time.monotonic() + pause_s > deadline_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def is_transient_send_error(error: RocketMQError) -> bool:
    """Whether sending again later may help."""
    return (
        not isinstance(error, RemoteError) or isinstance(error, SystemBusy | SignatureRefused) or error.code in _PASSING
    )

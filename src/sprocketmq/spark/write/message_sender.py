# SPDX-License-Identifier: Apache-2.0
"""Sends rows of a Spark task as messages, for every write but the transactional one (``half_messages``).

Rows without a queue of their own are sent in batches (SEND_BATCH_MESSAGE) to the queues in turn, several at once. Rows with a sharding key
or a queue id are sent to each queue one batch after the other, in the order of the task. Delayed rows are sent alone: RocketMQ accepts none
in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, Final

import pyarrow as pa

from sprocketmq.client.produce.async_producer import AsyncProducer
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.results import SendResult
from sprocketmq.errors import NetworkError, RemoteError
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.shared_clients import SharedClients, close_when_dropped
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.send.row_columns import Elements, element_rows
from sprocketmq.spark.send.row_ids import TaskId
from sprocketmq.spark.send.row_messages import OutgoingRow, columns_of, outgoing_rows, replayed_rows
from sprocketmq.spark.send.row_sender import RowSender
from sprocketmq.spark.write.refused_rows import RefusedRows
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import batch_element_size
from sprocketmq.wire.records.message import Message, MessageQueue

# Below the broker's message limit (4 MiB). Much smaller, so that the broker's loop is shared evenly.
_BATCH_BYTES: Final = 512 * 1024
_BATCH_MESSAGES: Final = 512
# Bytes that the client adds to a message: its unique key, a namespace.
_ADDED_BYTES: Final = 256
# Fewer rows are converted one by one.
_FEW_ROWS: Final = 16


class _StartedProducer:
    """A started producer, shut down when this object is garbage collected. Users of the producer keep a reference to this object."""

    def __init__(self, options: SinkOptions) -> None:
        self.producer = AsyncProducer(
            options.group,
            namesrv_addr=options.namesrv_addr,
            send_msg_timeout_ms=options.send_timeout_ms,
            **options.producer_settings(),
            **options.access.client_options(),
        )
        engine = Engine.shared()
        engine.run(self.producer.start())
        close_when_dropped(self, engine, self.producer.shutdown)


class MessageSender(RowSender):
    """Sends the rows of one task. Tasks of one process share their producers. ``task_id``: for the marks of each message, by which a
    reader recognizes a repetition; None for no marks. ``replay_id``: of a replay of dead letters (mode replay)."""

    producers: ClassVar[SharedClients[tuple[object, ...], _StartedProducer]] = SharedClients()

    def __init__(self, options: SinkOptions, task_id: TaskId | None = None, replay_id: str | None = None) -> None:
        settings = options.producer_settings()
        key = (options.namesrv_addr, options.group, options.access, options.send_timeout_ms, *settings.values())
        self._started = self.producers.get(key, lambda _: _StartedProducer(options))
        super().__init__(options, self._started.producer)
        self._task_id = task_id
        self._fifo_topics: set[str] = set()  # behind a proxy, as it turned out
        self.refused = RefusedRows(options, task_id)
        self._replay_id = replay_id
        self._max_column_body_bytes = min(_BATCH_BYTES // 2, options.max_message_bytes, options.compress_from_bytes - 1)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send all rows and wait until they are stored. Raises ConfigurationError (a row cannot be a message), NetworkError,
        RequestTimeout, RemoteError (not stored within ``retryTimeoutMs``)."""
        if (elements := self._elements(batch)) is not None:
            self._engine.run(self._send_elements(elements))
            self.sent += batch.num_rows
        else:
            rows = list(self._rows(batch))
            if self._task_id is not None:
                self._add_marks(rows, self._task_id)
            self._engine.run(self._send_all(rows))
            self.refused.send_dead_letters()
            self.sent += len(rows)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[OutgoingRow]:
        columns, options = columns_of(batch), self._options
        longest = options.max_message_bytes
        if options.mode == "replay":
            return replayed_rows(columns, options.topic, self._replay_id, self.refused, longest)
        return outgoing_rows(columns, options.topic, self.refused, longest, options.max_delay_level)

    def _add_marks(self, rows: Sequence[OutgoingRow], task_id: TaskId) -> None:
        same = _marks(task_id)
        for number, row in enumerate(rows, self.sent):
            row.message.properties.update({**same, props.SPARK_SEQUENCE: str(number)})

    def _elements(self, batch: pa.RecordBatch) -> Elements | None:
        if self._options.mode != "send" or batch.num_rows < _FEW_ROWS or self._producer.encoded_batch_sender is None:
            return None
        unique_keys = self._engine.run(self._unique_keys(batch.num_rows))
        marks: dict[str, str | range] = {}
        if self._task_id is not None:
            marks = {**_marks(self._task_id), props.SPARK_SEQUENCE: range(self.sent, self.sent + batch.num_rows)}
        return element_rows(batch, self._options.topic, unique_keys, marks, self._max_column_body_bytes)

    async def _unique_keys(self, count: int) -> list[str]:
        sender = self._producer.encoded_batch_sender
        assert sender is not None
        return sender.unique_keys(count)

    async def _send_elements(self, elements: Elements) -> None:
        sender = self._producer.encoded_batch_sender
        assert sender is not None
        gate = self._gate()

        async def send(part: memoryview) -> None:
            async with gate:
                await self._until_stored(lambda: sender.send_batch(sender.writer.encoded_batch(elements.topic, part)))

        await all_ended(send(part) for part in elements.parts(_BATCH_BYTES, _BATCH_MESSAGES))  # no send stays in flight

    def _gate(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(max(1, self._options.max_in_flight // _BATCH_MESSAGES))

    async def _send_all(self, rows: Iterable[OutgoingRow]) -> None:
        gate = self._gate()
        single_gate = asyncio.Semaphore(self._options.max_in_flight)
        free: dict[str, list[Message]] = {}
        bound: dict[MessageQueue, list[OutgoingRow]] = {}
        work: list[Awaitable[None]] = []
        for row in rows:
            queue = await self._queue_of(row)
            if queue is not None:
                bound.setdefault(queue, []).append(row)
            elif self._is_sent_alone(row):
                work.append(self._send_one(row, None, single_gate))
            else:
                free.setdefault(row.message.topic, []).append(row.message)
        work += [
            self._send_as(part, None, gate, alone=len(part) == 1)
            for messages in free.values()
            for part in _parts(messages)
        ]
        work += [self._send_in_order(queue, rows_of_queue, gate) for queue, rows_of_queue in bound.items()]
        await all_ended(work)  # no send stays in flight

    async def _send_in_order(self, queue: MessageQueue, rows: Sequence[OutgoingRow], gate: asyncio.Semaphore) -> None:
        run: list[Message] = []
        for row in rows:
            if self._is_sent_alone(row):
                for part in _parts(run):
                    await self._send_bound(part, queue, gate)
                run = []
                await self._send_one(row, queue, gate)
            else:
                run.append(row.message)
        for part in _parts(run):
            await self._send_bound(part, queue, gate)

    async def _send_bound(self, messages: list[Message], queue: MessageQueue, gate: asyncio.Semaphore) -> None:
        """In order: alone or in a batch, or in the other way if a proxy refuses their type in this one. A proxy compares the type of a
        topic with that of a request (SendMessageActivity): FIFO with a sharding key in its properties, and a batch has no properties."""
        topic = messages[0].topic
        alone = len(messages) == 1 or topic in self._fifo_topics
        try:
            await self._send_as(messages, queue, gate, alone=alone)
        except RemoteError as refused:
            if refused.code != ResponseCode.MESSAGE_ILLEGAL or props.SHARDING_KEY not in messages[0].properties:
                raise
            try:
                await self._send_as(messages, queue, gate, alone=not alone)
            except RemoteError:
                raise refused from None
            if not alone:
                self._fifo_topics.add(topic)

    def _is_sent_alone(self, row: OutgoingRow) -> bool:
        """Whether a row is sent outside of a batch. A batch has no compressed messages in it."""
        return row.alone or len(row.message.body) >= self._options.compress_from_bytes

    async def _send_as(
        self, messages: list[Message], queue: MessageQueue | None, gate: asyncio.Semaphore, *, alone: bool
    ) -> None:
        async with gate:
            if not alone:
                await self._until_stored(lambda: self._producer.send_batch(messages, queue=queue))
                return
            for message in messages:
                await self._until_stored(lambda message=message: self._producer.send(message, queue=queue))  # type: ignore[misc]

    async def _send_one(self, row: OutgoingRow, queue: MessageQueue | None, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._until_stored(
                lambda: self._producer.send(row.message, queue=queue, deliver_time_ms=row.deliver_time_ms)
            )

    async def _until_stored(self, send: Callable[[], Awaitable[SendResult]]) -> None:
        """Send until the answer has a status of ``acceptedSendStatus``."""

        async def stored() -> None:
            result = await send()
            if result.status.name not in self._options.accepted_send_status:
                raise NetworkError(
                    f"{result.message_queue} stores rows with {result.status.name} only, which may lose them; look after its disk and "
                    f"slaves, or add the option acceptedSendStatus={result.status.name}"
                )

        await self._until_answered(stored)


def _marks(task_id: TaskId) -> dict[str, str]:
    query_id, batch_id, partition = task_id
    return {props.SPARK_QUERY_ID: query_id, props.SPARK_BATCH_ID: batch_id, props.SPARK_PARTITION: str(partition)}


def _parts(messages: Sequence[Message]) -> Iterable[list[Message]]:
    part: list[Message] = []
    total_bytes = 0
    for message in messages:
        size_bytes = _size_bytes(message)
        if part and (total_bytes + size_bytes > _BATCH_BYTES or len(part) >= _BATCH_MESSAGES):
            yield part
            part, total_bytes = [], 0
        part.append(message)
        total_bytes += size_bytes
    if part:
        yield part


def _size_bytes(message: Message) -> int:
    texts = chain.from_iterable(message.properties.items())
    properties_bytes = sum(1 + (len(text) if text.isascii() else len(text.encode())) for text in texts)
    return batch_element_size(len(message.body), properties_bytes) + _ADDED_BYTES

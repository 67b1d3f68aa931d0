"""Sends rows from a Spark task as messages: many batches in flight, and nobody goes on before the broker has said that it stored each of
them. For every write but the transactional one (``half_messages``).

Plain rows are written by columns (``row_columns``), all others one by one (``row_messages``). Rows without a queue of their own travel in
batches (SEND_BATCH_MESSAGE) to queues in turn, several at once. Rows with a sharding key or a queue id are gathered by queue and sent to
each queue one batch after the other, so their order is that of the task. Delayed rows go alone: RocketMQ takes none in a batch.

Law: ``send`` returns only when every row is stored, with a status that the user accepts (``acceptedSendStatus``). A row may be stored twice
(an answer was lost, a task ran twice), never not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar, Final

import pyarrow as pa

from sprocketmq.client.produce.producer import AsyncProducer
from sprocketmq.client.results import SendResult
from sprocketmq.errors import NetworkError
from sprocketmq.net.process.engine import Engine
from sprocketmq.spark.cluster.shared_clients import SharedClients, close_when_dropped
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.send.row_columns import Elements, element_rows
from sprocketmq.spark.send.row_messages import OutgoingRow, outgoing_rows, replayed_rows
from sprocketmq.spark.send.row_sender import AsMessages, RowSender
from sprocketmq.spark.send.write_marks import Stamp
from sprocketmq.spark.write.refused_rows import RefusedRows
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import batch_element_size
from sprocketmq.wire.records.message import Message, MessageQueue

__all__ = ["MessageSender"]

# A batch must stay below the broker's message limit (4 MiB); far below it, the broker's loop is shared more evenly.
_BATCH_BYTES: Final = 512 * 1024
_BATCH_MESSAGES: Final = 512
# What the client adds to a message: its unique key, a namespace.
_ADDED_BYTES: Final = 256
# Fewer rows are not worth columns.
_FEW_ROWS: Final = 16


class _StartedProducer:
    """A producer that is shut down when nobody has this object; whoever uses the producer keeps it."""

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
    """Sends the rows of one task. Tasks of one process share their producers: Spark uses its workers again for later batches.

    Args:
        options: of the sink.
        stamp: (query id, batch id, partition) to be noted in each message, so that a reader can tell a replay; None for no notes.
        replay_id: of a replay of dead letters (mode replay).
    """

    producers: ClassVar[SharedClients[tuple[object, ...], _StartedProducer]] = SharedClients()

    def __init__(self, options: SinkOptions, stamp: Stamp | None = None, replay_id: str | None = None) -> None:
        settings = options.producer_settings()
        key = (options.namesrv_addr, options.group, options.access, options.send_timeout_ms, *settings.values())
        self._started = self.producers.get(key, lambda _: _StartedProducer(options))
        super().__init__(options, self._started.producer)
        self._stamp = stamp
        self.refused = RefusedRows(options, stamp)
        replayed = partial(replayed_rows, replay_id=replay_id)
        sent = partial(outgoing_rows, refuse=self.refused, max_bytes=options.max_message_bytes)
        self._as_messages: AsMessages = replayed if options.mode == "replay" else sent
        self._longest_plain = min(_BATCH_BYTES // 2, options.max_message_bytes, options.compress_from_bytes - 1)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send all rows and wait until they are stored.

        Raises:
            ConfigurationError: a row cannot be a message.
            NetworkError, RequestTimeout, RemoteError: not stored within ``retryTimeoutMs``.
        """
        if (elements := self._elements(batch)) is not None:
            self._engine.run(self._send_elements(elements))
            self.sent += batch.num_rows
        else:
            rows = self._messages_of(batch, self._as_messages)
            if self._stamp is not None:
                self._note(rows, self._stamp)
            self._engine.run(self._send_all(rows))
            self.refused.settle()
            self.sent += len(rows)

    def _note(self, rows: Sequence[OutgoingRow], stamp: Stamp) -> None:
        same = _notes(stamp)
        for number, row in enumerate(rows, self.sent):
            row.message.properties.update({**same, props.SPARK_SEQUENCE: str(number)})

    def _elements(self, batch: pa.RecordBatch) -> Elements | None:
        """The rows by columns; None when they are to be made one by one."""
        if self._options.mode != "send" or batch.num_rows < _FEW_ROWS or self._producer.encoded_batch_sender is None:
            return None
        unique_keys = self._engine.run(self._unique_keys(batch.num_rows))
        notes: dict[str, str | range] = {}
        if self._stamp is not None:
            notes = {**_notes(self._stamp), props.SPARK_SEQUENCE: range(self.sent, self.sent + batch.num_rows)}
        return element_rows(batch, self._options.topic, unique_keys, notes, self._longest_plain)

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
                await self._until_stored(lambda: sender.send_encoded_batch(elements.topic, part))

        await _all_of([send(part) for part in elements.parts(_BATCH_BYTES, _BATCH_MESSAGES)])

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
            elif self._goes_alone(row):
                work.append(self._send_one(row, None, single_gate))
            else:
                free.setdefault(row.message.topic, []).append(row.message)
        work += [self._send_batch(part, None, gate) for messages in free.values() for part in _parts(messages)]
        work += [self._send_in_order(queue, rows_of_queue, gate) for queue, rows_of_queue in bound.items()]
        await _all_of(work)

    async def _send_in_order(self, queue: MessageQueue, rows: Sequence[OutgoingRow], gate: asyncio.Semaphore) -> None:
        run: list[Message] = []
        for row in rows:
            if self._goes_alone(row):
                for part in _parts(run):
                    await self._send_batch(part, queue, gate)
                run = []
                await self._send_one(row, queue, gate)
            else:
                run.append(row.message)
        for part in _parts(run):
            await self._send_batch(part, queue, gate)

    def _goes_alone(self, row: OutgoingRow) -> bool:
        """A batch has no compressed messages in it."""
        return row.alone or len(row.message.body) >= self._options.compress_from_bytes

    async def _send_batch(self, messages: list[Message], queue: MessageQueue | None, gate: asyncio.Semaphore) -> None:
        async with gate:
            if len(messages) == 1:
                await self._until_stored(lambda: self._producer.send(messages[0], queue=queue))
            else:
                await self._until_stored(lambda: self._producer.send_batch(messages, queue=queue))

    async def _send_one(self, row: OutgoingRow, queue: MessageQueue | None, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._until_stored(
                lambda: self._producer.send(row.message, queue=queue, deliver_time_ms=row.deliver_time_ms)
            )

    async def _until_stored(self, send: Callable[[], Awaitable[SendResult]]) -> None:
        """The broker may say that it has the rows, but not where ``acceptedSendStatus`` wants them: then they are sent again."""

        async def stored() -> None:
            result = await send()
            if result.status.name not in self._options.accepted_send_status:
                raise NetworkError(
                    f"{result.message_queue} stores rows with {result.status.name} only, which may lose them; look after its disk and "
                    f"slaves, or add the option acceptedSendStatus={result.status.name}"
                )

        await self._until_answered(stored)


async def _all_of(work: Sequence[Awaitable[None]]) -> None:
    """A failure must not leave sends behind that nobody waits for."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _notes(stamp: Stamp) -> dict[str, str]:
    query_id, batch_id, partition = stamp
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

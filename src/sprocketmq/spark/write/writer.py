# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N803 - Spark calls these methods, with these argument names
"""The sink, batch and streaming. Append only: a topic has no rows that could be replaced.

``mode=send``: every row becomes a message; a task ends when all of its rows are stored. ``mode=ack``: rows of the source with an
``action`` are sent back to their brokers, by the driver, once for each batch, when every task is done: a task that ran twice sends
nothing twice. ``mode=replay``: dead letters are sent again as they were first sent.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.sink_options import SinkOptions
from sprocketmq.spark.options.source_columns import COPY_COLUMNS
from sprocketmq.spark.retry.bad_row_sender import BadRowSender
from sprocketmq.spark.retry.bad_rows import BadRow, bad_rows
from sprocketmq.spark.retry.send_back import RetryGroup
from sprocketmq.spark.send.row_ids import TaskId, check_write_name, task_id_of
from sprocketmq.spark.send.row_messages import check_columns
from sprocketmq.spark.troubles import troubles
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.spark.write.refused_rows import RefusedRows

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """PySpark 4.0: a task gives Arrow to whatever is a DataSourceArrowWriter (``worker/write_into_data_source``); the driver calls
        ``commit`` with the number of the batch (``worker/python_streaming_sink_runner``)."""


if TYPE_CHECKING:
    from sprocketmq.spark.transactions.transactional_write import TransactionalWrite

log = logging.getLogger("sprocketmq.spark")


@dataclass
class TaskResult(WriterCommitMessage):
    sent: int = 0
    refused: int = 0
    to_send_back: list[BadRow] = field(default_factory=list)


class _Sink:
    def __init__(self, options: SinkOptions, schema: StructType, streaming: bool) -> None:
        check_columns(schema, options.mode, options.topic)
        check_write_name(options, streaming)
        self._options, self._streaming = options, streaming
        self._replay_id = uuid.uuid4().hex  # of a batch; made once, on the driver
        self._transactional: TransactionalWrite | None = None
        if options.delivery == "transactional":
            # A slow import.
            from sprocketmq.spark.transactions.transactional_write import TransactionalWrite

            self._transactional = TransactionalWrite(options, streaming)

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._transactional is not None:
            return self._transactional.write(batches, lambda task_id: RefusedRows(self._options, task_id))
        if self._options.mode == "ack":
            return TaskResult(to_send_back=[row for batch in batches for row in bad_rows(batch, self._options)])
        sender: MessageSender | None = None
        for batch in batches:
            if batch.num_rows:
                sender = sender or MessageSender(self._options, self._task_id(), self._replay())
                sender.send(batch)
        return TaskResult() if sender is None else TaskResult(sender.sent, sender.refused.count)

    def abort(self, messages: list[WriterCommitMessage | None], what: str) -> None:
        if self._transactional is not None:
            self._transactional.abort(messages)
            troubles.failed("writes", "%s failed; none of its messages appears unless it was decided", what, of=what)
        else:  # when Spark repeats the write, they are sent again (at least once)
            sentence = "%s failed; messages of its finished tasks are stored and will be sent again with the next try"
            troubles.failed("writes", sentence, what, of=what)

    def finish(self, messages: list[WriterCommitMessage | None], what: str) -> None:
        if refused := sum(getattr(message, "refused", 0) for message in messages):
            sentence = "%s: %d rows cannot be messages and are not sent (onError=%s)"
            troubles.failed("refused rows", sentence, what, refused, self._options.on_error, of=what)
        if self._transactional is not None:
            self._transactional.commit(messages, what)
            return
        results = [message for message in messages if isinstance(message, TaskResult)]
        back = [message for result in results for message in result.to_send_back]
        if back:
            options = self._options
            sender = BadRowSender(
                RetryGroup(
                    options.group,
                    options.namesrv_addr,
                    options.access,
                    options.max_reconsume_times,
                    options.retry_timeout_ms,
                )
            )
            if self._streaming and any(row.message.delay_level >= 0 for row in back):
                sender.warn_if_nobody_reads_retries({row.message.topic for row in back if row.message.topic}, what)
            refused = sender.send_back(sender.first_of_each_message(back))
            if refused:
                row, error = refused[0]
                raise ConfigurationError(
                    f"{len(refused)} messages of {what} cannot be sent back, the first is {row.message}: {error}; their stored copies "
                    f"are gone; keep the columns {', '.join(COPY_COLUMNS)}, so that copies can be sent"
                )
            sender.log_result(what)
        log.info("%s: %d rows sent, %d sent back", what, sum(result.sent for result in results), len(back))

    def _replay(self) -> str:
        """The id of a replay. A batch of a stream that runs again has the same."""
        context = TaskContext.get()
        if context is None or not (query_id := context.getLocalProperty("sql.streaming.queryId")):
            return self._replay_id
        return f"{query_id}-{context.getLocalProperty('streaming.sql.batchId')}"

    def _task_id(self) -> TaskId | None:
        return task_id_of(self._options, TaskContext.get()) if self._options.delivery == "idempotent" else None


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._sink = _Sink(options, schema, streaming=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write_batches(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.finish(messages, "batch write")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Roll back a transactional write. Other messages stay stored."""
        self._sink.abort(messages, "batch write")


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._sink = _Sink(options, schema, streaming=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write_batches(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._sink.finish(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Roll back a transactional write. Other messages stay stored, and the batch runs again."""
        self._sink.abort(messages, f"batch {batchId}")

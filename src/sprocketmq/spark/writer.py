# ruff: noqa: N803 - Spark calls these methods, with these argument names
"""The sink, batch and streaming. Append only: a topic has no rows to be replaced.

``mode=send``: every row becomes a message; a task ends when all of its rows are stored (at least once; ``delivery=idempotent`` notes query,
batch, partition and number in each message, so that a reader can drop what a replayed batch sent again).

``mode=ack``: rows of the source with an ``action`` (``ack``, ``retry``, ``dlq``, ``drop``) go back to their brokers. Tasks only collect
where the messages are; the driver sends them back once per batch, in ``commit``, when every task is done: a task that ran twice sends
nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.cluster import SendBack
from sprocketmq.spark.options import SinkOptions
from sprocketmq.spark.row_messages import ACK_COLUMNS, check_columns
from sprocketmq.spark.row_retry import ACTIONS, DEAD_LETTER_LEVEL, as_send_back, send_back
from sprocketmq.spark.row_sender import RowSender, Stamp

__all__ = ["BatchWriter", "StreamWriter", "TaskResult"]

log = logging.getLogger("sprocketmq.spark")


@dataclass
class TaskResult(WriterCommitMessage):
    """What one task did: rows stored, and messages that the driver is to send back."""

    sent: int = 0
    back: list[SendBack] = field(default_factory=list)


class _Sink:
    """What both writers share."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.mode, options.topic)
        self._options = options

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        if self._options.mode == "ack":
            return TaskResult(back=[message for batch in batches for message in self._judge(batch)])
        sender: RowSender | None = None
        for batch in batches:
            if batch.num_rows:
                sender = sender or RowSender(self._options, self._stamp())
                sender.send(batch)
        return TaskResult(sent=sender.sent if sender is not None else 0)

    def finish(self, messages: list[WriterCommitMessage | None], what: str) -> None:
        results = [message for message in messages if isinstance(message, TaskResult)]
        back = [message for result in results for message in result.back]
        if back:
            refused = send_back(
                back,
                group=self._options.group,
                namesrv_addr=self._options.namesrv_addr,
                max_reconsume=self._options.max_reconsume_times,
                retry_timeout_ms=self._options.retry_timeout_ms,
            )
            if refused:
                message, error = refused[0]
                raise ConfigurationError(
                    f"{len(refused)} messages of {what} cannot be sent back, the first is {message}: {error}; their stored copies are "
                    "gone, use foreach_batch of sprocketmq.spark, which sends them anew"
                )
        log.info("%s: %d rows sent, %d sent back", what, sum(result.sent for result in results), len(back))

    def _stamp(self) -> Stamp | None:
        context = TaskContext.get()
        if self._options.delivery != "idempotent" or context is None:
            return None
        query_id = context.getLocalProperty("sql.streaming.queryId") or f"stage-{context.stageId()}"
        return query_id, context.getLocalProperty("streaming.sql.batchId") or "0", context.partitionId()

    def _judge(self, batch: pa.RecordBatch) -> Iterator[SendBack]:
        names = [name for name in batch.schema.names if name in ACK_COLUMNS]
        for row in batch.select(names).to_pylist():
            action = (row.get("action") or "ack").lower()
            if action not in ACTIONS:
                raise ConfigurationError(f"action is {action!r}; allowed is {', '.join(ACTIONS)}")
            if action == "dlq":
                yield as_send_back(row, DEAD_LETTER_LEVEL)
            elif action == "retry":
                level: Any = row.get("delayLevel")
                yield as_send_back(row, self._options.delay_level if level is None else level)


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("rocketmq").mode("append")``."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._sink = _Sink(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write_batches(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.finish(messages, "batch write")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was sent stays sent; a retry of the write sends it again (at least once)."""
        log.warning(
            "the write failed; messages of finished tasks are stored and will be sent again if the write is repeated"
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("rocketmq")``."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._sink = _Sink(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write_batches(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._sink.finish(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was sent stays sent; the batch runs again (at least once)."""
        log.warning("batch %d failed; messages of its finished tasks are stored and will be sent again", batchId)

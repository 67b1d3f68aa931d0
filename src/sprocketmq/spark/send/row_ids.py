# SPDX-License-Identifier: Apache-2.0
"""The ids that ``delivery=idempotent`` puts into each message, and how a reader drops repeated rows by them.

    stream        query id / batch id        / partition / number within it      Spark keeps both ids in the checkpoint
    batch write   txnAppId / txnVersion      / partition / number within it      the user names the write; no id of Spark survives it

The id is in four properties (marks), and the same when the write runs again: after a crash, in another application, on other machines,
as long as the partitions have the same rows in the same order. A shuffle gives a row another number, so two rows count as one only if
their bodies are equal, too; otherwise rows come twice, and none is dropped. A message that came back (a retry, a replayed dead letter)
is not a repetition of itself.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records import properties as props

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import TaskContext
    from pyspark.sql import Column, DataFrame

    from sprocketmq.spark.options.sink_options import SinkOptions

# Query, batch and partition of a task.
TaskId = tuple[str, str, int]

_MARKS: Final = (props.SPARK_QUERY_ID, props.SPARK_BATCH_ID, props.SPARK_PARTITION, props.SPARK_SEQUENCE)
_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
# Columns that are dropped again; users have names of their own.
_ID: Final = "__sprocketmq_id"
_FIRST_READ: Final = "__sprocketmq_first_read"
_WITHIN: Final = "3 hours"
# EventTimeWatermark.delayKey: the metadata of a column with a watermark
_DELAY_MS: Final = "spark.watermarkDelayMs"
_NEEDED: Final = ("messageId", "reconsumeTimes", "body", "properties")


def check_write_name(options: SinkOptions, streaming: bool) -> None:
    """Refuse, before a task runs, a write whose rows could not be distinguished from those of another write."""
    if streaming and options.txn_app_id is not None:
        raise ConfigurationError(
            "txnAppId and txnVersion are given for a stream, whose batches are named by its checkpoint; leave them out, or give them to a "
            "batch write in foreachBatch"
        )
    if options.delivery == "idempotent" and not streaming and options.txn_app_id is None:
        raise ConfigurationError(
            "delivery is 'idempotent' in a batch write without txnAppId and txnVersion, and nothing else names a batch write when it is "
            'repeated; add .option("txnAppId", "a name of this write") and .option("txnVersion", its number, as the batch id), or set '
            "delivery to atLeastOnce"
        )


def task_id_of(options: SinkOptions, context: TaskContext | None) -> TaskId:
    """The query, batch and partition of the rows of this task. Raises ConfigurationError (Spark does not name the query)."""
    partition = context.partitionId() if context is not None else 0
    if options.txn_app_id is not None:
        name = options.txn_app_id
        # Only a stream's name is a UUID in lower case (``each_write_once``).
        return name.upper() if re.fullmatch(_UUID, name) else name, str(options.txn_version), partition
    query_id, batch_id = stream_batch(context)
    return query_id, batch_id, partition


def stream_batch(context: TaskContext | None) -> tuple[str, str]:
    """The ids of the query and the batch that a task belongs to. Raises ConfigurationError (Spark does not name them)."""
    query_id = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    batch_id = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if not query_id or batch_id is None:
        raise ConfigurationError(
            "Spark does not say which query and batch this task belongs to; it must run in a streaming query"
        )
    return query_id, batch_id


def each_write_once(rows: DataFrame, within: str | None = None) -> DataFrame:
    """Rows that a sink with ``delivery=idempotent`` wrote, without repetitions after a crash, and without its marks.

    A repetition has the marks and the body of an earlier row. Rows without marks, from another sender, are compared by their ``messageId``.
    A retry (``includeRetry``) or a replayed dead letter is not a repetition.

    Args:
        rows: of the source, batch or stream, with the columns ``messageId``, ``reconsumeTimes``, ``body`` and ``properties``, and with
            ``topic`` if several topics are read.
        within: for a stream, as of ``each_try_once``; choose more than the time that the writer may be down between two runs of one batch.
            In a batch all rows are compared.
    """
    from pyspark.sql import functions as f

    missing = [name for name in _NEEDED if name not in rows.columns]
    if missing:
        raise ConfigurationError(f"the rows given to each_write_once lack {' and '.join(missing)}; keep these columns")

    def value(name: str) -> Column:
        return f.try_element_at("properties", f.lit(name))

    marks = f.concat_ws("/", *map(value, _MARKS), f.sha2("body", 256))
    if "topic" in rows.columns:  # two writes of one name to two topics; a stream's name, a UUID, is of one write alone
        marks = f.when(value(props.SPARK_QUERY_ID).rlike(_UUID), marks).otherwise(
            f.concat_ws("/", f.col("topic"), marks)
        )
    is_marked = reduce(lambda one, other: one & other, (value(name).isNotNull() for name in _MARKS))
    life = f.concat_ws("/", f.coalesce("reconsumeTimes", f.lit(0)), value(props.REPLAY_ID))
    # Neither retried nor replayed: its id alone, as in the state of queries that older versions began.
    is_first_life = ~is_marked & (life == "0")
    name = f.concat_ws(" ", f.when(is_marked, marks).otherwise(f.col("messageId")), life)
    named = rows.withColumn(_ID, f.when(is_first_life, f.col("messageId")).otherwise(name))
    named = named.withColumn("properties", f.map_filter("properties", lambda name, _: ~name.isin(*_MARKS)))
    if not rows.isStreaming:
        return named.dropDuplicates([_ID]).drop(_ID)
    return first_of_each(named, [_ID], within).drop(_ID)


def first_of_each(rows: DataFrame, columns: Sequence[str], within: str | None) -> DataFrame:
    """The first row of each value of ``columns``. ``within`` as of ``each_try_once``; None if ``rows`` has a watermark."""
    from pyspark.sql import functions as f

    delays = {field.name: field.metadata[_DELAY_MS] for field in rows.schema if _DELAY_MS in (field.metadata or {})}
    if not delays:
        timed = rows.withColumn(_FIRST_READ, f.current_timestamp()).withWatermark(_FIRST_READ, within or _WITHIN)
        return timed.dropDuplicatesWithinWatermark([*columns]).drop(_FIRST_READ)
    if within is not None:
        name, delay_ms = next(iter(delays.items()))
        raise ConfigurationError(
            f"within is {within!r}, and the rows have a watermark on {name} of {delay_ms} ms, which is how long repetitions are recognized "
            "then; leave within out, or choose a longer watermark"
        )
    return rows.dropDuplicatesWithinWatermark([*columns])

# SPDX-License-Identifier: Apache-2.0
"""Counts the messages that tasks could not read, on the driver, by a Spark accumulator.

Spark passes accumulators to the tasks of a registered source, but not to those of a source that it found by itself, such as ``rocketmq``;
and that source cannot be registered again. So the report registers the same source under another name. It is a set of ranges: a task or a
batch that runs twice is counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, lost_counts, merge_losses
from sprocketmq.spark.read.loss_accumulator import LOSS_SETS
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LossCountingDataSource(RocketMQDataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq_counted"


class LossReport:
    """The messages that were missing in the reads that use this report's ``format`` and ``options``. For ``failOnDataLoss=false``.

    ::

        report = LossReport(spark)
        rows = spark.read.format(report.format).options(failOnDataLoss="false", **report.options)...load()
        rows.count()
        report.by_queue  # {MessageQueue: messages}

    Args:
        spark: a classic session. The report is filled when tasks end: look at it after an action, or after a stream's batch.

    Raises:
        ConfigurationError: the session is one of Spark Connect, which has no accumulators.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = getattr(spark, "_sc", None)
        if context is None:
            raise ConfigurationError(
                "the session is one of Spark Connect, which has no accumulators; use LossReport with a classic session, or read the log"
            )
        self._accumulator = context.accumulator(frozenset(), LOSS_SETS)
        spark.dataSource.register(LossCountingDataSource)

    @property
    def format(self) -> str:
        """The name of the source that counts: ``rocketmq`` under another name, with the same options."""
        return LossCountingDataSource.name()

    @property
    def options(self) -> dict[str, str]:
        """Options for any number of reads: ``.options(**report.options)``."""
        return {"lossReport": str(self._accumulator.aid + 1)}

    @property
    def losses(self) -> list[Loss]:
        """Every missing range so far, each offset once: queue, start, end, reason. ``str`` of a loss is a sentence."""
        return merge_losses(self._accumulator.value)

    @property
    def by_queue(self) -> dict[MessageQueue, int]:
        """Missing messages of each queue with losses; 0 if the number is unknown."""
        return lost_counts(self._accumulator.value)

    @property
    def total(self) -> int:
        """The number of messages that are known to be missing."""
        return sum(self.by_queue.values())

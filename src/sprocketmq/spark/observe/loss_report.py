"""What tasks could not read, counted where the user can see it: a report that lives on the driver and is filled by running tasks.

    LossReport(spark) --format, options--> source --pickled--> task --add--> Spark accumulator --task done--> LossReport.losses

Spark gives accumulators to the tasks of a source that was registered, and none to one that it found by itself, as ``rocketmq`` is; that
one cannot be registered again. So the report registers the same source under a name of its own.

A driver learns of losses at planning only by its log and, for streams, by what is journaled; a task runs on another machine. Spark's
accumulators are the way back, and they are Spark classic's: Spark Connect has none, there the log of the executors says the same.

Law: the report is a set of ranges, so a task that runs twice, or a batch that is read twice, is counted once (``losses``, law 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, counted, merged
from sprocketmq.spark.read.counted_losses import LOSSES
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LossReport"]


class CountedDataSource(RocketMQDataSource):
    """``rocketmq`` under a name that can be registered."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq_counted"


class LossReport:
    """Which messages were missing in the reads that were given its ``options``; for ``failOnDataLoss=false``.

    ::

        report = LossReport(spark)
        rows = spark.read.format(report.format).options(failOnDataLoss="false", **report.options)...load()
        rows.count()
        report.by_queue  # {MessageQueue: messages}

    Args:
        spark: a classic session. It is filled when tasks end, so look after an action, or after a stream's batch.

    Raises:
        ConfigurationError: the session is one of Spark Connect, which has no accumulators; read the executors' log instead.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = getattr(spark, "_sc", None)
        if context is None:
            raise ConfigurationError(
                "the session is one of Spark Connect, which has no accumulators; use LossReport with a classic session, or read the log"
            )
        self._accumulator = context.accumulator(frozenset(), LOSSES)
        spark.dataSource.register(CountedDataSource)

    @property
    def format(self) -> str:
        """The source that counts: ``rocketmq`` under another name, with the same options."""
        return CountedDataSource.name()

    @property
    def options(self) -> dict[str, str]:
        """For ``.options(**report.options)`` of any number of reads."""
        return {"lossReport": str(self._accumulator.aid + 1)}

    @property
    def losses(self) -> list[Loss]:
        """Every range that is missing so far, each offset once: queue, start, end, reason. ``print`` shows a sentence."""
        return merged(self._accumulator.value)

    @property
    def by_queue(self) -> dict[MessageQueue, int]:
        """Missing messages of each queue with losses; 0 where nobody knows how many."""
        return counted(self._accumulator.value)

    @property
    def total(self) -> int:
        """Messages known to be missing."""
        return sum(self.by_queue.values())

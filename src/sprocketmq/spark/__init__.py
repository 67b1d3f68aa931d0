"""RocketMQ for Spark: ``format("rocketmq")`` (found by Spark through ``pyspark_rocketmq``), row-level retry, and lag reports.

from sprocketmq.spark import RocketMQProgressListener, foreach_batch, send_back
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sprocketmq.logs  # noqa: F401 - its loggers tell what peers say in one line

if TYPE_CHECKING:
    from sprocketmq.spark.losses import DataLoss
    from sprocketmq.spark.observe.loss_report import LossReport
    from sprocketmq.spark.observe.progress_listener import RocketMQProgressListener
    from sprocketmq.spark.read.lag import LagReport
    from sprocketmq.spark.retry.row_retry import each_try_once, foreach_batch
    from sprocketmq.spark.retry.sent_back import send_back
    from sprocketmq.spark.send.write_marks import each_write_once
    from sprocketmq.spark.source import RocketMQDataSource, message_schema

__all__ = [
    "DataLoss",
    "LagReport",
    "LossReport",
    "RocketMQDataSource",
    "RocketMQProgressListener",
    "each_try_once",
    "each_write_once",
    "foreach_batch",
    "message_schema",
    "send_back",
]

_HOME = {
    "DataLoss": "losses",
    "LagReport": "read.lag",
    "LossReport": "observe.loss_report",
    "RocketMQDataSource": "source",
    "RocketMQProgressListener": "observe.progress_listener",
    "each_try_once": "retry.row_retry",
    "each_write_once": "send.write_marks",
    "foreach_batch": "retry.row_retry",
    "message_schema": "source",
    "send_back": "retry.sent_back",
}


def __getattr__(name: str) -> object:
    """Only what is asked for is imported: Spark's workers need the readers, not the listener."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        from sprocketmq.extras import extra_of, missing_extra

        if extra_of(error) is None:
            raise
        raise missing_extra(f"sprocketmq.spark.{name}", "spark", error) from error

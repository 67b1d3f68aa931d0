# SPDX-License-Identifier: Apache-2.0
"""RocketMQ for Spark: ``format("rocketmq")``, retries for single rows, and lag reports. Import it before the session is made: it sets
PYSPARK_PYTHON if Spark's workers would not find this package otherwise (``use_this_python``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sprocketmq.logs  # noqa: F401 - sets up the loggers
from sprocketmq.spark.worker_python import use_this_python

if TYPE_CHECKING:
    from sprocketmq.spark.changes.change_events import change_events
    from sprocketmq.spark.losses import DataLoss
    from sprocketmq.spark.observe.loss_report import LossReport
    from sprocketmq.spark.observe.progress_listener import RocketMQProgressListener
    from sprocketmq.spark.read.lag import LagReport
    from sprocketmq.spark.retry.row_retry import each_try_once, foreach_batch
    from sprocketmq.spark.retry.send_back import SendBackRequest, send_back
    from sprocketmq.spark.send.row_ids import each_write_once
    from sprocketmq.spark.source import RocketMQDataSource, message_schema
    from sprocketmq.spark.values.body_values import body_values

use_this_python()

__all__ = [
    "DataLoss",
    "LagReport",
    "LossReport",
    "RocketMQDataSource",
    "RocketMQProgressListener",
    "SendBackRequest",
    "body_values",
    "change_events",
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
    "SendBackRequest": "retry.send_back",
    "body_values": "values.body_values",
    "change_events": "changes.change_events",
    "each_try_once": "retry.row_retry",
    "each_write_once": "send.row_ids",
    "foreach_batch": "retry.row_retry",
    "message_schema": "source",
    "send_back": "retry.send_back",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: Spark's Python workers need the readers, not the listener."""
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

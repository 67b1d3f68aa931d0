# SPDX-License-Identifier: Apache-2.0
"""The module by which Spark finds ``format("rocketmq")``.

Spark imports every installed module whose name begins with ``pyspark_`` and registers its ``DefaultSource``. So ``format("rocketmq")`` and
``CREATE TABLE ... USING rocketmq`` need no registration. The import runs for every Spark session on the machine. It must be cheap, and must
not fail when the ``spark`` extra is incomplete.
"""

from __future__ import annotations

from sprocketmq.spark.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]

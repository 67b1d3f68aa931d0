"""Spark imports every module whose name begins with ``pyspark_`` and takes its ``DefaultSource``: so ``format("rocketmq")`` and
``CREATE TABLE ... USING rocketmq`` work with nothing to register. This runs for every Spark user on the machine: it must be cheap, and
must not fail where the ``spark`` extra is not complete."""

from __future__ import annotations

from sprocketmq.spark.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]

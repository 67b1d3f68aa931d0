"""Losses on their way from tasks to the driver, in an accumulator that a LossReport made."""

from __future__ import annotations

from typing import Any, Final

from pyspark.accumulators import AccumulatorParam

from sprocketmq.spark.losses import Loss

__all__ = ["LOSSES", "tell"]


class _Losses(AccumulatorParam[frozenset[Loss]]):
    def zero(self, value: frozenset[Loss]) -> frozenset[Loss]:
        return frozenset()

    def addInPlace(self, value1: frozenset[Loss], value2: frozenset[Loss]) -> frozenset[Loss]:  # noqa: N802 - Spark's name
        return value1 | value2


LOSSES: Final = _Losses()


def tell(report: str | None, losses: list[Loss]) -> None:
    """In a task: add ``losses`` to the LossReport whose option is ``report``; does nothing without one."""
    if report is None or not losses:
        return
    from pyspark.accumulators import _accumulatorRegistry, _deserialize_accumulator

    number = int(report) - 1  # options count from 1
    accumulator: Any = _accumulatorRegistry.get(number)
    if accumulator is None:
        accumulator = _deserialize_accumulator(number, frozenset(), LOSSES)
    accumulator.add(frozenset(losses))

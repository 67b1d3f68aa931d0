# SPDX-License-Identifier: Apache-2.0
"""The accumulator by which tasks report losses to a LossReport on the driver."""

from __future__ import annotations

from typing import Any, Final

from pyspark.accumulators import AccumulatorParam

from sprocketmq.spark.losses import Loss


class _Losses(AccumulatorParam[frozenset[Loss]]):
    def zero(self, value: frozenset[Loss]) -> frozenset[Loss]:
        return frozenset()

    def addInPlace(self, value1: frozenset[Loss], value2: frozenset[Loss]) -> frozenset[Loss]:  # noqa: N802 - Spark's name
        return value1 | value2


LOSS_SETS: Final = _Losses()


def add_losses(report: str | None, losses: list[Loss]) -> None:
    """In a task: add ``losses`` to the LossReport whose option is ``report``. Without a report, do nothing."""
    if report is None or not losses:
        return
    from pyspark.accumulators import _accumulatorRegistry, _deserialize_accumulator

    number = int(report) - 1  # the option is the accumulator's id + 1
    accumulator: Any = _accumulatorRegistry.get(number)
    if accumulator is None:
        accumulator = _deserialize_accumulator(number, frozenset(), LOSS_SETS)
    accumulator.add(frozenset(losses))

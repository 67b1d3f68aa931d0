# SPDX-License-Identifier: Apache-2.0
"""The way of a loss from a task to the driver, without the Spark in between (tests/system/spark/test_read_pages.py has it)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import accumulators
from pyspark.accumulators import Accumulator

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss
from sprocketmq.spark.observe.loss_report import LossReport
from sprocketmq.spark.read.loss_accumulator import add_losses
from sprocketmq.wire.records.message import MessageQueue

ONE = MessageQueue("trains", "broker-a", 0)
FIRST, SECOND = Loss(ONE, 0, 5, "deleted"), Loss(ONE, 3, 9, "deleted")


class Context:
    """Numbers its accumulators from 0, as Spark does."""

    def __init__(self) -> None:
        self.made: list[Accumulator[Any]] = []

    def accumulator(self, value: Any, param: Any) -> Accumulator[Any]:
        self.made.append(Accumulator(len(self.made), value, param))
        return self.made[-1]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """A worker's: empty when its task begins."""
    found: dict[int, Any] = {}
    monkeypatch.setattr(accumulators, "_accumulatorRegistry", found)
    return found


def report_on(context: Context) -> LossReport:
    return LossReport(SimpleNamespace(_sc=context, dataSource=SimpleNamespace(register=lambda source: None)))  # type: ignore[arg-type]


def ended(context: Context, registry: dict[int, Any]) -> None:
    """What Spark does when a task ends: its updates are added to the driver's accumulators; then the next one begins."""
    for number, update in registry.items():
        context.made[number].add(update._value)
    registry.clear()


def test_the_report_has_each_offset_of_several_tasks_once(registry: dict[int, Any]) -> None:
    context = Context()
    reports = [report_on(context), report_on(context)]
    registry.clear()  # from here on it is a worker's
    add_losses(reports[1].options["lossReport"], [FIRST])
    ended(context, registry)
    add_losses(reports[1].options["lossReport"], [SECOND])
    add_losses(reports[1].options["lossReport"], [FIRST])  # the task ran twice
    ended(context, registry)
    assert reports[0].losses == []
    assert reports[1].losses == [Loss(ONE, 0, 9, "deleted")]
    assert (reports[1].by_queue, reports[1].total) == ({ONE: 9}, 9)


def test_a_task_without_a_report_or_without_losses_reports_nothing(registry: dict[int, Any]) -> None:
    add_losses(None, [FIRST])
    add_losses("1", [])
    assert registry == {}


def test_a_session_of_connect_has_no_report() -> None:
    with pytest.raises(ConfigurationError, match="Spark Connect, which has no accumulators"):
        LossReport(SimpleNamespace())  # type: ignore[arg-type]

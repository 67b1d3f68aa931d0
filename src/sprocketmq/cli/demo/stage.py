# SPDX-License-Identifier: Apache-2.0
"""The parameters of a stage of the demo, and its progress bar."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress, TaskID

from sprocketmq.cli.demo.flights import Flights
from sprocketmq.cli.demo.reconcile import Reconciliation
from sprocketmq.cli.frame.target import Target


@dataclass
class Stage:
    flights: Flights
    target: Target
    out: Path
    progress: Progress
    findings: Reconciliation
    doing: str = "starting the broker"
    current: Bar | None = None

    @property
    def logs(self) -> Path:
        return self.out / "logs"

    @contextlib.contextmanager
    def bar(self, title: str) -> Iterator[Bar]:
        self.doing = title
        bar = self.current = Bar(
            self.progress, self.progress.add_task(title, total=len(self.flights), detail=""), len(self.flights)
        )
        yield bar
        bar.finish()


class Bar:
    """Counts the finished flights of one stage; ``detail`` is the short text behind the bar."""

    def __init__(self, progress: Progress, task: TaskID, total: int) -> None:
        self._progress, self._task, self.total = progress, task, total
        self.done = 0

    def advance(self, count: int) -> None:
        self.done += count
        self._progress.update(self._task, completed=self.done)

    def detail(self, text: str) -> None:
        self._progress.update(self._task, detail=text)

    def finish(self) -> None:
        self._progress.stop_task(self._task)

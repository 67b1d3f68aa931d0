# SPDX-License-Identifier: Apache-2.0
"""Columns of tests side by side (pytest -n 3): who runs which file, and what each column cost.

Tests that need Apache's servers stay together in one worker, so that each shared server starts once there; tests that need the shared
Spark session stay together in another. All other files go, one by one, to whichever worker is through with its own: both have work until
the end. docs/decisions/0011.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

APACHE: Final = "apache"
SPARK: Final = "spark"
PYTHON: Final = "python"


def column_of(nodeid: str) -> str:
    """Where a test, or a file of tests, belongs."""
    path = PurePosixPath(nodeid.partition("::")[0])
    if path.parts[:3] == ("tests", "system", "spark"):
        return SPARK
    if path.parts[:2] == ("tests", "interop"):
        return SPARK if path.name.startswith("test_spark_") else APACHE
    return PYTHON


class Columns(LoadScopeScheduling):  # type: ignore[misc] # pytest-xdist has no types
    """Hands out files. The columns ``spark`` and ``apache`` have one owner each: gw0, which keeps its priority (conftest.py), and the first
    other worker that has nothing else to do."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._owners: dict[str, WorkerController] = {}

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """Give the work of a worker that ended to the others, without the files that it has finished.

        xdist would hand those out again: no test of them is left, so no test ends that would make it hand out the next one, and the run
        waits for good.
        """
        files = self.assigned_work[node]
        for path in [path for path, tests in files.items() if all(tests.values())]:
            del files[path]
        crashed: str | None = super().remove_node(node)
        return crashed

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = self._next_for(node)
        if chosen is None:  # what is left belongs to the others
            node.shutdown()
            return
        if (column := column_of(chosen)) != PYTHON:
            self._owners[column] = node
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str | None:
        """Of the files that wait: its own column first, then a column that nobody has, then any of those that need nothing shared."""
        is_first = node.gateway.id == "gw0" or all(other.gateway.id != "gw0" for other in self.nodes)

        def rank(scope: str) -> int:
            column = column_of(scope)
            if column == PYTHON:
                return 2
            owner = self._owners.get(column)
            if owner is node:
                return 0
            may_own = owner not in self.assigned_work  # it may have crashed
            return 1 if may_own and (is_first or column != SPARK) else 3

        # A file that was begun by a worker that crashed comes to the end of the queue; the order does not matter.
        best = min(self.workqueue, key=lambda scope: (rank(scope), column_of(scope) != SPARK))
        return best if rank(best) < 3 else None


def column_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """How long each worker and each column took: from its first test to its last, and how much of that tests were running."""
    began: dict[str, float] = {}
    ended: dict[str, float] = defaultdict(float)
    busy: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in reports:
        for name in (f"worker {getattr(report, 'worker_id', 'main')}", column_of(report.nodeid)):
            began[name] = min(began.get(name, report.start), report.start)
            ended[name] = max(ended[name], report.stop)
            busy[name] += report.duration  # type: ignore[assignment]
            tests[name] += report.when == "call"
    return [
        f"{name:12} {tests[name]:5} tests, {busy[name]:6.0f} s in tests, {ended[name] - began[name]:6.0f} s from first to last"
        for name in sorted(began, key=lambda name: (not name.startswith("worker"), name))
    ]

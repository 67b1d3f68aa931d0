# SPDX-License-Identifier: Apache-2.0
"""Who runs which file of tests when workers share them (`columns.py`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from columns import Columns, column_of

APACHE = [f"tests/interop/test_{name}.py" for name in ("access", "mqadmin")]
SPARK = ["tests/interop/test_spark_read.py", "tests/system/spark/test_batch.py"]
PYTHON = [f"tests/unit/test_{number}.py" for number in range(6)]


class Worker:
    """What of an xdist worker the scheduler uses; `ran` are the files that it was given, in order."""

    def __init__(self, name: str, collection: list[str]) -> None:
        self.collection, self.ran, self.waiting = collection, [], []  # type: ignore[var-annotated]
        self.shutting_down = False
        self.gateway = SimpleNamespace(id=name)

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices
        for index in indices:
            if (path := self.collection[index].partition("::")[0]) not in self.ran:
                self.ran.append(path)

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(workers: int, files: list[str], late: int = 0) -> tuple[Columns, list[Worker]]:
    """``late``: how many of the first workers are the last to be ready."""
    tests = [f"{path}::test_{number}" for path in files for number in range(4)]
    config: Any = SimpleNamespace(
        getvalue=lambda name: ["popen"] * workers, option=SimpleNamespace(loadscopereorder=False)
    )
    columns = Columns(config)
    nodes = [Worker(f"gw{number}", tests) for number in range(workers)]
    for node in [*nodes[late:], *nodes[:late]]:
        add(columns, node)
    columns.schedule()
    return columns, nodes


def add(columns: Columns, node: Any) -> None:
    columns.add_node(node)
    columns.add_node_collection(node, node.collection)


def finish(columns: Columns, node: Any, tests: int = 10_000) -> None:
    while node.waiting and tests:
        columns.mark_test_complete(node, node.waiting.pop(0))
        tests -= 1


def test_each_test_has_a_column() -> None:
    assert [column_of(f"{path}::test_it[5.4.0]") for path in (*APACHE, *SPARK, *PYTHON[:1])] == [
        *["apache"] * 2,
        *["spark"] * 2,
        "python",
    ]


def test_the_servers_and_the_session_stay_in_one_worker_each_and_the_rest_goes_to_a_free_one() -> None:
    columns, (first, second) = scheduled(2, [*PYTHON, *APACHE, *SPARK])
    finish(columns, second)
    assert second.ran == [*APACHE, *PYTHON], "the first was slow: it keeps what is its own, and no more"
    finish(columns, first)
    assert first.ran == SPARK, "of the worker that keeps its priority (conftest.py)"
    assert columns.tests_finished
    assert first.shutting_down
    assert second.shutting_down


def test_spark_waits_for_the_worker_that_keeps_its_priority() -> None:
    columns, (first, second, third) = scheduled(3, [*SPARK, *APACHE, *PYTHON], late=1)
    assert first.ran[0] == SPARK[0]
    for node in (second, third, first):
        finish(columns, node)
    assert set(SPARK) <= set(first.ran)
    assert columns.tests_finished


def test_one_worker_runs_everything() -> None:
    columns, (only,) = scheduled(1, [*PYTHON, *SPARK, *APACHE])
    finish(columns, only)
    assert sorted(only.ran) == sorted([*PYTHON, *SPARK, *APACHE])
    assert columns.tests_finished


def test_a_worker_for_which_nothing_is_left_ends() -> None:
    columns, (first, second) = scheduled(2, SPARK)
    assert second.shutting_down
    finish(columns, first)
    assert first.ran == SPARK


def test_the_last_file_of_a_worker_that_crashed_after_many_others_is_run() -> None:
    many = [f"tests/unit/test_{number}.py" for number in range(40)]
    columns, (first, second) = scheduled(2, many)
    finish(columns, first, 130)
    finish(columns, second)
    while len(first.waiting) > 2:
        finish(columns, first, 1)
    assert columns.remove_node(first) is not None  # type: ignore[arg-type]
    third = Worker("gw2", first.collection)
    add(columns, third)
    columns.schedule()
    finish(columns, third)
    assert columns.tests_finished
    assert third.shutting_down


def test_a_new_worker_takes_over_the_column_of_one_that_crashed() -> None:
    columns, (first, second) = scheduled(2, [*APACHE, *SPARK])
    finish(columns, first, 1)
    crashed = columns.remove_node(first)  # type: ignore[arg-type]
    assert crashed == f"{SPARK[0]}::test_1"
    third = Worker("gw2", first.collection)
    add(columns, third)
    columns.schedule()
    finish(columns, second)
    finish(columns, third)
    assert set(SPARK) <= {*third.ran, *second.ran}
    assert columns.tests_finished

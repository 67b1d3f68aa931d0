# SPDX-License-Identifier: Apache-2.0
"""What the tests with sockets, processes and Spark share: they are slow, except a few files; and clients of theirs have threads, too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
# Of each part the files that `make test` runs as well (docs/decisions/0011); of Spark those marked `smoke`.
QUICK: Final = {
    HERE / path
    for path in (
        "broker/test_access.py",
        "cli/test_serve.py",
        "client/test_import_cost.py",
        "net/test_connection.py",
        "net/test_engine_and_clock.py",
        "net/test_fork.py",
    )
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.path not in QUICK and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def modules_are_loaded_before_threads_need_them(every_module_is_loaded: None) -> None:
    pass

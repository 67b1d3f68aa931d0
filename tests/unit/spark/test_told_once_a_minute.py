# SPDX-License-Identifier: Apache-2.0
"""What a driver or a worker may say again with each batch, task or start of a query is told to ``troubles``: a query that fails is started
again and again, and must not fill the log of its cause."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import sprocketmq.spark

# What is said once for each option, each loss or each process.
ONCE: Final = {
    "losses.py": 1,
    "observe/progress_listener.py": 1,
    "options/read_options.py": 1,
    "source.py": 1,
    "transactions/decision_topic.py": 1,
    "transactions/transactional_write.py": 1,
    "worker_python.py": 2,
}


def test_no_warning_is_logged_without_a_limit_of_its_own() -> None:
    folder = Path(sprocketmq.spark.__file__).parent
    found: dict[str, int] = {}
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("log.warning", "log.error", "log.exception"):
                name = file.relative_to(folder).as_posix()
                found[name] = found.get(name, 0) + 1
    assert found == ONCE

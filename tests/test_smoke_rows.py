# SPDX-License-Identifier: Apache-2.0
"""`make test` runs one quick test of each row of Spark's table, and the table says so (docs/decisions/0011)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/decisions/0011-quick-tests-and-all-tests.md"
MARK = re.compile(r"^@pytest\.mark\.smoke\((.*)\)$", re.MULTILINE)
TEST = re.compile(r"^def test_\w+\(([^)]*)\)", re.MULTILINE)


def test_each_row_has_a_quick_test_in_the_shared_session() -> None:
    rows = set(re.findall(r"^\| (P\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE))
    marked: set[str] = set()
    for path in (ROOT / "tests/system/spark").glob("test_*.py"):
        text = path.read_text("utf-8")
        for mark in MARK.finditer(text):
            marked |= set(re.findall(r"P\d+", mark[1]))
            test = TEST.search(text, mark.end())
            assert test is not None
            assert "spark: SparkSession" in test[1], f"{path.name}: {test[0]} has a session of its own"
    assert len(rows) == 14
    assert marked == rows

# SPDX-License-Identifier: Apache-2.0
"""docs/spark/kafka-cases.md: each case of Spark's Kafka connector has an answer, and each test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/spark/kafka-cases.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")


def cases() -> list[tuple[str, str]]:
    return [(case, here) for case, here in _ROW.findall(PAGE.read_text("utf-8")) if case not in ("case", "---")]


def test_each_case_is_there_once_and_has_a_test_or_a_reason() -> None:
    named = [case for case, _ in cases()]
    assert len(named) > 60
    assert len(set(named)) == len(named)
    for case, here in cases():
        assert _TEST.search(here) or len(here.split()) > 4, f"{case}: neither a test nor a reason"


def test_each_test_that_is_named_is_in_its_file() -> None:
    for case, here in cases():
        for name, link in _TEST.findall(here):
            path = (PAGE.parent / link).resolve()
            assert path.is_file(), f"{case}: {link} is not there"
            assert re.search(rf"^\s*(async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE), f"{case}: {name}"

# SPDX-License-Identifier: Apache-2.0
"""docs/spark/pitfalls.md: each pitfall has an answer and a test, and each test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/spark/pitfalls.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")
_HEADS = ("what Spark does", "what brokers do", "---")


def pitfalls() -> list[tuple[str, str, str]]:
    return [row for row in _ROW.findall(PAGE.read_text("utf-8")) if row[0] not in _HEADS]


def test_each_pitfall_is_there_once_with_an_answer_and_a_test() -> None:
    named = [pitfall for pitfall, _, _ in pitfalls()]
    assert len(named) >= 33
    assert len(set(named)) == len(named)
    assert len(named) == len(re.findall(r"^\| (?!what |---)", PAGE.read_text("utf-8"), re.MULTILINE)), (
        "a row of another form"
    )
    for pitfall, answer, held in pitfalls():
        assert len(answer.split()) > 2, f"{pitfall}: no answer"
        assert _TEST.search(held), f"{pitfall}: no test"


def test_each_test_that_is_named_is_in_its_file() -> None:
    for pitfall, _, held in pitfalls():
        for name, link in _TEST.findall(held):
            path = (PAGE.parent / link).resolve()
            assert path.is_file(), f"{pitfall}: {link} is not there"
            assert re.search(rf"^\s*(async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE), f"{pitfall}: {name}"

# SPDX-License-Identifier: Apache-2.0
"""What ``make mutants`` breaks is in the code, and the tests that have to notice are there: no mutant goes stale unseen."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from mutants.all_mutants import MUTANTS
from test_mechanisms import bare

ROOT = Path(__file__).parents[1]


@cache
def text(file: str) -> str:
    path = ROOT / file
    return path.read_text("utf-8") if path.is_file() else ""


def is_there(test: str) -> bool:
    """A function of a file of tests, or all of them."""
    file, *_, name = f"{bare(test)}(".split("::") if "::" in test else (test, "test_")
    return f"def {name}" in text(file)


def test_the_text_that_each_mutant_replaces_stands_once_in_its_file() -> None:
    stale = [(mutant.file, mutant.old) for mutant in MUTANTS if text(mutant.file).count(mutant.old) != 1]
    assert stale == [], (
        "tests/mutants breaks these lines on purpose: give the entry the line as it is now, or delete it with its mechanism"
    )


def test_each_mutant_changes_something_and_none_is_there_twice() -> None:
    assert [mutant.what for mutant in MUTANTS if mutant.new == mutant.old] == []
    changes = Counter((mutant.mechanism, mutant.file, mutant.old, mutant.new, mutant.test) for mutant in MUTANTS)
    assert [change for change, count in changes.items() if count > 1] == []


def test_the_tests_of_each_mutant_are_there() -> None:
    """Blanks divide them: a test whose id has blanks is read as several, of which all but one are not there."""
    assert [mutant.what for mutant in MUTANTS if not mutant.test.split()] == []
    missing = [(mutant.what, test) for mutant in MUTANTS for test in mutant.test.split() if not is_there(test)]
    assert missing == [], "tests/mutants names these tests: give it their new names"

# SPDX-License-Identifier: Apache-2.0
"""docs/internals/mechanisms.md says the truth: what it names is there, what it calls broken is, what it shows at Apache runs there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mechanisms.mechanism import ARTICLES, Mechanism
from mechanisms.page import MECHANISMS, TITLES
from mutants.all_mutants import MUTANTS

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "sprocketmq"


@cache
def names(path: Path) -> frozenset[str]:
    """Functions and methods of a test file."""
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def is_there(test: str, folder: Path) -> bool:
    path, _, name = test.partition("::")
    return (folder / path).is_file() and name in names(folder / path)


def is_defined(function: str, path: Path) -> bool:
    """``Class.method``, or a function of the module."""
    body: list[Any] = ast.parse(path.read_text("utf-8")).body
    *classes, name = function.split(".")
    for owner in classes:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner), [])
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in body)


def bare(test: str) -> str:
    return test.partition("[")[0]


def broken_on_purpose() -> list[Mechanism]:
    """Mechanisms of whose row some mutant breaks what one of their tests notices."""
    noticed = {(mutant.mechanism, bare(test)) for mutant in MUTANTS for test in mutant.test.split()}
    return [
        mechanism
        for mechanism in MECHANISMS
        if any((mechanism.row, f"tests/{test}") in noticed for test in mechanism.tests.split())
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.row}-{m.what[:40]}")
def test_what_a_line_names_is_there(mechanism: Mechanism) -> None:
    assert mechanism.passage.split(" ")[0] in ARTICLES
    assert mechanism.row in TITLES
    assert (SOURCE / mechanism.file).is_file()
    assert mechanism.tests, "a mechanism without a test is a wish"
    missing = [test for test in mechanism.tests.split() if not is_there(test, TESTS)]
    missing += [test for test in mechanism.apache.split() if not is_there(test, TESTS / "interop")]
    assert missing == [], "tests/mechanisms names these tests: give it their new names"


def test_each_row_is_there_in_order_and_no_line_twice() -> None:
    assert list(dict.fromkeys(mechanism.row for mechanism in MECHANISMS)) == list(TITLES)
    assert [what for what, count in Counter((m.row, m.what) for m in MECHANISMS).items() if count > 1] == []


def test_what_is_seen_at_apache_is_seen_at_both_generations() -> None:
    """An interop test gets its version from a fixture over all versions; one that names a version asks for less than the page says."""
    fixtures = (TESTS / "interop" / "conftest.py").read_text("utf-8")
    assert "@pytest.fixture(params=ALL_VERSIONS)\ndef apache(" in fixtures
    for file in {test.partition("::")[0] for mechanism in MECHANISMS for test in mechanism.apache.split()}:
        text = (TESTS / "interop" / file).read_text("utf-8")
        both = {"APACHE_4", "APACHE_5"} <= set(re.findall(r"\w+", text))
        assert both or re.search(r"\bVERSIONS\b|\bStartProgram\b|\bapache: ApacheCluster\b", text), (
            f"{file} runs against one version only"
        )


def test_each_mechanism_is_broken_by_a_mutant_or_decided_by_a_function_that_mutation_changes() -> None:
    broken = set(broken_on_purpose())
    assert [mechanism.what for mechanism in MECHANISMS if mechanism not in broken and not mechanism.function] == []
    for mechanism in MECHANISMS:
        if mechanism.function:
            package, _, module = mechanism.file.removesuffix(".py").partition("/")
            assert package in ("core", "wire"), f"{mechanism.what}: make mutation runs unit tests only"
            unit_tests = list((TESTS / "unit" / package).rglob(f"test_*{module.rpartition('/')[2]}*.py"))
            assert unit_tests, f"{mechanism.file}: make mutation finds no tests for it"
            assert is_defined(mechanism.function, SOURCE / mechanism.file), mechanism.function

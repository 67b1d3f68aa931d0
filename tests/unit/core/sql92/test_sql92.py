# SPDX-License-Identifier: Apache-2.0
"""SQL92 filters: the frozen answers of Apache's own evaluator, three-valued logic, limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.sql92 import MAX_DEPTH, MAX_LENGTH, MAX_WORDS, compile_sql92
from sprocketmq.core.sql92.compiler import _compile
from sprocketmq.core.sql92.parser import parse
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.records.properties import encode_properties

FROZEN: dict[str, Any] = json.loads((Path(__file__).parents[3] / "golden" / "sql92.json").read_text("utf-8"))


def answer(sql: str, properties: str, version: str) -> str:
    try:
        predicate = compile_sql92(sql, text_operators=version != "4.9.7")
    except ConfigurationError:
        return "R"
    return "T" if predicate(properties.encode()) else "F"


def value_of(sql: str, **properties: str) -> object:
    """What the expression is worth, null as None: the predicate itself does not tell null from false."""
    return _compile(parse(sql))(b"\x02" + encode_properties(properties))


def matches(sql: str, **properties: str) -> bool:
    return compile_sql92(sql)(encode_properties(properties))


@pytest.mark.parametrize("version", ["5.4.0", "4.9.7"])
def test_every_frozen_case_is_refused_matched_or_not_as_by_apache(version):
    answers = FROZEN["answers"][version]
    assert len(answers) == len(FROZEN["cases"]) > 2_000
    wrong = [
        (sql, properties, expected)
        for (sql, properties), expected in zip(FROZEN["cases"], answers, strict=True)
        if answer(sql, properties, version) != expected
    ]
    assert wrong == []


# a is 5, b is missing: conditions of each truth value, as texts
TRUTHS = {"a = 5": True, "a = 6": False, "b = 5": None}


@st.composite
def conditions(draw: st.DrawFn, depth: int = 4) -> tuple[str, bool | None]:
    """A condition with what Kleene's logic makes of it."""
    kind = draw(st.sampled_from(["leaf", "NOT", "AND", "OR"])) if depth else "leaf"
    if kind == "leaf":
        sql = draw(st.sampled_from(sorted(TRUTHS)))
        return sql, TRUTHS[sql]
    if kind == "NOT":
        sql, truth = draw(conditions(depth=depth - 1))
        return f"NOT ({sql})", None if truth is None else not truth
    parts = draw(st.lists(conditions(depth=depth - 1), min_size=2, max_size=4))
    truths = [truth for _, truth in parts]
    decided = kind == "OR"
    outcome = decided if decided in truths else None if None in truths else not decided
    return f" {kind} ".join(f"({sql})" for sql, _ in parts), outcome


@given(conditions())
def test_logic_has_three_values(case):
    sql, truth = case
    assert value_of(sql, a="5") is truth
    assert matches(sql, a="5") is (truth is True)


def test_a_value_that_cannot_be_converted_spoils_the_whole_expression():
    assert matches("b = 1 OR a > 5", a="x", b="1")  # decided before
    assert not matches("a > 5 OR b = 1", a="x", b="1")
    assert not matches("NOT (a > 5)", a="x")


def test_not_binds_tighter_than_comparison():
    assert value_of("NOT a = 5", a="5") is False  # (NOT a) = 5: TRUE against a number
    assert value_of("NOT (a = 5)", a="6") is True


def test_the_last_of_several_equal_names_counts_and_an_empty_value_does_not():
    assert compile_sql92("a = 2")(b"a\x011\x02a\x012\x02a\x01\x02")


def test_nesting_beyond_the_limit_is_refused_and_never_a_recursion_error():
    deepest = "NOT " * (MAX_DEPTH - 2) + "a"
    assert compile_sql92(deepest)(b"a\x01x\x02") in (True, False)
    for sql in (
        "NOT " + deepest,
        "- " * MAX_DEPTH + "1 = a",
        "a" + " = b" * MAX_DEPTH,
        "(NOT " * 600 + "a" + ")" * 600,
    ):
        with pytest.raises(ConfigurationError, match=f"nested deeper than {MAX_DEPTH} levels"):
            compile_sql92(sql)


def test_long_chains_and_many_brackets_are_not_deep():
    assert matches(" OR ".join(f"a = {number}" for number in range(500)), a="499")
    assert matches("(" * 900 + "a = 5" + ")" * 900, a="5")
    assert matches("a IN (" + ",".join(f"'{number}'" for number in range(2000)) + ")", a="1999")


def test_many_signs_before_a_number_take_no_longer_than_they_are_long():
    assert matches("a = " + "- " * 150 + "1", a="1")
    assert value_of("a = " + "- " * 151 + "1", a="1") is False


@pytest.mark.parametrize(
    "sql",
    [
        " OR ".join(["a = 1"] * 501),
        " OR ".join(["a CONTAINS 'x'"] * 100),
        " AND ".join(["a"] * 1001),
        "(" * 1001 + "a" + ")" * 1001,
        "'a' = 'b' OR " * 1001,
    ],
)
def test_an_expression_of_more_words_than_allowed_is_refused(sql):
    with pytest.raises(ConfigurationError, match=f"more than {MAX_WORDS} names, numbers, operators and brackets"):
        compile_sql92(sql)


def test_an_expression_beyond_the_length_limit_is_refused():
    with pytest.raises(ConfigurationError, match=f"at most {MAX_LENGTH} are allowed"):
        compile_sql92("a = 5" + " " * MAX_LENGTH)


def test_a_refusal_says_where_reading_stopped():
    with pytest.raises(ConfigurationError, match=r"'#\$' at position 4"):
        compile_sql92("a = #$")
    with pytest.raises(ConfigurationError, match="it ends at position 3"):
        compile_sql92("a =")
    with pytest.raises(ConfigurationError, match="write the smaller number first"):
        compile_sql92("a BETWEEN 5 AND 1")

# SPDX-License-Identifier: Apache-2.0
"""Made-up SQL92 expressions: a predicate that never raises, or a ConfigurationError. `make fuzz` runs these for longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.sql92 import compile_sql92
from sprocketmq.errors import ConfigurationError

WORDS = st.sampled_from(
    [
        "a", "b", "TAGS", "AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "CONTAINS", "STARTSWITH",
        "ENDSWITH", "TRUE", "FALSE", "(", ")", ",", "=", "<>", "!=", ">", ">=", "<",
        "<=", "+", "-", "*", "/", "1", "-1", "0", "1.5", "1e9", ".5", "5.",
        "9223372036854775807", "9223372036854775808", "0x1F", "07", "10L", "''", "'x'", "'it''s'", "'", "1'", '"x"', "--",
        "/*", "*/", "\n", "?", ";", "$", "%",
    ]
)  # fmt: skip
EXPRESSIONS = st.one_of(
    st.text(max_size=60), st.lists(WORDS, max_size=16).map(" ".join), st.lists(WORDS, max_size=8).map("".join)
)
OPERANDS = st.sampled_from(["a", "b", "1", "-1", "1.5", "'x'", "'1'", "9223372036854775807", "1e308", "TRUE", "NULL"])


@st.composite
def conditions(draw, depth=3):
    """Expressions of the right shape, of operands that may not fit each other."""
    kind = draw(st.integers(0, 8 if depth else 4))
    one, other = draw(OPERANDS), draw(OPERANDS)
    if kind == 0:
        return f"{one} {draw(st.sampled_from(['=', '<>', '>', '>=', '<', '<=']))} {other}"
    if kind == 1:
        return f"{one} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {other} AND {draw(OPERANDS)}"
    if kind == 2:
        return f"{one} {draw(st.sampled_from(['', 'NOT ']))}IN ('x', {other})"
    if kind == 3:
        return f"{one} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == 4:
        return f"{one} {draw(st.sampled_from(['CONTAINS', 'NOT STARTSWITH', 'ENDSWITH']))} {other}"
    if kind == 5:
        return f"NOT ({draw(conditions(depth - 1))})"
    return f"({draw(conditions(depth - 1))}) {'AND' if kind < 7 else 'OR'} {draw(conditions(depth - 1))}"


PROPERTIES = st.one_of(
    st.binary(max_size=40),
    st.dictionaries(
        st.sampled_from(["a", "b", "TAGS"]),
        st.sampled_from(
            ["x", "1", "-1", "1.5", "1e999", "NaN", "Infinity", "9" * 40, "true", " 1", "0x1p3", "1d", "\u0661", "🛫"]
        ),
    ).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()),
)


def check(text, raw, text_operators=True):
    try:
        predicate = compile_sql92(text, text_operators=text_operators)
    except ConfigurationError:
        return
    assert predicate(raw) in (True, False)


@given(EXPRESSIONS, PROPERTIES, st.booleans())
def test_any_text_is_an_expression_or_refused(text, raw, text_operators):
    check(text, raw, text_operators)


@given(conditions(), PROPERTIES)
def test_an_expression_of_any_types_decides_about_any_properties(text, raw):
    check(text, raw)

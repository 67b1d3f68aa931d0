# SPDX-License-Identifier: Apache-2.0
"""Cases for SQL92 filters: expressions by a seeded grammar, many of them damaged, each with properties that may or may not fit."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Final, NamedTuple


class Case(NamedTuple):
    """An expression and the raw text form of a message's properties."""

    sql: str
    properties: str

    def line(self) -> str:
        """The form that FilterOracle reads."""
        return " ".join(base64.b64encode(part.encode("utf-8")).decode() for part in self)


_NAMES: Final = ("a", "b", "c", "A", "_x", "$y", "TAGS", "contains", "nott")
_TEXTS: Final = (
    "",
    "a",
    "b",
    "ab",
    "abc",
    "it''s",
    "5",
    "5.0",
    "1e3",
    "-7",
    " 5",
    "true",
    "TRUE",
    "x y",
    "ä",
    "☃",
    "null",
)
_VALUES: Final = (
    "", "a", "b", "ab", "abc", "it's", "0", "5", "+5", "-5", "05", "5.0", "5.5", "-0.0", "0.0", "1e3", "1E400",
    "-1e-400", "5L", "5d", "5f ", " 5", "5 ",
    "0x10", "0x1.8p1", "0x1p", "٥", "５", "1_000", "NaN", "nan", "-NaN", "Infinity", "-Infinity", "inf", "2147483647",
    "2147483648", "-2147483648",
    "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "true", "TRUE", "True",
    "false", "x y", "ä", "☃", "null", "-", "+", ".",
    "5.", ".5", "1\x013",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "1", "5", "-5", "+5", "--5", "- -5", "5L", "5l", "0L", "007", "5.", ".5", "5.5", "0.0", "1e3", "1E+3",
    "1.5e-3", "1e400", "1e-400", "4.9E-324", "1e", "5e0",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "99999999999999999999999", "1000", "1000.0", "-0", "1.",
)  # fmt: skip
_SIGNS: Final = ("=", "<>", ">", ">=", "<", "<=", "= =", "==", "!=", "=>")
_DAMAGE: Final[tuple[str, ...]] = (
    *"()'=<>,+-*/;#\"\\.09aLeE_$ \n\t\x00ıK\u00a0",
    *(" NOT ", " AND ", " IS ", " NULL ", "--", "/*", "*/", "''", " IN ", "\r\n"),
)


def random_cases(seed: int, number: int) -> list[Case]:
    """The same cases for the same seed."""
    dice = random.Random(seed)
    return [_case(dice) for _ in range(number)]


def _case(dice: random.Random) -> Case:
    sql = _condition(dice, dice.randrange(1, 4))
    if dice.random() < 0.2:
        for _ in range(dice.randrange(1, 4)):
            sql = _damaged(dice, sql)
    return Case(sql, _properties(dice))


def _properties(dice: random.Random) -> str:
    pairs = [f"{dice.choice(_NAMES)}\x01{dice.choice(_VALUES)}" for _ in range(dice.randrange(0, 6))]
    if dice.random() < 0.05:
        pairs.append(dice.choice(("a", "\x01", "a\x01", "", "\x01a", "b\x01\x01")))
    dice.shuffle(pairs)
    return "".join(f"{pair}\x02" for pair in pairs)[: None if dice.random() < 0.9 else -1]


def _word(dice: random.Random, word: str) -> str:
    spelled = dice.choice((word, word.lower(), word.capitalize()))
    return f"{_blank(dice)}{spelled}{_blank(dice)}"


def _blank(dice: random.Random) -> str:
    return (
        " "
        if dice.random() < 0.93
        else dice.choice(("\t", "\n", "  ", "/* c */", "/**/", "-- c\n", "/* * / **/", "\f", ""))
    )


def _condition(dice: random.Random, depth: int) -> str:
    kind = dice.randrange(10) if depth > 0 else 5 + dice.randrange(5)
    if kind <= 2:
        word = _word(dice, dice.choice(("AND", "OR")))
        return word.join(_condition(dice, depth - 1) for _ in range(dice.randrange(2, 4)))
    if kind == 3:
        return f"{_word(dice, 'NOT')}{_maybe_inner(dice, _condition(dice, depth - 1), 0.8)}"
    if kind == 4:
        return f"({_condition(dice, depth - 1)})"
    return _test(dice, depth)


def _test(dice: random.Random, depth: int) -> str:
    left = _operand(dice, depth)
    negated = _word(dice, "NOT") if dice.random() < 0.3 else ""
    kind = dice.randrange(12)
    if kind <= 4:
        return f"{left} {dice.choice(_SIGNS[:6] if dice.random() < 0.97 else _SIGNS)} {_operand(dice, depth)}"
    if kind == 5:
        return f"{left}{_word(dice, 'IS')}{negated}{_word(dice, 'NULL')}"
    if kind <= 7:
        return f"{left}{negated}{_word(dice, 'BETWEEN')}{_operand(dice, 0)}{_word(dice, 'AND')}{_operand(dice, 0)}"
    if kind == 8:
        elements = ", ".join(_text(dice) if dice.random() < 0.97 else "5" for _ in range(dice.randrange(1, 8)))
        return f"{left}{negated}{_word(dice, 'IN')}({elements})"
    if kind <= 10:
        return f"{left}{negated}{_word(dice, dice.choice(('CONTAINS', 'STARTSWITH', 'ENDSWITH')))}{_text(dice)}"
    return dice.choice((left, "TRUE", "false", "NULL", left))


def _operand(dice: random.Random, depth: int) -> str:
    kind = dice.randrange(20)
    if kind <= 9:
        return dice.choice(_NAMES[:4] if dice.random() < 0.8 else _NAMES)
    if kind <= 14:
        return dice.choice(_NUMBERS)
    if kind <= 16:
        return _text(dice)
    if kind == 17:
        return dice.choice(("TRUE", "FALSE", "NULL", "true"))
    if kind == 18:
        return f"{dice.choice('+-')}{_operand(dice, depth)}"
    return f"({_condition(dice, depth - 1)})" if depth > 0 else f"({dice.choice(_NAMES)})"


def _text(dice: random.Random) -> str:
    return f"'{dice.choice(_TEXTS)}'"


def _maybe_inner(dice: random.Random, sql: str, chance: float) -> str:
    return f"({sql})" if dice.random() < chance else sql


def _damaged(dice: random.Random, sql: str) -> str:
    at = dice.randrange(len(sql) + 1)
    kind = dice.randrange(4)
    if kind == 0:
        return sql[:at] + dice.choice(_DAMAGE) + sql[at:]
    if kind == 1:
        return sql[:at] + sql[at + 1 :]
    if kind == 2:
        return sql[:at]
    return sql[:at] + dice.choice(_DAMAGE) + sql[at + 1 :]


def interesting() -> Iterator[Case]:
    """Cases somebody thought of: each value against each kind of constant, and the habits of the parser."""
    for value in _VALUES:
        properties = f"a\x01{value}\x02b\x015\x02"
        for test in (
            "a = 5", "a <> 5", "a > 5", "5 >= a", "a = 5000000000", "a < 5000000000", "a = 5.0", "a > 5.0",
            "5.5 >= a", "a = -5", "a < 1e3", "a = b", "a <= b",
            "a >= b", "a = 'a'", "a <> 'a'", "a = TRUE", "a = FALSE", "TRUE = a", "a", "NOT a", "a IS NULL",
            "a IS NOT NULL", "a IN ('a', '5')", "a NOT IN ('a')",
            "a BETWEEN 0 AND 10", "a NOT BETWEEN 0 AND 10", "a CONTAINS 'b'", "a NOT CONTAINS 'b'",
            "a STARTSWITH 'a'", "a ENDSWITH 'c'", "NOT (a CONTAINS '')",
            "a > 0 OR b = '5'", "b = '5' OR a > 0", "NOT (a > 0)", "-a = 5", "-a IS NULL", "a > b OR TRUE",
            "(a = 5) = TRUE", "(a = 5) = b", "a = (b = 5)",
        ):  # fmt: skip
            yield Case(test, properties)
    for sql in (
        "", " ", "a", "5", "'a'", "TRUE", "NULL", "NOT NULL", "a b", "a = 5 b", "a = 5 )", "(a = 5) )", "a = 5 ;",
        "a ; b", "(a b)", "a = 5 NOT", "a = 5 IS",
        "a = 5 AND", "a AND AND b", "a = 5 'x'", "a = 5 'x", "a = 5 -- x", "a = 5 -- x\n", "-- x\na = 5", "-- x",
        "/* x */ a = 5", "/* x", "a = 5 /* x", "a /**/ = /***/ 5",
        "a=5", "a=-5", "a=--5", "a=--5\n", "a>=5", "a> =5", "a<>5", "a< >5", "a==5", "a!=5", "NOT a = 5",
        "NOT(a = 5)", "NOT NOT a = 5", "a = NOT b", "+a = 5",
        "+a", "-a", "-5", "+5 = 5", "-5 = -5", "5 = 5", "5 = 5.0", "5L = 5", "1 < 2.5", "2.5 > 1", "5 = '5'",
        "'5' = 5", "'a' = 'a'", "'a' = 'b'", "'5' = '5.0'", "TRUE = TRUE",
        "TRUE = FALSE", "TRUE = 1", "1 = TRUE", "TRUE = 'true'", "'true' = TRUE", "'x' = FALSE", "'x' = TRUE",
        "NULL = NULL", "a = NULL", "NULL IS NULL", "5 IS NULL",
        "a > 'a'", "'a' < a", "a > TRUE", "a > NULL", "a > (b = 5)", "(a > 5) > 5", "a > 5 > 5", "a = 5 = TRUE",
        "a = 5 = b = 5", "a BETWEEN 5 AND 1",
        "a BETWEEN 1 AND 5", "a BETWEEN 5 AND 5", "a BETWEEN -1 AND -5", "a BETWEEN 1 AND 1.0",
        "a BETWEEN 1.5 AND 1", "a BETWEEN 'a' AND 'b'", "a BETWEEN NULL AND 5",
        "a BETWEEN TRUE AND FALSE", "a BETWEEN b AND 5", "5 BETWEEN a AND b", "5 BETWEEN 1 AND 10",
        "a NOT BETWEEN 5 AND 1", "a BETWEEN 1 AND 5 AND b = 5",
        "a BETWEEN 1 AND 5 OR b = 5", "a IN ()", "a IN ('a')", "a IN ('a',)", "a IN (a)", "a IN (5)", "5 IN ('5')",
        "'a' IN ('a')", "(a) IN ('5')", "-a IN ('5')", "(a = 5) IN ('a')",
        "a IN ('1','2','3','4','5')", "a NOT IN ('1','2','3','4','5')", "a IN ('it''s')", "a = 'it''s'", "a = ''''",
        "a = ''", "a = '", "a = '''", "a = 'x''", "a CONTAINS a",
        "a CONTAINS 5", "a CONTAINS ''", "a NOT CONTAINS ''", "5 CONTAINS '5'", "'abc' CONTAINS 'b'",
        "(a = 5) CONTAINS 't'", "(a > 'x') CONTAINS 't'", "missing CONTAINS 'x'",
        "missing NOT CONTAINS 'x'", "NOT (missing CONTAINS 'x')", "a CONTAINS '5' CONTAINS '5'",
        "a CONTAINS '5' = TRUE", "a NOT STARTSWITH '5'", "a NOT ENDSWITH '5'",
        "contains = 5", "contains CONTAINS '5'", "startswith", "missing = missing", "missing = a", "a = missing",
        "missing <> 5", "missing IS NULL",
        "missing IS NOT NULL", "missing > 5", "NOT missing", "missing AND FALSE", "missing OR TRUE",
        "missing AND TRUE", "NOT (missing AND TRUE)", "NOT (missing OR TRUE)",
        "NOT (missing AND FALSE)", "missing IS NULL AND a = 5", "(a > 5) IS NULL", "(missing > 5) IS NULL",
        "(missing > 5) = (missing > 6)", "a is null is null", "A = 5", "a.b = 5", "a-b = 5",
        "a = 5 and b = 5", "a = 5 And b = 5", "a = 5andb = 5", "a = 5 or(b = 5)", "between = 5", "5.", "a = 5.",
        "a = .5", "a = .", "a = 5.e0", "a = 5e0", "a = 5e", "a = 0x5", "a = 05",
        "a = 00", "a = 0", "a = 0.0", "a = -0.0", "a = 1e400", "a = 1e-400", "a = 1e-324", "a = 4.9e-324",
        "a = 9223372036854775807", "a = 9223372036854775808", "a = -9223372036854775808",
        "a = 5l", "a = 5LL", "a\t=\n5", "a\f= 5", "a\u00a0= 5", "a\x0b= 5", "ä = 5", "a = 'ä'", "a # 5", "a = 5 # b",
        "a ~ b", "[a] = 5", "\"a\" = 5", "a = \"5\"", "a * 5 = 25", "a + 5 = 10",
        "a LIKE '5'", "a = :x", "a = ?", "TRUE AND", "(", ")", "()", "((a = 5))", "((a = 5)", "(a = 5))", "a = (5)",
        "(a) = (5)", "a = +5", "a = + +5", "a = + (b)", "a = - (5)", "a = -(b = 5)",
        "+ (a = 5)", "- (a = 5)", "+ a b", "+ ;", "NOT ;", "a NOT ;", "a IS ;", "a IS NOT ;", "a IS NOT 5",
        "a NOT 5", "a NOT NULL", "a NOT IN", "a NOT NOT IN ('5')", "_ = 5", "$ = 5", "a$b_9 = 5",
        "9a = 5", "ı = 5", "ıs = 5", "a ıs null", "TAGS = 'x'", "a = 5 AND (b = 5 OR c = 5)",
        "a = 5 OR b = 6 AND c = 7", "(a = 5 OR b = 6) AND c = 7", "now = 5", "NOW() = 5",
    ):  # fmt: skip
        yield Case(sql, "a\x015\x02b\x015\x02contains\x015\x02")
    for raw in (
        "",
        "a\x015",
        "a\x01\x02",
        "a\x015\x02a\x016\x02",
        "a\x015\x02a\x01\x02",
        "\x01a\x015\x02",
        "aa\x015\x02",
        "a\x015\x01\x02",
        "x\x01a\x015\x02",
        "\x02a\x015\x02",
        "a\x015\x02\x02",
    ):
        yield from (Case("a = 5", raw), Case("a = '5'", raw), Case("a IS NULL", raw), Case("aa = 5", raw))

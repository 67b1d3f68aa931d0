# SPDX-License-Identifier: Apache-2.0
"""From a tree to a predicate: closures over the raw text form of the properties, which look up only what the expression names.

A closure answers with a value of Java's, None standing for null. What Java throws is a ValueError here, caught once on top: the message
does not match (Java: ExpressionMessageFilter.isMatchedByCommitLog). Conversions are chosen per expression, not per message.

    text against Integer, Long, Double      converted to that class as Java's valueOf does; failure throws
    text against text                       equal as text; ordered as two Doubles, failure throws
    text = Boolean                          'true' in any case is TRUE, all else FALSE
    Boolean = text                          throws (a ClassCastException in Java's own code); other mixtures are unequal
    Integer, Long, Double                   as numbers, Doubles ordered as by Double.compareTo: -0.0 < 0.0 < ... < NaN
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias

from sprocketmq.core.sql92.expression import (
    Compare,
    Constant,
    Equal,
    Expression,
    HasText,
    IsIn,
    IsTrue,
    Kind,
    Logic,
    Negate,
    Not,
    Predicate,
    Property,
    Value,
)

# Raw properties with \x02 in front, so that every name is found between \x02 and \x01.
_Evaluate: TypeAlias = Callable[[bytes], Any]
# Java's compareTo of two values that are not null: negative, zero, positive.
_Order: TypeAlias = Callable[[Any, Any], int]

_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_WHOLE: Final = re.compile(r"[+-]?\d+").fullmatch
_DOUBLE: Final = re.compile(
    r"([+-]?)(?:(NaN|Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)"
).fullmatch
_HEX_DOUBLE: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
).fullmatch
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
_LONGEST_WHOLE: Final = 64  # digits; longer ones are only zeros in front, and int() is slow with thousands of digits


def compile_expression(expression: Expression) -> Predicate:
    evaluate = _compile(expression)

    def matches(raw_properties: bytes) -> bool:
        try:
            return evaluate(b"\x02" + raw_properties) is True
        except ValueError:
            return False

    return matches


def _compile(expression: Expression) -> _Evaluate:
    match expression:
        case Constant(value) | Negate(value=value):
            return lambda raw: value
        case Property(name):
            return _property(name)
        case Not(operand):
            return _not(_compile(operand))
        case IsTrue(operand):
            read = _property(operand.name)
            return lambda raw: None if read(raw) is None else False
        case Logic(word, parts):
            return _logic([_compile(part) for part in parts], decided=word == "OR")
        case Equal(left, right):
            return _equal(left, right)
        case Compare(sign, left, right):
            return _compare(sign, left, right)
        case IsIn():
            return _is_in(expression)
        case HasText():
            return _has_text(expression)


def _property(name: str) -> Callable[[bytes], str | None]:
    needle = b"\x02" + name.encode() + b"\x01"
    size = len(needle)

    def read(raw: bytes) -> str | None:
        end = len(raw)
        while (at := raw.rfind(needle, 0, end)) >= 0:
            # The last occurrence counts; a pair with an empty value does not (Java: string2messageProperties).
            start = at + size
            stop = raw.find(b"\x02", start)
            value = raw[start:] if stop < 0 else raw[start:stop]
            if value:
                return value.decode("utf-8", "replace")
            end = at + 1
        return None

    return read


def _not(operand: _Evaluate) -> _Evaluate:
    def evaluate(raw: bytes) -> bool | None:
        value = operand(raw)
        return None if value is None else not value

    return evaluate


def _logic(parts: list[_Evaluate], *, decided: bool) -> _Evaluate:
    """OR is decided by the first True, AND by the first False; a null on the way makes null of what is not decided."""

    def evaluate(raw: bytes) -> bool | None:
        outcome: bool | None = not decided
        for part in parts:
            value: bool | None = part(raw)
            if value is decided:
                return decided
            if value is None:
                outcome = None
        return outcome

    return evaluate


def _equal(left: Expression, right: Expression) -> _Evaluate:
    read_left, read_right = _compile(left), _compile(right)
    if right.kind is Kind.NULL:  # IS NULL, or = -a
        return lambda raw: read_left(raw) is None
    if left.kind is Kind.STRING and isinstance(right, Constant) and right.kind is Kind.STRING:
        wanted = right.value

        def same_text(raw: bytes) -> bool | None:
            value = read_left(raw)
            return None if value is None else bool(value == wanted)

        return same_text
    order = _order(left.kind, right.kind)

    def evaluate(raw: bytes) -> bool | None:
        one, other = read_left(raw), read_right(raw)
        if one is None:
            return True if other is None else None
        return other is not None and order(one, other) == 0

    return evaluate


def _compare(sign: str, left: Expression, right: Expression) -> _Evaluate:
    read_left, read_right = _compile(left), _compile(right)
    holds = _SIGNS[sign]
    if left.kind is Kind.STRING and isinstance(right, Constant) and right.kind in (Kind.INT, Kind.LONG):
        return _compare_with_whole(read_left, holds, right)
    both_text = left.kind is Kind.STRING and right.kind is Kind.STRING
    order = _order_of_numeric_texts if both_text else _order(left.kind, right.kind)

    def evaluate(raw: bytes) -> bool | None:
        one = read_left(raw)
        if one is None:
            return None
        other = read_right(raw)
        return None if other is None else holds(order(one, other), 0)

    return evaluate


def _compare_with_whole(read: _Evaluate, holds: Callable[[Any, Any], bool], constant: Constant) -> _Evaluate:
    """A property compared with a whole number, the most common condition, with two calls less."""
    convert, limit = _int if constant.kind is Kind.INT else _long, constant.value

    def evaluate(raw: bytes) -> bool | None:
        value = read(raw)
        return None if value is None else holds(convert(value), limit)

    return evaluate


def _is_in(expression: IsIn) -> _Evaluate:
    read, values, negated = _property(expression.operand.name), expression.values, expression.negated

    def evaluate(raw: bytes) -> bool | None:
        value = read(raw)
        return None if value is None else bool(value in values) is not negated

    return evaluate


def _has_text(expression: HasText) -> _Evaluate:
    search, negated = expression.search, expression.negated
    if not search:
        return lambda raw: False
    read = _compile(expression.operand)
    test: Callable[[str, str], bool] = {
        "CONTAINS": str.__contains__,
        "STARTSWITH": str.startswith,
        "ENDSWITH": str.endswith,
    }[expression.word]

    def evaluate(raw: bytes) -> bool:
        value = read(raw)
        return isinstance(value, str) and test(value, search) is not negated

    return evaluate


# -- order, as ComparisonExpression.__compare -----------------------------------------------------------------------------------------


def _order(left: Kind, right: Kind) -> _Order:
    """How values of two kinds compare. A kind of null never meets a value, its order is never asked."""
    if left is right:
        return _order_of_doubles if left is Kind.DOUBLE else _natural
    if left is Kind.BOOLEAN:
        return _class_cast if right is Kind.STRING else _unequal
    if right is Kind.BOOLEAN:
        return (lambda one, other: _natural(one.lower() == "true", other)) if left is Kind.STRING else _unequal
    if left is Kind.STRING:
        read, order = _conversion(right)
        return lambda one, other: order(read(one), other)
    if right is Kind.STRING:
        read, order = _conversion(left)
        return lambda one, other: order(one, read(other))
    if Kind.DOUBLE in (left, right):
        return lambda one, other: _order_of_doubles(float(one), float(other))
    return _natural


def _conversion(number: Kind) -> tuple[Callable[[str], Value], _Order]:
    if number is Kind.INT:
        return _int, _natural
    if number is Kind.LONG:
        return _long, _natural
    return _double, _order_of_doubles


def _natural(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _unequal(one: object, other: object) -> int:
    return -1


def _class_cast(one: object, other: object) -> int:
    raise ValueError("a Boolean on the left of text")


def _order_of_numeric_texts(one: str, other: str) -> int:
    return _order_of_doubles(_double(one), _double(other))


def _order_of_doubles(one: float, other: float) -> int:
    if one < other:
        return -1
    if one > other:
        return 1
    if one == other:
        return _natural(math.copysign(1.0, one), math.copysign(1.0, other)) if one == 0.0 else 0
    return math.isnan(one) - math.isnan(other)


def _int(text: str) -> int:
    if len(text) < 10 and text.isascii() and text.isdigit():
        return int(text)
    return _whole(text, 31)


def _long(text: str) -> int:
    if len(text) < 19 and text.isascii() and text.isdigit():
        return int(text)
    return _whole(text, 63)


# A value may have 32 KiB, and as many conditions about it as an expression has words.
@lru_cache(maxsize=64)
def _whole(text: str, bits: int) -> int:
    """Java's Integer.valueOf and Long.valueOf: an optional sign and digits of any script, nothing else."""
    if _WHOLE(text) is None or (len(text) > 1 and ord(max(text)) > 0xFFFF):  # Java reads UTF-16 units
        raise ValueError(text)
    if len(text) > _LONGEST_WHOLE:
        text = text[0] + text[1:].lstrip("0") if text[0] in "+-" else "0" + text.lstrip("0")
        if len(text) > _LONGEST_WHOLE:
            raise ValueError(text)
    value = int(text)
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(text)
    return value


@lru_cache(maxsize=64)
def _double(text: str) -> float:
    """Java's Double.valueOf: decimal or hexadecimal, NaN, Infinity, an f or d behind, blanks around."""
    text = text.strip(_JAVA_BLANKS)
    found = _DOUBLE(text)
    if found is not None:
        sign, word, digits = found.groups()
        return float(sign + (word or digits))
    found = _HEX_DOUBLE(text)
    if found is None:
        raise ValueError(text)
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return math.copysign(math.inf, -1.0 if text.startswith("-") else 1.0)

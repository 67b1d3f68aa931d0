# SPDX-License-Identifier: Apache-2.0
"""The expression tree of a SQL92 filter, and what may stand beside what (Java: filter.expression). Values are those of Java: text (all
properties), Integer, Long, Double, Boolean and null, so the kind of a node is known before any message is seen.

Each factory refuses what Apache refuses while it parses. ``depth`` is at most MAX_DEPTH, so a tree may be walked by recursion; chains of
AND and of OR count once, however long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NoReturn, TypeAlias

from sprocketmq.errors import ConfigurationError

# Whether the raw text form of a message's properties is what was asked for; never raises.
Predicate = Callable[[bytes], bool]

# Apache has no limits but its stack and heap. The length bounds the time that one request may take of the loop, the depth the stack.
MAX_LENGTH = 16_384
MAX_DEPTH = 200
# Words cost more than characters, to compile, to store, and to evaluate for each message. An IN list is one look-up, so its texts and
# commas do not count: some 500 conditions, or lists as long as MAX_LENGTH lets them be. CONTAINS counts as twenty.
MAX_WORDS = 2_000

Value: TypeAlias = str | int | float | bool | None
Ordering: TypeAlias = Literal["<", "<=", ">", ">="]

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class Kind(Enum):
    """Java's class of a value."""

    STRING = "String"
    INT = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NULL = "null"


_NUMBERS: Final = (Kind.INT, Kind.LONG, Kind.DOUBLE)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. TRUE, FALSE and NULL count as conditions, too."""

    value: Value
    kind: Kind
    depth: int = 1

    @staticmethod
    def of_decimal(text: str) -> Constant:
        """``5`` is an Integer, ``5000000000`` a Long. A trailing L is accepted and has no effect."""
        digits = text.rstrip("lL")
        if len(digits) > 19 or int(digits) > _LONG_MAX:
            refuse(f"the number {digits[:20]} is too large, at most {_LONG_MAX} is allowed")
        value = int(digits)
        return Constant(value, Kind.INT if value <= _INT_MAX else Kind.LONG)

    @staticmethod
    def of_float(text: str) -> Constant:
        """A Double. Java compares with Double.MIN_VALUE, the smallest positive one, so that zero is refused."""
        value = float(text)
        if not 0.0 < value < float("inf"):
            refuse(f"the number {text} is out of range, 4.9E-324 to 1.7976931348623157E308 is allowed; write zero as 0")
        return Constant(value, Kind.DOUBLE)

    def __str__(self) -> str:
        return f"'{self.value}'" if self.kind is Kind.STRING else str(self.value).upper()


TRUE: Final = Constant(True, Kind.BOOLEAN)
FALSE: Final = Constant(False, Kind.BOOLEAN)
NULL: Final = Constant(None, Kind.NULL)


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message, always text; null when the message does not have it."""

    name: str
    depth: int = 1
    kind: Kind = Kind.STRING

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Negate:
    """``-x``: of a number; null of anything else, and so of every property."""

    operand: Expression
    depth: int
    kind: Kind
    value: Value  # of a constant at last: the operand is one, or another negation; else null

    @staticmethod
    def of(operand: Expression) -> Negate:
        # Computed once: computed again at each level, the work would double with each sign.
        depth = _above(operand)
        if isinstance(operand, Constant | Negate) and operand.kind in _NUMBERS:
            assert isinstance(operand.value, int | float)
            return Negate(operand, depth, operand.kind, -operand.value)
        return Negate(operand, depth, Kind.NULL, None)

    def __str__(self) -> str:
        return f"-{self.operand}"


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression
    depth: int
    kind: Kind = Kind.BOOLEAN

    @staticmethod
    def of(operand: Expression) -> Not:
        checked = condition(operand)
        return Not(checked, _above(checked))

    def __str__(self) -> str:
        return f"NOT {self.operand}"


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A property that stands as a condition. Text is never Boolean: false when the message has it, null when not."""

    operand: Property
    depth: int = 2
    kind: Kind = Kind.BOOLEAN

    def __str__(self) -> str:
        return str(self.operand)


@dataclass(frozen=True, slots=True)
class Logic:
    """AND or OR over two or more conditions, asked from left to right until one decides."""

    word: Literal["AND", "OR"]
    parts: tuple[Expression, ...]
    depth: int
    kind: Kind = Kind.BOOLEAN

    @staticmethod
    def of(word: Literal["AND", "OR"], *operands: Expression) -> Logic:
        parts: list[Expression] = []
        for operand in operands:
            checked = condition(operand)
            # Asking (a AND b) AND c in one row is the same, errors included, and a chain of thousands stays flat.
            parts += checked.parts if isinstance(checked, Logic) and checked.word == word else (checked,)
        return Logic(word, tuple(parts), _above(*parts))

    def __str__(self) -> str:
        return f" {self.word} ".join(f"({part})" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Equal:
    """``=``, which also serves ``<>`` and IS NULL. Null equals null; null on the left alone makes null, on the right alone false."""

    left: Expression
    right: Expression
    depth: int
    kind: Kind = Kind.BOOLEAN

    @staticmethod
    def of(left: Expression, right: Expression) -> Equal:
        for operand in (left, right):
            if isinstance(operand, Constant) and operand.value is None:
                refuse("NULL cannot be compared; use IS NULL or IS NOT NULL")
        if isinstance(left, Constant) and isinstance(right, Constant) and _is_condition(left) > _is_condition(right):
            refuse(f"{left} cannot be compared with {right}")
        return Equal(left, right, _above(left, right))

    @staticmethod
    def is_null(left: Expression) -> Equal:
        return Equal(left, NULL, _above(left))

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True, slots=True)
class Compare:
    """``<`` and its kin, for numbers and properties."""

    sign: Ordering
    left: Expression
    right: Expression
    depth: int
    kind: Kind = Kind.BOOLEAN

    @staticmethod
    def of(left: Expression, sign: Ordering, right: Expression) -> Compare:
        for operand in (left, right):
            if _is_condition(operand) or (isinstance(operand, Constant) and operand.kind not in _NUMBERS):
                refuse(f"{operand} cannot be compared with {sign}; only numbers and properties can")
        return Compare(sign, left, right, _above(left, right))

    @staticmethod
    def between(value: Expression, low: Expression, high: Expression) -> Logic:
        at_least, at_most = Compare.of(value, ">=", low), Compare.of(value, "<=", high)
        if isinstance(low, Constant) and isinstance(high, Constant):
            first, last = low.value, high.value
            assert isinstance(first, int | float)
            assert isinstance(last, int | float)
            if last < first:
                refuse(f"BETWEEN {first} AND {last} holds nothing; write the smaller number first")
        return Logic.of("AND", at_least, at_most)

    @staticmethod
    def not_between(value: Expression, low: Expression, high: Expression) -> Logic:
        return Logic.of("OR", Compare.of(value, "<", low), Compare.of(value, ">", high))

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, slots=True)
class IsIn:
    """``[NOT] IN ('a', 'b')``; null when the message does not have the property."""

    operand: Property
    values: frozenset[str]
    negated: bool
    depth: int = 2
    kind: Kind = Kind.BOOLEAN

    @staticmethod
    def of(operand: Expression, values: Sequence[str], negated: bool) -> IsIn:
        if not isinstance(operand, Property):
            refuse(f"{operand} stands before IN; only a property may")
        return IsIn(operand, frozenset(values), negated)

    def __str__(self) -> str:
        return f"{self.operand} {'NOT ' * self.negated}IN ..."


@dataclass(frozen=True, slots=True)
class HasText:
    """``[NOT] CONTAINS | STARTSWITH | ENDSWITH 'x'`` (5.x). Unlike all others false, not null, for a missing property, and for ''."""

    word: Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]
    operand: Expression
    search: str
    negated: bool
    depth: int
    kind: Kind = Kind.BOOLEAN

    @staticmethod
    def of(
        operand: Expression, word: Literal["CONTAINS", "STARTSWITH", "ENDSWITH"], search: str, negated: bool
    ) -> HasText:
        return HasText(word, operand, search, negated, _above(operand))

    def __str__(self) -> str:
        return f"{self.operand} {'NOT ' * self.negated}{self.word} '{self.search}'"


Expression: TypeAlias = Constant | Property | Negate | Not | IsTrue | Logic | Equal | Compare | IsIn | HasText


def condition(expression: Expression) -> Expression:
    """``expression`` where a condition must stand. Java: asBooleanExpression."""
    if _is_condition(expression):
        return expression
    if isinstance(expression, Property):
        return IsTrue(expression)
    return refuse(f"{expression} is not a condition; compare it with something, as in a > 5")


def refuse(sentence: str) -> NoReturn:
    raise ConfigurationError(f"the SQL92 expression is not allowed: {sentence}")


def _is_condition(expression: Expression) -> bool:
    if isinstance(expression, Constant):
        return expression.kind in (Kind.BOOLEAN, Kind.NULL)
    return not isinstance(expression, Property | Negate)


def _above(*operands: Expression) -> int:
    depth = 1 + max(operand.depth for operand in operands)
    if depth > MAX_DEPTH:
        refuse(f"it is nested deeper than {MAX_DEPTH} levels; write it flatter")
    return depth

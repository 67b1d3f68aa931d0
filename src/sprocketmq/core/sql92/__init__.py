# SPDX-License-Identifier: Apache-2.0
"""SQL92 filters over message properties: from text to a predicate. Java: SqlFilter, SelectorParser, filter.expression.

    "a > 5 AND b IS NOT NULL" --parser--> expression tree --compiler--> predicate over raw property bytes

Expressions are accepted, and find messages, as in Apache 5.x (tests have the frozen answers of its own evaluator), but where Java throws at
a value that cannot be converted, the expression does not match. A comparison with a missing property is neither true nor false. Length and
nesting have limits, and no recursion is as deep as the text. The grammar is read with the first expression."""

from __future__ import annotations

from sprocketmq.core.sql92.expression import MAX_DEPTH, MAX_LENGTH, MAX_WORDS, Predicate

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "MAX_WORDS", "Predicate", "compile_sql92"]


def compile_sql92(text: str, *, text_operators: bool = True) -> Predicate:
    """The predicate of an expression. ``text_operators``: whether CONTAINS, STARTSWITH and ENDSWITH are operators (5.x) or names of
    properties (4.9). Raises ConfigurationError (no expression, or longer or deeper than allowed)."""
    from sprocketmq.core.sql92.compiler import compile_expression
    from sprocketmq.core.sql92.parser import parse

    return compile_expression(parse(text, text_operators=text_operators))

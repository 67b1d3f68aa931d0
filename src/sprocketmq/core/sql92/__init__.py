# SPDX-License-Identifier: Apache-2.0
"""SQL92 filters over message properties: from text to a predicate. Java: SqlFilter, SelectorParser, filter.expression.

    "a > 5 AND b IS NOT NULL" --parser--> expression tree --compiler--> predicate over raw property bytes

The grammar reader is imported with the first expression: a broker without SQL92 consumers never pays for it.

Rules
    1. What Apache RocketMQ 5.x accepts is accepted, what it refuses is refused, and both find the same messages; the frozen answers of
       its own evaluator are in the tests.
    2. Logic has three values: a property that is missing makes a comparison neither true nor false, and only true finds a message.
    3. A value that cannot be converted to what it is compared with makes the whole expression not match, wherever it stands (Java throws).
    4. Any text gives a predicate or an error of one sentence: length and nesting have limits, and no recursion is as deep as the text.
"""

from __future__ import annotations

from sprocketmq.core.sql92.expression import MAX_DEPTH, MAX_LENGTH, MAX_WORDS, Predicate

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "MAX_WORDS", "Predicate", "compile_sql92"]


def compile_sql92(text: str, *, text_operators: bool = True) -> Predicate:
    """The predicate of an expression. ``text_operators``: whether CONTAINS, STARTSWITH and ENDSWITH are operators (5.x) or names of
    properties (4.9). Raises ConfigurationError (no expression, or longer or deeper than allowed)."""
    from sprocketmq.core.sql92.compiler import compile_expression
    from sprocketmq.core.sql92.parser import parse

    return compile_expression(parse(text, text_operators=text_operators))

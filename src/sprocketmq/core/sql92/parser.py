# SPDX-License-Identifier: Apache-2.0
"""From the text of a SQL92 filter to its tree. Java: SelectorParser.jj, with its peculiarities, as users have expressions that need them:

    NOT a = 1          is (NOT a) = 1: NOT and the signs bind tightest
    a = 1 anything     is a = 1: reading stops at the first word that cannot go on, if what stands before it is complete
    a = 1 ;            is refused: but that word must be one (the lexer is one word ahead)
    007                is three numbers, 5. and .5 and 1e5 are floats, 5L is 5
    -- and /* */       are comments, the first kind only when its line ends

One pattern, whose order gives the longest word, cuts the text; lark's LALR tables check the words one by one, so nothing recurses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import lark
from lark.exceptions import UnexpectedToken

from sprocketmq.core.sql92.expression import (
    FALSE,
    MAX_LENGTH,
    MAX_WORDS,
    NULL,
    TRUE,
    Compare,
    Constant,
    Equal,
    Expression,
    HasText,
    IsIn,
    Kind,
    Logic,
    Negate,
    Not,
    Property,
    condition,
    refuse,
)

_GRAMMAR: Final = """
?or_expression: and_expression | and_expression (OR and_expression)+ -> either
?and_expression: equality | equality (AND equality)+ -> both
?equality: comparison
    | equality EQUAL comparison       -> equal
    | equality NOT_EQUAL comparison   -> not_equal
    | equality IS NULL                -> is_null
    | equality IS NOT NULL            -> is_not_null
?comparison: unary
    | comparison (LESS | LESS_EQUAL | GREATER | GREATER_EQUAL) unary          -> compare
    | comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING                    -> has_text
    | comparison NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING                -> has_not_text
    | comparison BETWEEN unary AND unary                                      -> between
    | comparison NOT BETWEEN unary AND unary                                  -> not_between
    | comparison IN OPEN STRING (COMMA STRING)* CLOSE                         -> is_in
    | comparison NOT IN OPEN STRING (COMMA STRING)* CLOSE                     -> is_not_in
?unary: primary
    | PLUS unary    -> same
    | MINUS unary   -> negate
    | NOT unary     -> negation
?primary: STRING    -> string
    | DECIMAL       -> decimal
    | FLOAT         -> floating
    | TRUE          -> true
    | FALSE         -> false
    | NULL          -> null
    | ID            -> variable
    | OPEN or_expression CLOSE -> inner
%declare OR AND EQUAL NOT_EQUAL IS NULL NOT LESS LESS_EQUAL GREATER GREATER_EQUAL CONTAINS STARTSWITH ENDSWITH
%declare BETWEEN IN OPEN CLOSE COMMA PLUS MINUS STRING DECIMAL FLOAT TRUE FALSE ID
"""

_WORD: Final = re.compile(
    r"""(?P<SKIP>[ \t\n\r\f]+|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)
    |(?P<FLOAT>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<DECIMAL>0|[1-9][0-9]*[lL]?)
    |(?P<STRING>'(?:''|[^'])*')
    |(?P<ID>[a-zA-Z_$][a-zA-Z0-9_$]*)
    |(?P<NOT_EQUAL><>)|(?P<LESS_EQUAL><=)|(?P<GREATER_EQUAL>>=)|(?P<LESS><)|(?P<GREATER>>)|(?P<EQUAL>=)
    |(?P<OPEN>\()|(?P<CLOSE>\))|(?P<COMMA>,)|(?P<PLUS>\+)|(?P<MINUS>-)""",
    re.VERBOSE,
)
_LINE_END: Final = re.compile(r"[\n\r]")
_KEYWORDS: Final = frozenset(("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"))
# What a word costs. To look for a text in a value of 32 KiB takes twenty times as long as to look for a name.
_WORDS_OF: Final = {"STRING": 0, "COMMA": 0, "CONTAINS": 20}
_TEXT_OPERATORS: Final = frozenset(("CONTAINS", "STARTSWITH", "ENDSWITH"))


def parse(text: str, *, text_operators: bool = True) -> Expression:
    """The tree of a condition; arguments and errors as in :func:`sprocketmq.core.sql92.compile_sql92`."""
    if len(text) > MAX_LENGTH:
        refuse(
            f"it is {len(text)} characters long, at most {MAX_LENGTH} are allowed; subscribe to more and filter there"
        )
    state = _parser().parse_interactive()
    position = open_brackets = words = 0
    try:
        for token in _words(text, _KEYWORDS | _TEXT_OPERATORS if text_operators else _KEYWORDS):
            position = token.start_pos or 0
            words += _WORDS_OF.get(token.type, 1)
            if words > MAX_WORDS:
                refuse(
                    f"it has more than {MAX_WORDS} names, numbers, operators and brackets; "
                    "use fewer conditions, or IN with a list of values"
                )
            open_brackets += (token.type == "OPEN") - (token.type == "CLOSE")
            if open_brackets < 0:  # the tables would take it as a sign to finish what no bracket began
                break
            try:
                state.feed_token(token)
            except UnexpectedToken:
                break  # complete before this word, or not at all
        else:
            position = len(text)
        tree: Expression = state.feed_token(lark.Token("$END", ""))
    except UnexpectedToken:
        found = "it ends" if position >= len(text) else f"{text[position : position + 20]!r} stands"
        refuse(
            f"{found} at position {position}, where the expression cannot end or continue in this way; check its words and brackets"
        )
    return condition(tree)


def _words(text: str, keywords: frozenset[str]) -> Iterator[lark.Token]:
    at, end = 0, len(text)
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    while at < end:
        found = _WORD.match(text, at)
        if found is None:
            refuse(f"{text[at : at + 20]!r} at position {at} is not a word of the language")
        kind, word = str(found.lastgroup), found.group()
        if kind == "MINUS" and at < last_line_end and text.startswith("--", at):
            line_end = _LINE_END.search(text, at)
            assert line_end is not None
            at = line_end.end()
            continue
        if kind == "ID" and (upper := word.upper()) in keywords:
            kind = upper
        if kind != "SKIP":
            yield lark.Token(kind, word, start_pos=at)
        at = found.end()


@cache
def _parser() -> lark.Lark:
    class NoLexer(lark.lexer.Lexer):
        def __init__(self, lexer_conf: object) -> None:
            pass

        def lex(self, *_: object) -> Iterator[lark.Token]:
            return iter(())

    rules: Any = SimpleNamespace(**_RULES)  # lark asks for the attribute with the name of a rule
    return lark.Lark(
        _GRAMMAR, parser="lalr", lexer=NoLexer, transformer=rules, start="or_expression", maybe_placeholders=False
    )


def _text(word: str) -> str:
    return word[1:-1].replace("''", "'")


# What each rule makes of its parts, while the words come in.
_RULES: Final[dict[str, Callable[[list[Any]], Expression]]] = {
    "either": lambda parts: Logic.of("OR", *parts[::2]),
    "both": lambda parts: Logic.of("AND", *parts[::2]),
    "equal": lambda parts: Equal.of(parts[0], parts[2]),
    "not_equal": lambda parts: Not.of(Equal.of(parts[0], parts[2])),
    "is_null": lambda parts: Equal.is_null(parts[0]),
    "is_not_null": lambda parts: Not.of(Equal.is_null(parts[0])),
    "compare": lambda parts: Compare.of(parts[0], str(parts[1]), parts[2]),  # type: ignore[arg-type]
    "has_text": lambda parts: HasText.of(parts[0], parts[1].type, _text(parts[2]), False),
    "has_not_text": lambda parts: HasText.of(parts[0], parts[2].type, _text(parts[3]), True),
    "between": lambda parts: Compare.between(parts[0], parts[2], parts[4]),
    "not_between": lambda parts: Compare.not_between(parts[0], parts[3], parts[5]),
    "is_in": lambda parts: IsIn.of(parts[0], [_text(part) for part in parts[1:] if part.type == "STRING"], False),
    "is_not_in": lambda parts: IsIn.of(parts[0], [_text(part) for part in parts[1:] if part.type == "STRING"], True),
    "same": lambda parts: parts[1],
    "inner": lambda parts: parts[1],
    "negate": lambda parts: Negate.of(parts[1]),
    "negation": lambda parts: Not.of(parts[1]),
    "string": lambda parts: Constant(_text(parts[0]), Kind.STRING),
    "decimal": lambda parts: Constant.of_decimal(str(parts[0])),
    "floating": lambda parts: Constant.of_float(str(parts[0])),
    "true": lambda parts: TRUE,
    "false": lambda parts: FALSE,
    "null": lambda parts: NULL,
    "variable": lambda parts: Property(str(parts[0])),
}

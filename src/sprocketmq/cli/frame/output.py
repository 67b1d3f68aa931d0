# SPDX-License-Identifier: Apache-2.0
"""Printing results: a table, a wider table, or JSON.

Rules
    1. stdout has only the result, so that it can be piped. Everything else goes to stderr (``note``).
    2. ``--json`` prints one document: an object, or a list of objects. A command that streams prints one object for each line.
    3. JSON has exact numbers, times in milliseconds, and names without abbreviation. A value that is unknown or missing is ``null``; a
       table shows "unknown" or "none", never 0 or -1.
    4. A row is one line. Each cell is escaped, so that a name from the cluster cannot send control characters to the terminal.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from sprocketmq.cli.frame.command_line import options
from sprocketmq.cli.frame.values import permission_text, time_text
from sprocketmq.core.quantities import duration
from sprocketmq.logs import escaped

C = TypeVar("C", bound=Callable[..., Any])
Row = Mapping[str, Any]

UNKNOWN: Final = "unknown"


def note(text: str) -> None:
    print(escaped(text), file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a line of a record: heading, key of the value in a row (default: the heading), how a value or each
    element of a list becomes text (not asked for None), whether it is shown only with ``-o wide``, and the text for None."""

    title: str
    key: str = ""
    text: Callable[[Any], str] | None = None
    wide: bool = False
    none: str = UNKNOWN

    def cell(self, row: Row) -> str:
        return escaped(self._text(row.get(self.key or self.title)))

    def _text(self, value: Any) -> str:
        if value is None:
            return self.none
        if isinstance(value, list | tuple):
            return ", ".join(map(self._text, value))
        if self.text is not None:
            return self.text(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}"
        if isinstance(value, float):
            return f"{value:,.1f}"
        return str(value)

    def is_number(self, rows: Sequence[Row]) -> bool:
        values = [row.get(self.key or self.title) for row in rows]
        return any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def at(title: str, key: str, *, wide: bool = False, none: str = UNKNOWN) -> Column:
    return Column(title, key, time_text, wide, none)


def span(title: str, key: str, *, wide: bool = False) -> Column:
    return Column(title, key, duration, wide)


def perm(*, wide: bool = False) -> Column:
    return Column("perm", text=permission_text, wide=wide)


class Output:
    """Prints the result of a command. ``form`` is "table", "wide" or "json"."""

    def __init__(self, form: str) -> None:
        self.is_json = form == "json"
        self._is_wide = form == "wide"

    def rows(self, columns: Iterable[Column], rows: Sequence[Row], *, empty: str = "") -> None:
        """Print a list. ``empty`` is the message on stderr for an empty one, except with JSON."""
        if self.is_json:
            self._document([dict(row) for row in rows])
        elif rows:
            self.table(columns, rows)
        elif empty:
            note(empty)

    def record(
        self, lines: Iterable[Column], record: Row, tables: Iterable[tuple[str, Iterable[Column], str]] = ()
    ) -> None:
        """Print one object: each of ``lines`` as "title value", without empty strings, then ``tables`` (heading, columns and key of a
        list in ``record``). JSON has all of ``record``."""
        if self.is_json:
            self._document(dict(record))
            return
        shown = [
            line for line in lines if (self._is_wide or not line.wide) and record.get(line.key or line.title) != ""
        ]
        width = max((len(line.title) for line in shown), default=0)
        for line in shown:
            print(f"{line.title:<{width}}  {line.cell(record)}".rstrip())
        for heading, columns, key in tables:
            rows = record.get(key)
            if rows:
                print(f"\n{heading}")
                self.table(columns, rows)

    def line(self, row: Row, text: str) -> None:
        """Print one element of a stream (rule 2) and flush stdout. ``row`` is for JSON, ``text`` for people."""
        if self.is_json:
            self._document(dict(row), flush=True)
        else:
            print(text, flush=True)

    def done(self, sentence: str, **facts: Any) -> None:
        if self.is_json:
            self._document(facts)
        else:
            print(escaped(sentence))

    def table(self, columns: Iterable[Column], rows: Sequence[Row]) -> None:
        shown = [column for column in columns if self._is_wide or not column.wide]
        cells = [[column.title for column in shown], *([column.cell(row) for column in shown] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        numbers = [column.is_number(rows) and column.text is None for column in shown]
        for line in cells:
            padded = (
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, numbers, strict=True)
            )
            print("  ".join(padded).rstrip())

    @staticmethod
    def _document(value: Any, *, flush: bool = False) -> None:
        print(json.dumps(value), flush=flush)


_FORMS: Final = options(
    click.option("--json", "as_json", is_flag=True, help="Print JSON; the same as -o json."),
    click.option(
        "--output",
        "-o",
        "form",
        type=click.Choice(["table", "wide", "json"]),
        default="table",
        help="Format of the result; 'wide' is a table with more columns.",
    ),
)


def shows(command: C) -> C:

    @functools.wraps(command)
    def showing(*args: Any, as_json: bool, form: str, **named: Any) -> Any:
        return command(*args, output=Output("json" if as_json else form), **named)

    return _FORMS(showing)  # type: ignore[return-value]

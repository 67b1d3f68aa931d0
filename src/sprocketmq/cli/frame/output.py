"""What a command prints: a table, a wider table, or JSON.

Laws
    1. stdout has the result and nothing else. What is said beside it goes to stderr (``note``): so a result can be piped.
    2. ``--json`` prints one document: an object, or a list of objects. A command that streams prints one object for each line.
    3. JSON has whole numbers, milliseconds and whole names. ``null`` is what is not known, or not there; a table says "unknown" or "none",
       never 0 or -1.
    4. A row is one line, and what a cluster says steers no terminal: each cell is escaped.
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
from sprocketmq.core.replay.story_records import duration
from sprocketmq.logs import escaped

__all__ = ["UNKNOWN", "Column", "Output", "at", "note", "perm", "shows", "span"]

C = TypeVar("C", bound=Callable[..., Any])
Row = Mapping[str, Any]

UNKNOWN: Final = "unknown"


def note(text: str) -> None:
    """Say something beside the result (law 1)."""
    print(escaped(text), file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a line of one thing.

    Args:
        title: its heading.
        key: of the row; default the title.
        text: how a value is written, None and lists aside.
        wide: shown with ``-o wide`` only.
        none: what None means.
    """

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
        """To the right, as numbers are."""
        values = [row.get(self.key or self.title) for row in rows]
        return any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def at(title: str, key: str, *, wide: bool = False, none: str = UNKNOWN) -> Column:
    """A column of times."""
    return Column(title, key, time_text, wide, none)


def span(title: str, key: str, *, wide: bool = False, none: str = UNKNOWN) -> Column:
    """A column of durations."""
    return Column(title, key, duration, wide, none)


def perm(title: str = "perm", key: str = "perm", *, wide: bool = False) -> Column:
    """A column of permissions."""
    return Column(title, key, permission_text, wide)


class Output:
    """How one command prints. Args: ``form`` is "table", "wide" or "json"."""

    def __init__(self, form: str) -> None:
        self.is_json = form == "json"
        self._is_wide = form == "wide"

    def rows(self, columns: Iterable[Column], rows: Sequence[Row], *, empty: str = "") -> None:
        """A list of things. ``empty`` is what a person is told when there are none."""
        if self.is_json:
            self._document([dict(row) for row in rows])
        elif rows:
            self.table(columns, rows)
        elif empty:
            note(empty)

    def record(
        self, lines: Iterable[Column], record: Row, tables: Iterable[tuple[str, Iterable[Column], str]] = ()
    ) -> None:
        """One thing.

        Args:
            lines: shown as "name  value", those without a value left out.
            record: all of it.
            tables: heading, columns and key of each list in it.
        """
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
        """One of a stream (law 2), shown at once."""
        if self.is_json:
            self._document(dict(row), flush=True)
        else:
            print(text, flush=True)

    def done(self, sentence: str, **facts: Any) -> None:
        """What a change did."""
        if self.is_json:
            self._document(facts)
        else:
            print(escaped(sentence))

    def table(self, columns: Iterable[Column], rows: Sequence[Row]) -> None:
        """Columns of even width, numbers to the right: plain text, for eyes and for awk."""
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
    click.option("--json", "as_json", is_flag=True, help="JSON on stdout, for programs; the same as -o json."),
    click.option(
        "--output",
        "-o",
        "form",
        type=click.Choice(["table", "wide", "json"]),
        default="table",
        help="wide has more columns.",
    ),
)


def shows(command: C) -> C:
    """A command that prints something: gives it ``output``."""

    @functools.wraps(command)
    def showing(*args: Any, as_json: bool, form: str, **named: Any) -> Any:
        return command(*args, output=Output("json" if as_json else form), **named)

    return _FORMS(showing)  # type: ignore[return-value]

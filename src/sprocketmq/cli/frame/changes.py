"""What is asked before a change, and what is only said with ``--dry-run``.

Laws
    1. ``--dry-run`` says what would be done, with the same words and the same checks, and changes nothing.
    2. What deletes messages, or moves a group, is asked about on a terminal. Where nobody can be asked it needs ``--yes``, else it is a
       mistake of usage and nothing is changed.
    3. A change that was done is said on stdout.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from sprocketmq.cli.frame.command_line import options
from sprocketmq.cli.frame.output import Output, note
from sprocketmq.logs import escaped

__all__ = ["Change", "changes", "deletes"]

C = TypeVar("C", bound=Callable[..., Any])

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
_YES: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


class Change:
    """One change of one command.

    Args:
        asks: whether it is asked about (law 2).
    """

    def __init__(self, output: Output, *, dry_run: bool, yes: bool, asks: bool) -> None:
        self._output = output
        self._dry_run, self._yes, self._asks = dry_run, yes, asks

    def begins(self, what: str, *, warning: str = "", **facts: Any) -> bool:
        """Whether to go on. ``what`` is a sentence's end: "delete topic 'orders' with 12 messages".

        Raises:
            click.UsageError: it has to be asked about, and nobody can be asked.
            SystemExit: it was asked about, and declined.
        """
        if warning:
            note(f"sprocketmq: {warning}")
        if self._dry_run:
            self._output.done(f"would {what}", dry_run=True, **facts)
            return False
        if self._asks and not self._yes:
            if not sys.stdin.isatty():
                raise click.UsageError(
                    f"to {escaped(what)} needs --yes where nobody can be asked; --dry-run says what it would do"
                )
            if not click.confirm(f"{escaped(what)}?", err=True):
                note("sprocketmq: nothing was changed")
                sys.exit(1)
        return True

    def done(self, sentence: str, **facts: Any) -> None:
        """Law 3."""
        self._output.done(sentence, **facts)


def _with_change(command: C, *, asks: bool) -> C:
    @functools.wraps(command)
    def changing(*args: Any, dry_run: bool, output: Output, yes: bool = False, **named: Any) -> Any:
        change = Change(output, dry_run=dry_run, yes=yes, asks=asks)
        return command(*args, change=change, output=output, **named)

    return options(_YES, _DRY_RUN)(changing) if asks else _DRY_RUN(changing)  # type: ignore[return-value]


def changes(command: C) -> C:
    """A command that changes something and takes nothing away; below ``shows``. Gives it ``change``."""
    return _with_change(command, asks=False)


def deletes(command: C) -> C:
    """A command that deletes, or moves a group; below ``shows``. Gives it ``change``."""
    return _with_change(command, asks=True)

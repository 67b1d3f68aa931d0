# SPDX-License-Identifier: Apache-2.0
"""What a verb of a cluster is given, by one decorator each; write it directly above the function.

reads     ``target`` and ``output``
changes   ``target`` and ``change``: the command changes something without deleting anything
deletes   the same: it deletes or hides something, or moves a group
on_brokers   ``where``: the options --cluster and --broker as arguments of Admin's methods

Rules
    1. ``--dry-run`` makes the same checks as the change, prints what would be done, and changes nothing.
    2. A command that deletes asks for confirmation on a terminal. If stdin is no terminal, it needs ``--yes``; without it the command ends
       with exit code 2 and nothing is changed.
    3. A change that was made is printed on stdout.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, TypedDict, TypeVar

import click

from sprocketmq.cli.frame.command_line import options
from sprocketmq.cli.frame.output import Output, note, shows
from sprocketmq.cli.frame.target import connects
from sprocketmq.logs import escaped

C = TypeVar("C", bound=Callable[..., Any])

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
_YES: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
_WHERE: Final = options(
    click.option("--cluster", metavar="NAME", help="Only on the brokers of this cluster."),
    click.option("--broker", metavar="NAME", help="Only on this broker; default: on all brokers."),
)


class Change:
    """One change of one command. ``needs_yes``: whether it must be confirmed (rule 2)."""

    def __init__(self, output: Output, *, dry_run: bool, yes: bool, needs_yes: bool) -> None:
        self.output = output
        self._dry_run, self._yes, self._needs_yes = dry_run, yes, needs_yes

    def confirm(self, what: str, *, warning: str = "", ask: bool = True, **facts: Any) -> bool:
        """Whether to make the change ``what`` (completes "would ..."): False with ``--dry-run``. ``warning`` is printed first. ``ask``:
        False if it hides and deletes nothing. ``facts`` are printed with ``--dry-run --json``. Raises click.UsageError (rule 2),
        SystemExit (the user declined)."""
        if warning:
            note(f"sprocketmq: {warning}")
        if self._dry_run:
            self.output.done(f"would {what}", dry_run=True, **facts)
            return False
        if ask and self._needs_yes and not self._yes:
            if not sys.stdin.isatty():
                raise click.UsageError(
                    f"nothing was changed, because stdin is no terminal and --yes is not given; this would {escaped(what)}"
                )
            if not click.confirm(f"{escaped(what)}?", err=True):
                note("sprocketmq: nothing was changed")
                sys.exit(1)
        return True

    def done(self, sentence: str, **facts: Any) -> None:
        self.output.done(sentence, **facts)


class Where(TypedDict):
    cluster: str | None
    broker: str | None


def reads(command: C) -> C:
    return shows(connects(command))


def changes(command: C) -> C:
    return _with_change(command, needs_yes=False)


def deletes(command: C) -> C:
    return _with_change(command, needs_yes=True)


def _with_change(command: C, *, needs_yes: bool) -> C:
    connected = connects(command)

    @functools.wraps(connected)
    def changing(*args: Any, dry_run: bool, output: Output, yes: bool = False, **named: Any) -> Any:
        return connected(*args, change=Change(output, dry_run=dry_run, yes=yes, needs_yes=needs_yes), **named)

    return shows(options(*[_YES] * needs_yes, _DRY_RUN)(changing))  # type: ignore[return-value]


def on_brokers(command: C) -> C:
    @functools.wraps(command)
    def placed(*args: Any, cluster: str | None, broker: str | None, **named: Any) -> Any:
        return command(*args, where=Where(cluster=cluster, broker=broker), **named)

    return _WHERE(placed)  # type: ignore[return-value]


def place(where: Where, otherwise: str = "each broker") -> str:
    return where["broker"] or where["cluster"] or otherwise

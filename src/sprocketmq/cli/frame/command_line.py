# SPDX-License-Identifier: Apache-2.0
"""Finding commands by the table of ``main``: section -> name -> module, whose attribute of the same name is the command. A command imports
its own module and no other command's, and no module of commands imports a client, a broker or Spark at its top, so that ``--help`` and
completion are quick. ``sprocketmq --help`` imports all of them, for their first lines."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

_PACKAGE: Final = "sprocketmq.cli"
_NEAR: Final = 0.6
# What kubectl, docker, rpk, nats and kafka-topics call a verb: ours, where the noun has it.
_VERBS: Final = {
    "ls": ("list",),
    "describe": ("show",),
    "info": ("show",),
    "get": ("show",),
    "status": ("show", "list"),
    "rm": ("delete",),
    "remove": ("delete",),
    "add": ("create",),
    "new": ("create",),
    "update": ("alter",),
    "edit": ("alter",),
    "set": ("alter",),
    "lag": ("show",),
    "retry": ("replay",),
    "resend": ("replay",),
}


def options(*chosen: Callable[[Any], Any]) -> Callable[[C], C]:
    """Several options as one decorator, in the order in which the help page shows them."""

    def decorate(command: C) -> C:
        for option in reversed(chosen):
            command = option(command)
        return command

    return decorate


class CommandGroup(click.Group):
    """A noun, such as ``topic``, whose verbs are commands. Groups within it are of this class, too."""

    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}.{_did_you_mean(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


class SectionedGroup(CommandGroup):
    """Commands in sections, in the order of the table.

    Args:
        sections: heading -> name of the command -> its module, below ``sprocketmq.cli``.
        elsewhere: what other tools call a command -> the words of ours, or a sentence that ends with a full stop.
        old_names: former names, which still work but are not shown -> words of the new name.
        before: options of the commands that may also stand before their names -> whether a value follows.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, str]],
        elsewhere: Mapping[str, str],
        old_names: Mapping[str, tuple[str, ...]],
        before: Mapping[str, bool],
        **named: Any,
    ) -> None:
        super().__init__(*args, **named)
        self._sections, self._elsewhere, self._old_names, self._before = sections, elsewhere, old_names, before
        self._modules = {name: module for section in sections.values() for name, module in section.items()}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``sprocketmq -n ADDR lag GROUP`` is ``sprocketmq lag GROUP -n ADDR``."""
        rest, moved = list(args), []
        while rest and (takes_value := self._before.get(rest[0].partition("=")[0])) is not None:
            count = 2 if takes_value and "=" not in rest[0] else 1
            moved += rest[:count]
            del rest[:count]
        if rest and moved:
            end = rest.index("--") if "--" in rest else len(rest)
            args = [*rest[:end], *moved, *rest[end:]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        loaded = importlib.import_module(f"{_PACKAGE}.{module}")
        command: click.Command = getattr(loaded, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        new, meant = self._old_names.get(args[0]), self._elsewhere.get(args[0])
        if meant is not None and not ctx.resilient_parsing:
            todo = meant if meant.endswith(".") else f"It is 'sprocketmq {meant}'."
            raise click.UsageError(f"No such command {args[0]!r}. {todo}", ctx)
        return super().resolve_command(ctx, args if new is None else [*new, *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._modules))
        limit = formatter.width - 6 - width
        for heading, section in self._sections.items():
            rows = []
            for name in section:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name, command.get_short_help_str(limit)))
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=width)


def _did_you_mean(name: str, known: list[str]) -> str:
    near = [verb for verb in _VERBS.get(name, ()) if verb in known][:1]
    near = near or difflib.get_close_matches(name, known, cutoff=_NEAR)
    if not near and known:
        near = [one for one in known if one.startswith(name[:3]) or name in one]
    return f" Did you mean {', '.join(near)}?" if near else f" There are: {', '.join(known)}."

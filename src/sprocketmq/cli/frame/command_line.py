"""How commands are found: modules that are imported when one of their commands is named, and "did you mean" for what is none.

    table of main.py: section -> name -> module          the command is the attribute of the module with the name of the command

Laws
    1. A command that is run imports its own module and no other command's; ``--help`` of the whole imports all, for their first lines.
    2. No module of commands imports a client, a broker or Spark at its top: so law 1 makes ``--help`` and completion quick.
    3. An unknown name ends with the nearest known ones, as click does for options.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

__all__ = ["CommandGroup", "SectionedGroup", "options"]

C = TypeVar("C", bound=Callable[..., Any])

_PACKAGE: Final = "sprocketmq.cli"
_NEAR: Final = 0.6


def options(*chosen: Callable[[Any], Any]) -> Callable[[C], C]:
    """Several options as one decorator, in the order in which the help page shows them."""

    def decorate(command: C) -> C:
        for option in reversed(chosen):
            command = option(command)
        return command

    return decorate


class CommandGroup(click.Group):
    """A noun: its verbs are commands. The groups in it are of this class, too."""

    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Law 3."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}.{_did_you_mean(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


class SectionedGroup(CommandGroup):
    """The commands of a table by sections, which its help page shows in the table's order.

    Args:
        sections: heading -> name of the command -> its module, below ``sprocketmq.cli``.
        old_names: names that commands had before, still understood and no longer shown: old name -> words of the new one.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, str]],
        old_names: Mapping[str, tuple[str, ...]] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*args, **named)
        self._sections = sections
        self._old_names = dict(old_names or {})
        self._modules = {name: module for section in sections.values() for name, module in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Law 1."""
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        loaded = importlib.import_module(f"{_PACKAGE}.{module}")
        command: click.Command = getattr(loaded, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        new = self._old_names.get(args[0])
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
    near = difflib.get_close_matches(name, known, cutoff=_NEAR)
    if not near and known:
        near = [one for one in known if one.startswith(name[:3]) or name in one]
    return f" Did you mean {', '.join(near)}?" if near else f" There are: {', '.join(known)}."

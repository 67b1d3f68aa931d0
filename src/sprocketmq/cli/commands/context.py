# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq context``: saved clusters."""

from __future__ import annotations

from typing import Any, Final

import click

from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.cli.frame.contexts import Context, Contexts
from sprocketmq.cli.frame.output import Column, Output, shows
from sprocketmq.core.resource_names import control_character_problem
from sprocketmq.errors import ConfigurationError


@click.group(cls=CommandGroup)
def context() -> None:
    """Save clusters under names, for --context NAME.

    A context holds the path of the file with the secret key, never the key itself.
    """


@context.command("list")
@shows
def list_contexts(output: Output) -> None:
    """List all contexts.

    The current one is used if a command names no cluster.
    """
    contexts = Contexts.load()
    rows = [_row(contexts, name) for name in sorted(contexts.by_name)]
    output.rows(
        _COLUMNS, rows, empty=f"no contexts in {contexts.path}; sprocketmq context add NAME -n HOST:PORT makes one"
    )


def _row(contexts: Contexts, name: str) -> dict[str, Any]:
    found = contexts.by_name[name]
    return {
        "context": name,
        "current": name == contexts.current,
        "namesrv_addr": found.namesrv_addr,
        "access_key": found.access_key,
        "secret_key_file": found.secret_key_file,
        "tls": found.tls or found.tls_ca is not None,
        "tls_ca": found.tls_ca,
    }


_COLUMNS: Final = (
    Column("context"),
    Column("current"),
    Column("name servers", "namesrv_addr"),
    Column("access key", "access_key", none=""),
    Column("tls"),
    Column("secret key file", "secret_key_file", wide=True, none=""),
    Column("authorities", "tls_ca", wide=True, none=""),
)


@context.command("add")
@click.argument("name")
@click.option("--namesrv-addr", "-n", metavar="HOST:PORT", required=True, help="Name servers, separated by ';'.")
@click.option("--access-key", metavar="KEY", help="Access key.")
@click.option(
    "--secret-key-file",
    metavar="FILE",
    type=click.Path(resolve_path=True),
    help="A file with the secret key, or with both keys.",
)
@click.option("--tls", is_flag=True, help="Use TLS, and trust this machine's certificate authorities.")
@click.option(
    "--tls-ca",
    metavar="FILE",
    type=click.Path(resolve_path=True),
    help="Use TLS, and trust the certificate authorities in this file.",
)
@click.option(
    "--use", is_flag=True, help="Make it the current context. The first context always becomes the current one."
)
@shows
def add_context(output: Output, name: str, use: bool, **settings: Any) -> None:
    """Save a cluster under a name, or replace a saved one."""
    if not name.strip() or control_character_problem("the name", name) is not None:
        raise ConfigurationError(f"the name of the context is {name!r}; text without control characters is allowed")
    contexts = Contexts.load()
    contexts.by_name[name] = Context(**settings)
    if use or contexts.current is None:
        contexts.current = name
    contexts.save()
    now = ", the current one" if contexts.current == name else ""
    output.done(f"context {name} is {settings['namesrv_addr']}{now}", **_row(contexts, name))


@context.command("use")
@click.argument("name")
@shows
def use_context(output: Output, name: str) -> None:
    """Make a context the current one."""
    contexts = Contexts.load()
    found = contexts.get(name)
    contexts.current = name
    contexts.save()
    output.done(f"context {name} is the current one: {found.namesrv_addr}", **_row(contexts, name))


@context.command("delete")
@click.argument("name")
@shows
def delete_context(output: Output, name: str) -> None:
    """Delete a context."""
    contexts = Contexts.load()
    contexts.get(name)
    del contexts.by_name[name]
    if contexts.current == name:
        contexts.current = None
    contexts.save()
    output.done(f"deleted context {name}", context=name)

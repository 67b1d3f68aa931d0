# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq cluster``: several masters on this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.cli.frame.contexts import Context, Contexts
from sprocketmq.cli.frame.output import Column, Output, shows
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.user_paths import user_path

if TYPE_CHECKING:
    from sprocketmq.cli.serve.local_cluster import LocalCluster, Member

_CONTEXT: Final = "local"
_COLUMNS: Final = (Column("server"), Column("address"), Column("pid", text=str), Column("running"))

_data_dir = click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Stores, logs and process ids; default: cluster, in the system's folder for the data of sprocketmq.",
)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Run several masters on this machine.

    To try out what happens when one goes.
    """


@cluster.command("up")
@click.option(
    "-n",
    "count",
    metavar="N",
    type=click.IntRange(1, 7),
    default=3,
    show_default=True,
    help="Number of masters, each with a name server.",
)
@click.option(
    "--apache", metavar="VERSION", help="Apache RocketMQ's servers, such as 5.5.0, from ROCKETMQ_HOME; needs Java."
)
@click.option(
    "--first-port",
    metavar="PORT",
    type=click.IntRange(1024, 65_000),
    default=19_800,
    show_default=True,
    help="The console's; name servers take the next ones, brokers each tenth.",
)
@click.option(
    "--console/--no-console",
    "with_console",
    default=None,
    help="Also serve the web console; default: if its extra is installed.",
)
@click.option("--allow-changes", is_flag=True, help="Let the console send, replay, create, and reset or switch groups.")
@_data_dir
@shows
def up(
    output: Output,
    count: int,
    apache: str | None,
    first_port: int,
    with_console: bool | None,
    allow_changes: bool,
    data_dir: Path | None,
) -> None:
    """Start the cluster, or its servers that do not run.

    Saves it as the context 'local', for --context local, and makes it the current one if there is none.
    The servers run in the background until 'sprocketmq cluster down'.

    \b
    sprocketmq cluster up -n 3
    sprocketmq cluster down broker-b --kill
    sprocketmq cluster up
    """
    found = _cluster(data_dir)
    given = click.get_current_context().get_parameter_source("count") is not click.core.ParameterSource.DEFAULT
    if found.exists and ((given and count != found.count) or (apache and apache != found.apache)):
        kind = f"Apache RocketMQ {found.apache}" if found.apache else "SprocketMQ"
        raise ConfigurationError(
            f"the cluster in {found.data_dir} has {found.count} masters of {kind}; 'sprocketmq cluster down --delete' first, "
            "or another --data-dir"
        )
    if with_console is None:
        with_console = all(
            importlib.util.find_spec(name) for name in ("jinja2", "python_multipart", "starlette", "uvicorn")
        )
    wanted = 2 * found.count + with_console
    if found.exists and len(found.running()) >= wanted:
        raise ConfigurationError(
            f"the cluster in {found.data_dir} is running already; 'sprocketmq cluster status' shows it, 'sprocketmq cluster down' stops it"
        )
    if not found.exists:
        found.create(count, first_port, apache)
    found.start(with_console=with_console, allow_changes=allow_changes)
    _save_context(found)
    _show(found, output)
    if not output.is_json:
        current = Contexts.load().current
        meant = (
            "other commands mean this cluster until it is down"
            if current == _CONTEXT
            else f"other commands mean {current!r}"
        )
        print(f"\ndata and logs are in {found.data_dir}\nnext: sprocketmq broker list --context {_CONTEXT} ({meant})")


@cluster.command("status")
@_data_dir
@shows
def status(output: Output, data_dir: Path | None) -> None:
    """Show the servers, and whether they run. Exit code 1 if one does not."""
    found = _existing(data_dir)
    _show(found, output)
    if len(found.running()) < len(found.members):
        sys.exit(1)


@cluster.command("down")
@click.argument("servers", nargs=-1)
@click.option("--kill", is_flag=True, help="Without a farewell, as in a crash.")
@click.option("--delete", is_flag=True, help="Also delete all messages and logs.")
@_data_dir
@shows
def down(output: Output, servers: tuple[str, ...], kill: bool, delete: bool, data_dir: Path | None) -> None:
    """Stop the cluster, or SERVERS of it, such as broker-b.

    Messages stay for the next 'sprocketmq cluster up', unless --delete is given.
    """
    found = _existing(data_dir)
    names = [member.name for member in found.members]
    for server in servers:
        if server not in names:
            raise ConfigurationError(f"there is no server {server!r}; there are: {', '.join(sorted(names))}")
    if servers and delete:
        raise ConfigurationError(
            "--delete is given with SERVERS; it deletes the whole cluster, and is allowed without them"
        )
    stopped = [member for member in found.running() if not servers or member.name in servers]
    found.stop(stopped, kill=kill)
    if not servers:
        _forget_context(found)
    if delete:
        found.delete()
    names = [member.name for member in stopped]
    kept = f"{found.data_dir} is deleted" if delete else f"messages stay in {found.data_dir}"
    output.done(
        f"{'killed' if kill else 'stopped'} {', '.join(names) or 'nothing, because nothing ran'}; {kept}", stopped=names
    )


def _cluster(data_dir: Path | None) -> LocalCluster:
    from sprocketmq.cli.serve.local_cluster import LocalCluster

    if sys.platform == "win32":
        raise RocketMQError(
            "sprocketmq cluster needs signals that Windows does not have; use 'sprocketmq serve', or WSL"
        )
    if data_dir is None:
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        data_dir = (
            user_path("~/Library/Application Support" if sys.platform == "darwin" else data) / "sprocketmq/cluster"
        )
    return LocalCluster(user_path(data_dir).absolute())


def _existing(data_dir: Path | None) -> LocalCluster:
    found = _cluster(data_dir)
    if not found.exists:
        raise ConfigurationError(f"there is no cluster in {found.data_dir}; 'sprocketmq cluster up' starts one")
    return found


def _show(found: LocalCluster, output: Output) -> None:
    def row(member: Member) -> dict[str, object]:
        return {"server": member.name, "address": member.address, "pid": member.pid, "running": member.is_running}

    output.rows(_COLUMNS, [row(member) for member in sorted(found.members, key=lambda one: one.name)])


def _save_context(found: LocalCluster) -> None:
    contexts = Contexts.load()
    contexts.by_name[_CONTEXT] = Context(found.namesrv_addr)
    contexts.current = contexts.current or _CONTEXT
    contexts.save()


def _forget_context(found: LocalCluster) -> None:
    """Unless it is another cluster by now."""
    contexts = Contexts.load()
    if contexts.by_name.get(_CONTEXT) == Context(found.namesrv_addr):
        del contexts.by_name[_CONTEXT]
        contexts.current = None if contexts.current == _CONTEXT else contexts.current
        contexts.save()

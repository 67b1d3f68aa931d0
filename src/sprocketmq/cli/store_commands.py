# SPDX-License-Identifier: Apache-2.0
"""The commands ``store check``, ``store inspect`` and ``replay``, for files on this machine, with their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from sprocketmq.cli.frame.command_line import CommandGroup


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--message", metavar="ID|KEY", help="Show what happened to a message, by its id or one of its keys.")
@click.option("--queue", metavar="TOPIC@BROKER:ID", help="Show what happened in a queue.")
@click.option(
    "--from",
    "begin",
    metavar="TIME",
    help="Begin at this time: HH:MM:SS, YYYY-MM-DDTHH:MM:SS, or milliseconds since 1970.",
)
@click.option("--to", "end", metavar="TIME", help="End at this time, in the same forms.")
@click.option("--why", is_flag=True, help="Add the reason of each decision.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay(file: Path, **question: Any) -> None:
    """Replay the decision record of a consumer.

    Repeats each recorded decision with this version, compares the results, and shows what happened. Without options it prints a summary.
    Exit code 1 if a decision differs from the record, or if nothing was found.
    """
    from sprocketmq.cli.replay import replay_record

    sys.exit(replay_record(file, **question))


@click.group(cls=CommandGroup)
def store() -> None:
    """Check or inspect a store directory."""


@store.command("check")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def store_check(directory: Path, as_json: bool) -> None:
    """Check that the files of a store are consistent.

    Checks log, queues, index, checkpoint and offsets, and changes nothing. Stop the broker first. Exit code 1 if there is a problem.
    """
    from sprocketmq.cli.store_check import check_store

    sys.exit(check_store(directory, as_json))


@store.command("inspect")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--offset", type=int, help="Show the record at this commit log offset.")
@click.option("--topic", help="Show a queue of this topic, or with --key its messages with that key.")
@click.option("--queue", type=click.IntRange(0), help="Queue id; default: 0.")
@click.option(
    "--from", "begin", type=click.IntRange(0), help="First queue offset to show; default: show the last entries."
)
@click.option("--count", type=click.IntRange(1, 100_000), default=10, show_default=True, help="Maximum number to show.")
@click.option("--key", help="Show the newest messages with this key or message id.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def store_inspect(directory: Path, **options: Any) -> None:
    """Show records, queues or keys of a store.

    Without options, it lists all queues with their offsets. It changes nothing, and a broker may have the store open. Exit code 1 if
    nothing was found.
    """
    from sprocketmq.cli.store_inspect import inspect_store

    sys.exit(inspect_store(directory, **options))

"""Files on this machine: the options of ``store check``, ``store inspect`` and ``replay``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from sprocketmq.cli.frame.command_line import CommandGroup

__all__ = ["replay", "store"]


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--message", metavar="ID|KEY", help="The story of a message, by its id or one of its keys.")
@click.option("--queue", metavar="TOPIC@BROKER:ID", help="The story of a queue.")
@click.option("--from", "begin", metavar="TIME", help="HH:MM:SS, YYYY-MM-DDTHH:MM:SS, or milliseconds since 1970.")
@click.option("--to", "end", metavar="TIME", help="Likewise.")
@click.option("--why", is_flag=True, help="Also say why.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def replay(file: Path, **question: Any) -> None:
    """Run a consumer's record again, and show its story.

    Without options: a summary. Exit code 1 if this version decides otherwise than the record, or nothing is found.
    """
    from sprocketmq.cli.replay import replay_record

    sys.exit(replay_record(file, **question))


@click.group(cls=CommandGroup)
def store() -> None:
    """Look into a store directory."""


@store.command("check")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def store_check(directory: Path, as_json: bool) -> None:
    """Check that the files of a store fit each other.

    Log, queues, index, checkpoint and offsets. Changes nothing; exit code 1 if a law is broken.
    """
    from sprocketmq.cli.store_check import check_store

    sys.exit(check_store(directory, as_json))


@store.command("inspect")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--offset", type=int, help="Show the record at this commit log offset.")
@click.option("--topic", help="Show a queue of this topic, or, with --key, its messages with a key.")
@click.option("--queue", type=click.IntRange(0), help="Queue id, 0 by default.")
@click.option("--from", "begin", type=click.IntRange(0), help="First queue offset to show; default: the last ones.")
@click.option("--count", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many to show.")
@click.option("--key", help="Show the newest messages with this key or unique key.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list instead of text.")
def store_inspect(directory: Path, **options: Any) -> None:
    """Show records, queues or keys of a store.

    Also while a broker runs on it. Without options: all queues with their offsets. Changes nothing; exit code 1 if nothing is found.
    """
    from sprocketmq.cli.store_inspect import inspect_store

    sys.exit(inspect_store(directory, **options))

# SPDX-License-Identifier: Apache-2.0
"""The commands for files on this machine: ``store check``, ``store inspect``, ``replay``."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.core.quantities import counted
from sprocketmq.errors import ConfigurationError
from sprocketmq.logs import escaped
from sprocketmq.user_paths import user_path

_TIMES: Final = ("born_timestamp_ms", "store_timestamp_ms")


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
    from sprocketmq.store.tools.check import check_directory
    from sprocketmq.store.tools.check_report import Problem, StoreSummary

    summary = StoreSummary()
    found: list[Problem] = []
    for problem in check_directory(user_path(directory), summary=summary):
        found.append(problem)
        if not as_json:
            print(escaped(f"{'note: ' if problem.note else ''}{problem}"), flush=True)
    broken = sum(not problem.note for problem in found)
    if as_json:
        answer = {
            "directory": str(directory),
            "sound": not broken,
            "problems": [dataclasses.asdict(problem) for problem in found],
            **dataclasses.asdict(summary),
        }
        print(json.dumps(answer))
    else:
        parts = (
            f"{counted(summary.record_count, 'record')} in {counted(summary.record_bytes, 'byte')}",
            f"{counted(summary.entry_count, 'entry', 'entries')} in {counted(summary.queue_count, 'queue')}",
            f"{counted(summary.key_count, 'key')} in {counted(summary.index_file_count, 'index file')}",
            counted(summary.offset_count, "offset"),
        )
        print(f"{directory}: {counted(broken, 'problem') if broken else 'sound'}; {', '.join(parts)}")
    sys.exit(1 if broken else 0)


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
def store_inspect(
    directory: Path,
    offset: int | None,
    topic: str | None,
    queue: int | None,
    begin: int | None,
    count: int,
    key: str | None,
    as_json: bool,
) -> None:
    """Show records, queues or keys of a store.

    Without options, it lists all queues with their offsets. It changes nothing, and a broker may have the store open. Exit code 1 if
    nothing was found.
    """
    from sprocketmq.store.tools.inspect import StoreInspector

    if key is not None and topic is None:
        raise ConfigurationError("--key needs --topic: keys are kept by topic")
    if (queue is not None or begin is not None) and topic is None:
        raise ConfigurationError("--queue and --from need --topic")
    inspector = StoreInspector(user_path(directory))
    try:
        if offset is not None:
            answers = [inspector.record(offset)]
        elif key is not None and topic is not None:
            answers = inspector.by_key(topic, key, count)
        elif topic is not None:
            answers = inspector.queue(topic, queue or 0, begin, count)
        else:
            answers = inspector.overview()
    finally:
        inspector.close()
    if as_json:
        print(json.dumps(answers))
    elif offset is not None or key is not None:
        print("\n\n".join(_block(answer) for answer in answers) if answers else "nothing found")
    else:
        for answer in answers:
            print(escaped(_line(answer)))
    sys.exit(0 if answers else 1)


def _line(answer: dict[str, Any]) -> str:
    if "max_offset" in answer:
        return f"{answer['topic']}/{answer['queue_id']}  {answer['min_offset']}..{answer['max_offset']}"
    text = f"{answer['queue_offset']:>8}  at {answer['physical_offset']:>12}  {answer['size']:>7} bytes  "
    record = answer["record"]
    if isinstance(record, str):
        return text + record
    tags = record["properties"].get("TAGS", "-")
    return text + f"{_time(record['store_timestamp_ms'])}  {tags}  {record['properties'].get('UNIQ_KEY', '-')}"


def _block(record: dict[str, Any]) -> str:
    lines = []
    for name, value in record.items():
        if name == "properties":
            lines += [escaped(f"{'property ' + key:28} {text}") for key, text in value.items()]
        else:
            lines.append(escaped(f"{name:28} {_time(value) + f'  ({value})' if name in _TIMES else value}"))
    return "\n".join(lines)


def _time(time_ms: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return "no time"

# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq store inspect DIR``: shows a record, a queue, or the records with a key. A broker may have the store open."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from sprocketmq.errors import ConfigurationError
from sprocketmq.logs import escaped
from sprocketmq.store.tools.inspect import StoreInspector
from sprocketmq.user_paths import user_path

_TIMES = ("born_timestamp_ms", "store_timestamp_ms")


def inspect_store(
    directory: Path,
    *,
    offset: int | None,
    topic: str | None,
    queue: int | None,
    begin: int | None,
    key: str | None,
    count: int,
    as_json: bool,
) -> int:
    """Print the record at ``offset``, the records with ``key``, the queue of ``topic``, or all queues. Returns 1 if nothing was found."""
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
    return 0 if answers else 1


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

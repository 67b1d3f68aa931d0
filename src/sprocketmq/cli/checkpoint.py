# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq spark-checkpoint``: shows and changes the checkpoint of a stopped stream, queue by queue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sprocketmq.cli.frame.target import Target
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.checkpoint_files import SourceLine, StreamCheckpoint
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.access import Access
from sprocketmq.spark.read.queue_bounds import queue_bounds
from sprocketmq.wire.records.message import MessageQueue

_PARTS: Final = 3
_PATIENCE_MS: Final = 5_000


def show(location: str, *, as_json: bool) -> None:
    checkpoint = StreamCheckpoint(location)
    sources = [_source(line) for line in checkpoint.sources()]
    if as_json:
        planned = {"query": checkpoint.query, "planned": checkpoint.planned, "done": checkpoint.done}
        print(json.dumps({**planned, "sources": sources}))
        return
    print(f"query {checkpoint.query}: batch {checkpoint.planned} is planned, batch {checkpoint.done} is done")
    for source in sources:
        begins = f", begins at {source['initial']}" if source["initial"] else ""
        print(f"source {source['source']}{begins}")
        for queue, at in source["queues"].items():
            print(f"  {queue}  {at}")


def _source(line: SourceLine) -> dict[str, Any]:
    offset = line.offset
    queues = {str(queue): offset.queues[queue] for queue in sorted(offset.queues)}
    return {"source": line.name, "initial": offset.initial, "queues": queues}


def move(
    location: str,
    queue: str,
    to: str,
    *,
    forward: bool,
    source: str | None = None,
    group: str | None = None,
    target: Target,
) -> None:
    """``queue``: ``topic/broker/number``; ``to``: a number, "earliest" or "latest". ``forward``: whether it must be larger."""
    checkpoint = _stopped(location, group, target)
    wanted = _queue(queue)
    line = checkpoint.source(source)
    at = line.offset.queues.get(wanted)
    if at is None:
        raise ConfigurationError(f"{queue} is not in the checkpoint; it holds {', '.join(_source(line)['queues'])}")
    offset = _offset(to, wanted, target)
    if offset == at or (offset > at) is not forward:
        word, other = ("skip", "rewind") if forward else ("rewind", "skip")
        raise ConfigurationError(
            f"{queue} is at {at}, so it cannot {word} to {offset}; give another offset, or use {other}"
        )
    checkpoint.edit(line, lambda offsets: {**offsets, wanted: offset})
    effect = f"{offset - at} messages are skipped" if forward else f"{at - offset} messages are read again"
    print(f"{queue}: {at} -> {offset}, {effect}; the original file is in {checkpoint.path}/sprocketmq-before")


def drop(
    location: str,
    queues: Sequence[str],
    *,
    broker: str | None = None,
    topic: str | None = None,
    source: str | None = None,
    group: str | None = None,
    target: Target,
) -> None:
    checkpoint = _stopped(location, group, target)
    line = checkpoint.source(source)
    held = line.offset.queues
    named = set(map(_queue, queues))
    if broker or topic:
        named |= {queue for queue in held if broker in (None, queue.broker_name) and topic in (None, queue.topic)}
    missing = sorted(named.difference(held))
    if missing or not named:
        what = f"{missing[0]} is not in the checkpoint" if missing else "no queue of the checkpoint is named"
        raise ConfigurationError(f"{what}; it holds {', '.join(_source(line)['queues'])}")
    checkpoint.edit(line, lambda offsets: {queue: at for queue, at in offsets.items() if queue not in named})
    for queue in sorted(named):
        print(f"{queue}: dropped at {held[queue]}")
    print(f"the original file is in {checkpoint.path}/sprocketmq-before")


def finish(location: str, how: str, *, group: str | None = None, target: Target) -> None:
    checkpoint = _stopped(location, group, target)
    number = checkpoint.planned
    if number == checkpoint.done:
        print(f"batch {number} is done, nothing is unfinished")
        return
    checkpoint.finish("done" if how == "done" else "plan-anew")
    if how == "done":
        print(f"batch {number} counts as done")
    else:
        print(f"batch {number} has no rows now; batch {number + 1} will be planned when the query starts")


def _stopped(location: str, group: str | None, target: Target) -> StreamCheckpoint:
    checkpoint = StreamCheckpoint(location)
    if group is not None:
        with target.admin() as admin:
            online = admin.consumer_ids(group)  # raises GroupNotExist for a misspelt group, which would never be online
        if online:
            raise ConfigurationError(
                f"a query of group {group} is running, its member {online[0]} is online; stop it first"
            )
    return checkpoint


def _cluster(target: Target) -> Cluster:
    access = Access(
        target.access_key or "",
        target.secret_key or "",
        tls=target.tls or target.tls_ca is not None,
        tls_trust_cert_path=target.tls_ca or "",
        secret_key_file=target.secret_key_file or "",
    )
    return Cluster.at(target.namesrv_addr, _PATIENCE_MS, access)


def _queue(text: str) -> MessageQueue:
    parts = text.split("/")
    if len(parts) != _PARTS or not parts[2].isdigit():
        raise ConfigurationError(f"the queue is {text!r}, topic/broker/number is allowed, such as flights/broker-a/0")
    return MessageQueue(parts[0], parts[1], int(parts[2]))


def _offset(text: str, queue: MessageQueue, target: Target) -> int:
    if text.isdigit():
        return int(text)
    if text not in ("earliest", "latest"):
        raise ConfigurationError(f"the offset is {text!r}, a whole number, earliest or latest is allowed")
    held = queue_bounds(_cluster(target), [queue]).get(queue)
    if held is None:
        raise ConfigurationError(f"{queue} does not exist, so its {text} offset is not known; give a number")
    return held.min if text == "earliest" else held.max

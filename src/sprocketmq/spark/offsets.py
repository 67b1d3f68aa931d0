# SPDX-License-Identifier: Apache-2.0
"""The offset of a stream, as Spark writes it to the offset log of the checkpoint. No I/O.

    {"v":1,"init":"latest"}                                                      before the first batch
    {"v":1,"q":{topic:{broker:{queue:next}}},"origin":{topic:{broker:{queue:from}}},"lost":...,"tasks":4,
     "group":"delays","retries":true}                                            after it

Spark calls ``initialOffset()`` again at every restart until batch 0 is committed, and does not store the result. A source that returned
"the latest offset right now" would lose what arrived between two attempts. But Spark writes the *end* of a batch to the offset log
before the batch runs. So ``initialOffset()`` returns a constant symbol, and the end of the first batch says in ``origin`` where the
batch began.

1. The start of a queue in the batch (start, end] is ``end.origin[queue]`` (a queue that is new, or read again from another place),
   otherwise ``start.queues[queue]``. A batch whose start equals its end is empty.
2. Equal offsets have equal JSON text: Spark compares the text to find out whether there is new data.
3. A batch that runs again is divided into the same tasks: ``tasks`` and ``ordered`` are written before it runs, so each row comes from the
   same task again (``row_ids``). Older checkpoints lack both.

``lost`` (``losses``) is for people and progress events; reads do not use it. ``late`` says where queues begin whose brokers were away
when the query began (``new_queue_start``). ``group`` and ``retries`` are the options group and includeRetry that the source had when the
batch was planned (``query_sources``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, losses_from_json, losses_to_json
from sprocketmq.spark.new_queue_start import NewQueueStart
from sprocketmq.wire.records.message import MessageQueue

VERSION: Final = 1
_SHOWN: Final = 200

Offsets = Mapping[MessageQueue, int]


@dataclass(frozen=True, order=True)
class QueueRange:
    """Messages ``start`` (inclusive) to ``end`` (exclusive) of one queue, by queue offset."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def count(self) -> int:
        """The largest possible number of messages: a filter may return fewer."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue}[{self.start}, {self.end})"


@dataclass(frozen=True)
class StreamOffset:
    """One offset. ``initial``: the symbolic start (None after the first batch). ``queues``: the next offset to read of each queue."""

    queues: Offsets = field(default_factory=dict)
    origin: Offsets = field(default_factory=dict)
    initial: str | None = None
    lost: tuple[Loss, ...] = ()
    tasks: int | None = None
    ordered: bool = False
    new_queue_start: NewQueueStart | None = None
    group: str | None = None
    includes_retry: bool | None = None  # None: written by an older version

    def to_json(self) -> dict[str, Any]:
        if self.initial is not None:
            return {"v": VERSION, "init": self.initial}
        document: dict[str, Any] = {"v": VERSION, "q": queues_to_json(self.queues)}
        if self.origin:
            document["origin"] = queues_to_json(self.origin)
        if self.lost:
            document["lost"] = losses_to_json(self.lost)
        if self.tasks is not None:
            document["tasks"] = self.tasks
        if self.ordered:
            document["ordered"] = True
        if self.new_queue_start is not None:
            document["late"] = self.new_queue_start.to_json()
        if self.group is not None:
            document["group"] = self.group
        if self.includes_retry is not None:
            document["retries"] = self.includes_retry
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffset:
        """The offset in a checkpoint. Raises ConfigurationError (another source or an unknown version wrote it)."""
        if not isinstance(document, dict):  # another source may write any JSON
            raise _strange(document)
        version = document.get("v")
        if version != VERSION or ("init" not in document and "q" not in document):
            raise ConfigurationError(
                f"the checkpoint holds an offset of version {version!r}, version {VERSION} of the rocketmq source is allowed; "
                "use the SprocketMQ version that wrote it, or a new checkpoint location"
            )
        if "init" in document:
            return cls(initial=str(document["init"]))
        try:
            return cls(
                queues=queues_from_json(document["q"]),
                origin=queues_from_json(document.get("origin", {})),
                lost=losses_from_json(document.get("lost", {})),
                tasks=_tasks_from_json(document.get("tasks")),
                ordered=document.get("ordered") is True,
                new_queue_start=NewQueueStart.from_json(document.get("late")),
                group=None if (group := document.get("group")) is None else str(group),
                includes_retry=None if (retries := document.get("retries")) is None else retries is True,
            )
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise _strange(document) from error


def _tasks_from_json(value: object) -> int | None:
    if value is None or (type(value) is int and value > 0):
        return value
    raise ValueError(f"tasks is {value!r}, a whole number from 1 is allowed")


def _strange(document: object) -> ConfigurationError:
    text = json.dumps(document)
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return ConfigurationError(
        f"the checkpoint holds {shown}, which is not an offset of the rocketmq source; it was edited or belongs to another source, "
        "use a new checkpoint location"
    )


def queues_to_json(offsets: Offsets) -> dict[str, dict[str, dict[str, int]]]:
    """``{topic: {broker: {queue: offset}}}`` with sorted keys."""
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def queues_from_json(nested: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[MessageQueue, int]:
    """The inverse of :func:`queues_to_json`. Raises ValueError, TypeError or AttributeError on anything else."""
    offsets: dict[MessageQueue, int] = {}
    for topic, brokers in nested.items():
        for broker_name, queues in brokers.items():
            for queue_id, offset in queues.items():
                if isinstance(offset, bool) or not isinstance(offset, int):
                    raise ValueError(
                        f"offset of {topic}/{broker_name}/{queue_id} is {offset!r}, a whole number is allowed"
                    )
                offsets[MessageQueue(topic, broker_name, int(queue_id))] = offset
    return offsets


def batch_ranges(start: StreamOffset, end: StreamOffset) -> list[QueueRange]:
    """The ranges of the batch between two offsets (1); empty ranges are left out. Raises ConfigurationError (a queue has no start: the
    checkpoint was edited or belongs to another query)."""
    if start == end:  # Spark may plan an empty batch; the origin in ``end`` belongs to the batch that ended there
        return []
    ranges = []
    for queue, upto in sorted(end.queues.items()):
        first = end.origin.get(queue, start.queues.get(queue))
        if first is None:
            raise ConfigurationError(
                f"the checkpoint names no start for {queue}; it was edited or belongs to another query, use a new checkpoint location"
            )
        if first < upto:
            ranges.append(QueueRange(queue, first, upto))
    return ranges

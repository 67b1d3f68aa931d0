"""The offset that Spark journals for a stream, and what it means after a crash. Pure.

    {"v":1,"init":"latest"}                                                      before anything is resolved
    {"v":1,"q":{topic:{broker:{queue:next}}},"origin":{topic:{broker:{queue:from}}},"lost":...,"tasks":4}   after

Theory. Spark asks ``initialOffset()`` again on every restart until batch 0 has committed, and keeps its answer nowhere: a source that
answers "the latest offset right now" loses whatever arrived between two attempts. But Spark journals the *end* of a batch before it runs
it. So ``initialOffset()`` answers a symbol that never changes, and the end of the first batch carries, as ``origin``, where that batch
began. The same field serves every later batch in which a queue appears for the first time, or has to be re-read from another place
(its data was deleted, its topic made anew). Spark has no place for "the start of this one queue" otherwise.

Laws
1. The start of a queue in the batch (start, end] is ``end.origin[queue]``, else ``start.queues[queue]``. Nothing else is ever asked.
   A batch whose start equals its end is empty.
2. Equal offsets are equal text: keys are sorted, so Spark, which compares text, sees "no new data" exactly when nothing moved.
3. A queue in ``end.queues`` has a start by law 1: it is in ``start.queues`` or in ``end.origin``.
4. Unknown versions are refused, never guessed.
5. A batch that runs again is cut into tasks as it was: ``tasks`` (and ``ordered``) were journaled before it ran, so that a row is written
   from the same task again, whatever options the query was started with (``write_marks``). Older checkpoints lack them.

``lost`` says which messages the batch that ends here leaves out (``losses``): it is written before the batch runs, so a loss that the user
allowed is told in the checkpoint and in every progress event, and is told again when the batch is. Nothing is read by it. ``late`` says how
a queue begins whose broker was away when the query began (``late_start``); it is the same in every offset of a query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.losses import Loss, losses_from_json, losses_to_json
from sprocketmq.spark.options.late_start import LateStart
from sprocketmq.wire.records.message import MessageQueue

__all__ = ["VERSION", "QueueRange", "StreamOffset", "batch_ranges", "queues_from_json", "queues_to_json"]

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
        """Upper bound of the messages in it: a filter may leave fewer."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue}[{self.start}, {self.end})"


@dataclass(frozen=True)
class StreamOffset:
    """One journaled offset. ``initial`` is the symbolic start (None once resolved); ``queues`` holds the next offset to read."""

    queues: Offsets = field(default_factory=dict)
    origin: Offsets = field(default_factory=dict)
    initial: str | None = None
    lost: tuple[Loss, ...] = ()
    tasks: int | None = None
    ordered: bool = False
    late: LateStart | None = None

    def to_json(self) -> dict[str, Any]:
        """What Spark journals; ``json.dumps`` of it is the same text for equal offsets (law 2)."""
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
        if self.late is not None:
            document["late"] = self.late.to_json()
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffset:
        """The offset read back from a checkpoint.

        Raises:
            ConfigurationError: the checkpoint was written by a version that this one does not know (law 4), or by another source.
        """
        if not isinstance(document, dict):  # another source may journal any JSON
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
                late=LateStart.from_json(document.get("late")),
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
        f"the checkpoint holds {shown}, which is no offset of the rocketmq source; it was edited or belongs to another source, use a new "
        "checkpoint location"
    )


def queues_to_json(offsets: Offsets) -> dict[str, dict[str, dict[str, int]]]:
    """``{topic: {broker: {queue: offset}}}`` with sorted keys: compact, as it is journaled with every batch."""
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
    """What the batch between two journaled offsets reads, by law 1; ranges without messages are left out.

    Raises:
        ConfigurationError: law 3 is broken, so the checkpoint was edited or belongs to another query.
    """
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

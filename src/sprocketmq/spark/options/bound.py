# SPDX-License-Identifier: Apache-2.0
"""Where a read starts and ends: six options in three forms (a word, a time, JSON by queue) become two ``Bound`` values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import queues_from_json
from sprocketmq.spark.options.given_options import GivenOptions
from sprocketmq.spark.options.named_topics import check_topics_are_read
from sprocketmq.wire.records.message import MessageQueue


@dataclass(frozen=True)
class Bound:
    """Where a read starts or ends, before any broker is asked; a queue that is not named at its smallest or latest offset. ``kind``: a
    word, ``timestamp`` (``timestamp_ms``), ``offsets`` (by queue; -2 is earliest, -1 latest) or ``timestamps`` (``offsets`` are times by
    queue, in ms). ``option``: for error messages."""

    kind: Literal["earliest", "latest", "group", "timestamp", "offsets", "timestamps"]
    timestamp_ms: int = 0
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    option: str = field(default="", compare=False)

    def times_ms(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The time to search for in each of ``queues``; empty if the bound is not a time."""
        if self.kind == "timestamp":
            return dict.fromkeys(queues, self.timestamp_ms)
        return (
            {queue: self.offsets[queue] for queue in queues if queue in self.offsets}
            if self.kind == "timestamps"
            else {}
        )


def bounds_of(given: GivenOptions, streaming: bool) -> tuple[Bound, Bound]:
    """Where a read starts and where it ends. A stream has no end: its second bound is ``latest``. Raises ConfigurationError (two
    starts or two ends, an end for a stream, an end before the start, offsets of a topic that is not read)."""
    starts = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    ends = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    if streaming:
        for name in ends:
            if given.has(name):
                raise ConfigurationError(f"{name} is given for a stream, which has no end; use it with spark.read only")
    start_option, end_option = given.one_of(starts), given.one_of(ends)
    starting, ending = Bound("latest" if streaming else "earliest"), Bound("latest")
    if start_option:
        starting = _bound(given, start_option, ("earliest", "latest", "group"))
        if starting.kind == "latest" and not streaming:
            given.refuse("startingOffsets", "earliest, group or a JSON object in a batch read (latest reads nothing)")
        if starting.kind == "group" and not given.has("group"):
            raise ConfigurationError("startingOffsets is 'group' without group; name the consumer group to start from")
    elif given.has("startingOffsetsByTimestampStrategy"):
        raise ConfigurationError(
            "startingOffsetsByTimestampStrategy is given without a time; add startingTimestamp or startingOffsetsByTimestamp"
        )
    if given.has("groupOffsetsFallback") and starting.kind != "group":
        raise ConfigurationError(
            "groupOffsetsFallback is given without startingOffsets group; set startingOffsets to group"
        )
    if end_option:
        ending = _bound(given, end_option, ("latest",))
        if ending.kind == "offsets" and -2 in ending.offsets.values():
            given.refuse("endingOffsets", "offsets from 0 or -1 (latest); -2 (earliest) would read nothing")
    _check_order(starting, ending)
    return starting, ending


def _check_order(starting: Bound, ending: Bound) -> None:
    if starting.kind == ending.kind == "timestamp" and ending.timestamp_ms < starting.timestamp_ms:
        raise ConfigurationError(
            f"endingTimestamp is {ending.timestamp_ms}, which is before startingTimestamp {starting.timestamp_ms}; exchange them"
        )
    if starting.kind == ending.kind and starting.kind in ("offsets", "timestamps"):
        for queue, upto in sorted(ending.offsets.items()):
            first = starting.offsets.get(queue, -2)
            if first >= 0 and 0 <= upto < first:
                raise ConfigurationError(
                    f"{ending.option} of {queue} is {upto}, which is before {starting.option} {first}; give an end at or after the start"
                )


def _bound(given: GivenOptions, name: str, words: tuple[str, ...]) -> Bound:
    if name.endswith("ByTimestamp"):
        bound = _offsets_bound(given, name, ())
        if min(bound.offsets.values()) < 0:
            given.refuse(name)
        from sprocketmq.client.settings.validators import check_time_ms  # few give times

        for queue, time_ms in bound.offsets.items():
            check_time_ms(f"{name} of {queue}", time_ms, or_zero=True)
        return Bound("timestamps", offsets=bound.offsets, option=name)
    if name.endswith("Timestamp"):
        return Bound("timestamp", given.timestamp_ms(name), option=name)
    return _offsets_bound(given, name, words)


def _offsets_bound(given: GivenOptions, name: str, words: tuple[str, ...]) -> Bound:
    text = (given.text(name) or "").strip()
    if text.lower() in words:
        return Bound(text.lower())  # type: ignore[arg-type]
    try:
        document: Any = json.loads(text)
        offsets = queues_from_json(document["q"] if "v" in document else document)
    except (ValueError, AttributeError, TypeError):
        given.refuse(name)
    if not offsets or min(offsets.values()) < -2:
        given.refuse(name)
    check_topics_are_read(given, name, {queue.topic for queue in offsets})
    return Bound("offsets", offsets=offsets, option=name)

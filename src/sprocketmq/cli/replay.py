# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq replay FILE``: replays a consumer's decision record, and prints a summary or what happened to a message or in a queue."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sprocketmq.client.observe.recorder import record_lines
from sprocketmq.core.quantities import counted, duration
from sprocketmq.core.replay.decision_replay import Replay
from sprocketmq.core.replay.decision_story import Story
from sprocketmq.core.replay.story_records import Delivery, Stall, StoryEvent
from sprocketmq.errors import ConfigurationError
from sprocketmq.logs import escaped

_SHOWN: Final = 10
_SHOWN_STALL_MS: Final = 1_000


def replay_record(
    path: Path, *, message: str | None, queue: str | None, begin: str | None, end: str | None, why: bool, as_json: bool
) -> int:
    """Returns the exit code: 1 if a decision differs from the record, or if nothing was found."""
    queue_name = None if queue is None else _queue_name(queue)
    replay = Replay()
    story = Story(lambda one: message is not None and (one.message_id == message or message in one.keys))
    ended = False
    for step in replay.run(record_lines(path)):
        story.add(step)
        ended = step.kind == "note" and step.do == "record_ended"
    times = _Times(story, begin, end)
    report = _Report(replay, story, times, why=why, ended=ended)
    if as_json:
        print(json.dumps(report.as_json(message, queue_name)))
        return report.exit_code(message, queue_name)
    if message is not None:
        lines = report.message(message)
    elif queue_name is not None:
        lines = report.queue(queue_name)
    else:
        lines = report.summary()
    for line in [*lines, *report.differences()]:
        print(escaped(line))
    return report.exit_code(message, queue_name)


class _Times:
    def __init__(self, story: Story, begin: str | None, end: str | None) -> None:
        first = datetime.fromtimestamp(story.first_ms / 1000).astimezone()
        self.from_ms = story.first_ms if begin is None else _time_ms("--from", begin, first)
        self.to_ms = story.last_ms if end is None else _time_ms("--to", end, first)
        if self.from_ms > self.to_ms:
            raise ConfigurationError("--from is later than --to or than the end of the record")

    def has(self, at_ms: int) -> bool:
        return self.from_ms <= at_ms <= self.to_ms

    def overlaps(self, stall: Stall) -> bool:
        return stall.from_ms <= self.to_ms and (stall.to_ms is None or stall.to_ms >= self.from_ms)

    def touches(self, delivery: Delivery) -> bool:
        return delivery.pulled_ms <= self.to_ms and (delivery.settled_ms or self.to_ms) >= self.from_ms


class _Report:
    def __init__(self, replay: Replay, story: Story, times: _Times, *, why: bool, ended: bool) -> None:
        self._replay, self._story, self._times, self._why, self._ended = replay, story, times, why, ended
        self._deliveries = [one for one in story.deliveries.values() if times.touches(one)]
        self._stalls = [stall for stall in story.stalls if times.overlaps(stall)]

    def exit_code(self, message: str | None, queue: str | None) -> int:
        found = (message is None or self._story.deliveries_of(message)) and (
            queue is None or queue in self._story.queues
        )
        return 0 if found and not self._replay.differences else 1

    # -- summary ---------------------------------------------------------------------------------------------------------------

    def summary(self) -> Iterator[str]:
        story, times = self._story, self._times
        header = self._replay.header
        yield f"{header.get('group')}  {header.get('client_id')}  SprocketMQ {header.get('version')}"
        end = "" if self._ended else "; no shutdown: it still runs, or was killed"
        yield f"  {_date(times.from_ms)} to {_clock(times.to_ms)}, {duration(times.to_ms - times.from_ms)}{end}"
        count = self._replay.calls
        same = "all as recorded" if not self._replay.differences else f"{len(self._replay.differences)} not as recorded"
        yield f"  {count} decisions replayed, {same}"
        yield ""
        yield f"queues     {self._queues()}"
        yield f"messages   {self._counts()}"
        if self._why:
            yield from self._section("members", (self._line(one) for one in story.group_story if times.has(one.at_ms)))
        yield from self._section("stuck", (self._stuck(one) for one in story.stuck if times.touches(one)))
        stalls = [stall for stall in self._stalls if self._length(stall) >= _SHOWN_STALL_MS]
        yield from self._section("stalled", map(self._stall, stalls))
        retried = [one for one in self._deliveries if (one.sent_back or one.dead_lettered) and not one.timed_out]
        yield from self._section("retried", map(self._retried, retried))

    def _queues(self) -> str:
        story, times = self._story, self._times
        added = sum(times.has(at) for queue in story.queues.values() for at in queue.added)
        dropped = sum(times.has(at) for queue in story.queues.values() for at in queue.dropped)
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(story.dropped_for.items()))
        return f"{added} added, {dropped} dropped" + (f" ({reasons})" if reasons and dropped else "")

    def _counts(self) -> str:
        counts = self._count_table()
        fates = ("consumed", "sent_back", "dead_lettered", "lost", "dropped", "unfinished")
        parts = ", ".join(f"{counts[fate]} {fate.replace('_', ' ')}" for fate in fates if counts[fate])
        return (
            f"{counted(counts['deliveries'], 'delivery', 'deliveries')} of {counted(counts['messages'], 'message')}"
            + (f": {parts}" if parts else "")
        )

    def _count_table(self) -> dict[str, int]:
        ones = self._deliveries
        return {
            "deliveries": len(ones),
            "messages": len({one.message_id for one in ones}),
            "retries": sum(one.tries > 0 for one in ones),
            "consumed": sum(one.consumed for one in ones),
            "sent_back": sum(one.sent_back for one in ones),
            "dead_lettered": sum(one.dead_lettered for one in ones),
            "lost": sum(one.lost for one in ones),
            "dropped": sum(one.dropped for one in ones),
            "unfinished": sum(one.settled_ms is None and not one.dropped for one in ones),
        }

    def _section(self, title: str, lines: Iterable[str]) -> Iterator[str]:
        rows = list(lines)
        if rows:
            yield ""
            yield title
            yield from (f"  {row}" for row in rows[:_SHOWN])
            if len(rows) > _SHOWN:
                yield f"  and {len(rows) - _SHOWN} more; --from and --to narrow it down, --json shows all"

    def _stuck(self, one: Delivery) -> str:
        ended = one.ended_ms if one.ended_ms is not None else self._story.last_ms
        span = duration(ended - (one.begun_ms or ended))
        fate = (
            "the consume timeout sent it back" if one.timed_out and one.sent_back else "it has not ended in this record"
        )
        return f"{one.message_id}  {one.queue} offset {one.offset}: {span} in the listener; {fate}"

    def _stall(self, stall: Stall) -> str:
        span = duration(self._length(stall)) + ("" if stall.to_ms is not None else " and on")
        if stall.kind == "progress":
            what = f"progress stayed at {stall.offset} for {span} with {counted(stall.done_behind, 'message')} behind it done"
            because = stall.reason + (f" ({stall.message_id})" if stall.message_id else "")
            return f"{_clock(stall.from_ms)}  {stall.queue}: {what}, because {because}"
        what = "not pulled" if stall.kind == "pull" else "not consumed"
        return f"{_clock(stall.from_ms)}  {stall.queue}: {what} for {span}, because {stall.reason}"

    def _retried(self, one: Delivery) -> str:
        fate = "dead letter" if one.dead_lettered else "sent back"
        return f"{one.message_id}  {one.queue} offset {one.offset}: try {one.tries + 1} ended with {one.status}, {fate}"

    def _length(self, stall: Stall) -> int:
        return (stall.to_ms if stall.to_ms is not None else self._story.last_ms) - stall.from_ms

    # -- a message, a queue ----------------------------------------------------------------------------------------------------

    def message(self, wanted: str) -> Iterator[str]:
        found = [one for one in self._story.deliveries_of(wanted) if self._times.touches(one)]
        if not found:
            yield f"no message of this record has the id or key {wanted}"
        name = ""
        for one in found:
            if one.message_id != name:
                name = one.message_id
                keys = f"  keys {' '.join(one.keys)}" if one.keys else ""
                tags = f"  tag {one.tags}" if one.tags else ""
                yield f"{name}{keys}{tags}  {one.size} bytes, born {_date(one.born_ms)}"
            yield ""
            yield f"  try {one.tries + 1}: stored {_clock(one.stored_ms)} in {one.queue} at offset {one.offset}"
            for event in one.story or ():
                if self._times.has(event.at_ms):
                    yield from self._indented(event)
            if one.settled_ms is None and not one.dropped:
                yield f"  {'':12}    unfinished at the end of the record"

    def queue(self, name: str) -> Iterator[str]:
        queue = self._story.queues.get(name)
        if queue is None:
            yield f"no queue {name} in this record; there are {', '.join(sorted(self._story.queues)) or 'none'}"
            return
        written = f", of which written {queue.persisted}" if queue.persisted >= 0 else ""
        yield f"{name}  {queue.consumed} consumed, progress {max(queue.committed, 0)}{written}"
        events = [one for one in queue.story if self._times.has(one.at_ms)]
        stalls = (stall for stall in self._stalls if stall.queue == name)
        events += (StoryEvent(stall.from_ms, self._stall(stall).partition(": ")[2]) for stall in stalls)
        for event in sorted(events, key=lambda one: one.at_ms):
            yield from self._indented(event)

    def _indented(self, event: StoryEvent) -> Iterator[str]:
        yield f"  {_clock(event.at_ms)}    {event.what}"
        if self._why and event.why:
            yield f"  {'':12}      why: {event.why}"

    def _line(self, event: StoryEvent) -> str:
        return f"{_clock(event.at_ms)}  {event.what}" + (f"; {event.why}" if event.why else "")

    # -- differences -----------------------------------------------------------------------------------------------------------

    def differences(self) -> Iterator[str]:
        found = self._replay.differences
        if found:
            yield ""
            yield "DIFFERENT: this version decides differently from the recorded version, or one of the two has a bug."
            yield "Look at the first difference; the others may be its consequences."
            yield from (f"  {_clock(one.at_ms)}  {one}" for one in found[:_SHOWN])
            if len(found) > _SHOWN:
                yield f"  and {len(found) - _SHOWN} more"

    def as_json(self, message: str | None, queue: str | None) -> dict[str, Any]:
        times, story = self._times, self._story
        answer: dict[str, Any] = {
            "record": self._replay.header,
            "from_ms": times.from_ms,
            "to_ms": times.to_ms,
            "complete": self._ended,
            "decisions": self._replay.calls,
            "differences": [dataclasses.asdict(one) for one in self._replay.differences],
            "counts": self._count_table(),
            "stuck": [one.message_id for one in story.stuck if times.touches(one)],
            "stalls": [dataclasses.asdict(stall) for stall in self._stalls],
        }
        if message is not None:
            answer["deliveries"] = [
                dataclasses.asdict(one) for one in story.deliveries_of(message) if times.touches(one)
            ]
        if queue is not None:
            queues = [story.queues[queue]] if queue in story.queues else []
            answer["queues"] = [dataclasses.asdict(one) for one in queues]
        return answer


def _queue_name(text: str) -> str:
    """``topic/broker/id`` for ``topic/broker/id`` or ``topic@broker:id``."""
    topic, at, rest = text.partition("@")
    broker, colon, queue_id = rest.rpartition(":")
    if not at:
        topic, _, rest = text.partition("/")
        broker, colon, queue_id = rest.rpartition("/")
    if not (topic and broker and colon and queue_id.isdigit()):
        raise ConfigurationError(f"--queue is {text!r}, topic@broker:id is allowed, as in flights@broker-a:0")
    return f"{topic}/{broker}/{queue_id}"


def _time_ms(option: str, text: str, first: datetime) -> int:
    if text.isdigit() and len(text) > 10:
        return int(text)
    try:
        if "-" not in text:
            text = f"{first.date().isoformat()}T{text}"
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} is {text!r}, HH:MM:SS (of the record's first day), YYYY-MM-DDTHH:MM:SS or milliseconds since 1970 are allowed"
        ) from None
    return int((moment if moment.tzinfo else moment.astimezone()).timestamp() * 1000)


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S.") + f"{at_ms % 1000:03}"


def _date(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d} {_clock(at_ms)}"

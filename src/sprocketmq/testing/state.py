# SPDX-License-Identifier: Apache-2.0
"""What a broker holds, in lines for the failure of a test: messages, progress, members, what waits for its time."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from sprocketmq.broker import Broker
from sprocketmq.core.quantities import counted
from sprocketmq.core.resource_names import DLQ_PREFIX, SCHEDULE_TOPIC, is_retry_topic, is_system_group, is_system_topic
from sprocketmq.core.retry.retry_schedule import queue_of_delay_level
from sprocketmq.wire.records.record import decode_records

_SHOWN = 8


def broker_state(broker: Broker, now_ms: int, asked: Collection[str] = ()) -> list[str]:
    """Call it on the broker's loop. ``asked``: topics that somebody asked for."""
    lines = [*_missing(broker, asked), *_topics(broker), *_groups(broker), *_delayed(broker, now_ms)]
    lines += [
        f"{counted(one.count, 'timer message')} for {topic}"
        for topic, one in broker.timers.metrics.items()
        if one.count
    ]
    return [*lines, f"{counted(len(broker.parked), 'pull')} waiting for messages"]


def _missing(broker: Broker, asked: Collection[str]) -> Iterator[str]:
    there = [topic for topic in broker.topics.table if not is_system_topic(topic)]
    for topic in sorted(asked):
        if topic and not is_system_topic(topic) and topic not in broker.topics.table:
            near = difflib.get_close_matches(topic, there, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"topic {topic} was asked for and does not exist{hint}"


def _topics(broker: Broker) -> Iterator[str]:
    store, of_topic = broker.store, dict[str, list[str]]()
    for topic, queue_id in sorted(store.queues()):
        if is_retry_topic(topic) or topic.startswith(DLQ_PREFIX) or not is_system_topic(topic):
            begin, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
            if end > begin:
                of_topic.setdefault(topic, []).append(f"{begin} to {end - 1} in queue {queue_id}")
    yield from (f"topic {topic}: offsets {', '.join(queues)}" for topic, queues in of_topic.items())
    if not of_topic:
        yield "no messages"


def _groups(broker: Broker) -> Iterator[str]:
    for name in sorted({*broker.groups.table, *broker.consumers.groups}):
        members = broker.consumers.get(name)
        topics = broker.offsets.topics_of(name)
        if is_system_group(name) or (members is None and not topics):
            continue
        progress = [
            f"{topic} queue {queue_id} at {offset} of {broker.store.max_offset(topic, queue_id)}"
            for topic in sorted(topics)
            for queue_id, offset in sorted(broker.offsets.offsets_of(name, topic).items())
        ]
        online = counted(0 if members is None else len(members.members), "member")
        yield f"group {name}: {online}; {', '.join(progress) or 'no progress'}"


def _delayed(broker: Broker, now_ms: int) -> Iterator[str]:
    store = broker.store
    for level in range(1, broker.schedule.levels.max_level + 1):
        queue_id, waiting = queue_of_delay_level(level), broker.schedule.waiting(level)
        if not waiting:
            continue
        begin, shown = broker.schedule.progress(level), list[str]()
        for unit in store.units(SCHEDULE_TOPIC, queue_id, begin, _SHOWN):
            found = store.read(SCHEDULE_TOPIC, queue_id, unit.queue_offset, 1, 1)
            for message in decode_records(b"".join(found.chunks)):
                topic = message.properties.get("REAL_TOPIC", "?")
                shown.append(f"{message.message_id} for {topic} in {unit.tags_code - now_ms:,} ms")
        more = f" and {waiting - len(shown)} more" if waiting > len(shown) else ""
        yield f"{counted(waiting, 'message')} of delay level {level}: {', '.join(shown)}{more}"

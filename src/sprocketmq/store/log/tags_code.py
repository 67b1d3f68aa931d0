"""What stands beside a record's place in its queue entry: the hash of its tag, or when a delayed message is due."""

from __future__ import annotations

from sprocketmq.core.retry.retry_schedule import SCHEDULE_TOPIC, DelayLevels
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.properties import DELAY, TAGS, get_property
from sprocketmq.wire.records.record import RecordView

__all__ = ["tags_code_of_record"]


def tags_code_of_record(record: RecordView, topic: str, levels: DelayLevels) -> int:
    """What stands in the queue entry of a record. Java: CommitLog.checkMessageAndReturnSize."""
    properties = record.raw_properties
    if topic == SCHEDULE_TOPIC:
        level = get_property(properties, DELAY) or ""
        if level.isdigit() and int(level) > 0:
            return levels.due_ms(int(level), record.store_timestamp_ms)
    return tags_code(get_property(properties, TAGS))

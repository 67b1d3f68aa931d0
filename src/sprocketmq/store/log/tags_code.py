# SPDX-License-Identifier: Apache-2.0
"""The tags code in a queue entry: the hash of the record's tag, or the delivery time of a delayed message."""

from __future__ import annotations

from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.properties import DELAY, TAGS, get_property
from sprocketmq.wire.records.record import RecordView


def tags_code_of_record(record: RecordView, topic: str, levels: DelayLevels) -> int:
    """Java: CommitLog.checkMessageAndReturnSize."""
    properties = record.raw_properties
    if topic == SCHEDULE_TOPIC:
        level = get_property(properties, DELAY) or ""
        if level.isdigit() and int(level) > 0:
            return levels.due_ms(int(level), record.store_timestamp_ms)
    return tags_code(get_property(properties, TAGS))

# SPDX-License-Identifier: Apache-2.0
"""What a queue entry holds beside a record's place: the hash of its tags, or when it is due."""

from __future__ import annotations

import pytest

from record_fields import STORED
from sprocketmq.core.resource_names import SCHEDULE_TOPIC
from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.store.log.tags_code import tags_code_of_record
from sprocketmq.wire.hashing import java_hash
from sprocketmq.wire.records.record import RecordView, encode_record

LEVELS = DelayLevels.parse("1s 5s 10s")
NOW_MS = STORED["store_timestamp_ms"]


def record(topic, properties):
    return RecordView(encode_record(topic.encode(), b"body", properties, **STORED))


@pytest.mark.parametrize(
    ("topic", "properties", "code"),
    [
        ("T", b"TAGS\x01red\x02", java_hash("red")),
        ("T", b"", 0),
        ("T", b"DELAY\x013\x02TAGS\x01red\x02", java_hash("red")),
        (SCHEDULE_TOPIC, b"DELAY\x013\x02TAGS\x01red\x02", NOW_MS + 10_000),
        (SCHEDULE_TOPIC, b"DELAY\x0199\x02", NOW_MS + 10_000),
        (SCHEDULE_TOPIC, b"DELAY\x010\x02TAGS\x01red\x02", java_hash("red")),
        (SCHEDULE_TOPIC, b"DELAY\x01soon\x02TAGS\x01red\x02", java_hash("red")),
    ],
    ids=["tags", "no tags", "a delay elsewhere", "a level", "beyond the highest", "level 0", "no level"],
)
def test_only_the_schedule_topic_keeps_a_due_time(topic, properties, code):
    assert tags_code_of_record(record(topic, properties), topic, LEVELS) == code

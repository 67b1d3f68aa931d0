# SPDX-License-Identifier: Apache-2.0
"""P6 through a real Spark at Apache's brokers, both generations: tags and SQL92 filtered there, whatever gaps that leaves."""

from __future__ import annotations

import pytest

from interop.spark_flow import progress_by_mqadmin
from sprocketmq.wire.hashing import tags_code

pytestmark = pytest.mark.spark


def test_filters_leave_gaps_and_nothing_else(flow, tools):
    """The broker compares hash codes of tags, and `Aa` has that of `BB`: the source compares the text again."""
    assert tags_code("Aa") == tags_code("BB")
    topic, group = flow.topic(), flow.name()

    def tag(number: int) -> str:
        return "other" if number >= 900 else {0: "Aa", 1: "BB", 2: "DL"}.get(number % 100, "other")

    flow.send(topic, range(1200), tag=tag)
    assert flow.several(
        {
            "a tag": {"topic": topic, "tags": "Aa"},
            "two tags": {"topic": topic, "tags": "BB || DL"},
            "SQL": {"topic": topic, "sql92": "n >= 395 AND n < 400 AND TAGS = 'other'"},
            "SQL for none": {"topic": topic, "sql92": "n > 5000"},
            "a part": {"topic": topic, "tags": "Aa", "maxRecordsPerPartition": 70},
        }
    ) == {
        "a tag": list(range(0, 900, 100)),
        "two tags": sorted([*range(1, 900, 100), *range(2, 900, 100)]),
        "SQL": list(range(395, 400)),
        "SQL for none": [],
        "a part": list(range(0, 900, 100)),
    }
    stream = flow.bounded(topic, startingOffsets="earliest", tags="Aa", group=group, maxOffsetsPerTrigger=500)
    stream.until_over()
    assert stream.kept.numbers == list(range(0, 900, 100))
    shown = progress_by_mqadmin(tools(flow.apache.version), flow, group)
    assert shown[topic, 0] == (1200, 1200, 0), "what was filtered out counts as read"

# SPDX-License-Identifier: Apache-2.0
"""P2 and P3 through a real Spark at Apache's brokers, both generations: where a read begins and ends, also after its first batch failed."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import sprocketmq as rmq
from interop.spark_flow import Kept, offsets

pytestmark = pytest.mark.spark


def test_a_batch_begins_and_ends_at_the_given_offsets(flow):
    topic = flow.topic(2)
    flow.send(topic, range(10), 0)
    flow.send(topic, range(100, 105), 1)
    moment_ms = flow.moment_ms()
    flow.send(topic, range(10, 20), 0)

    early, late, other = list(range(10)), list(range(10, 20)), list(range(100, 105))
    found = flow.several(
        {
            "everything": {"topic": topic},
            "from JSON": {"topic": topic, "startingOffsets": offsets(topic, [15, -2])},
            "to JSON": {"topic": topic, "endingOffsets": offsets(topic, [5, -1])},
            "between": {
                "topic": topic,
                "startingOffsets": offsets(topic, [4, 1]),
                "endingOffsets": offsets(topic, [6, 1]),
            },
            "from a time": {
                "topic": topic,
                "startingTimestamp": moment_ms,
                "startingOffsetsByTimestampStrategy": "latest",
            },
            "from times": {"topic": topic, "startingOffsetsByTimestamp": offsets(topic, [moment_ms])},
            "to a time": {"topic": topic, "endingTimestamp": moment_ms},
            "to times": {"topic": topic, "endingOffsetsByTimestamp": offsets(topic, [moment_ms, None])},
        }
    )
    assert found == {
        "everything": early + late + other,
        "from JSON": [*range(15, 20), *other],
        "to JSON": [*range(5), *other],
        "between": [4, 5],
        "from a time": late,
        "from times": late + other,
        "to a time": early + other,
        "to times": early + other,
    }
    with pytest.raises(
        PySparkException, match=f"startingTimestamp is {moment_ms}, and {topic}/broker-a/1 holds no message"
    ):
        flow.numbers(topic, startingTimestamp=moment_ms)


def test_a_batch_reads_queues_that_are_not_written_to_any_more(flow):
    """Brokers before 5.3 do not name them among the topic's."""
    topic = flow.topic(2)
    flow.send(topic, range(3), 0)
    flow.send(topic, range(10, 13), 1)
    flow.admin.create_topic(topic, read_queues=2, write_queues=1)
    assert flow.numbers(topic) == [0, 1, 2, 10, 11, 12]


def test_a_stream_whose_first_batch_failed_begins_where_it_first_began(flow):
    """Each start would mean something else by then: `latest` and the group have moved."""
    topic, group = flow.topic(), flow.name()
    flow.send(topic, range(10))
    moment_ms = flow.moment_ms()
    flow.send(topic, range(10, 15))
    queue = rmq.MessageQueue(topic, "broker-a", 0)
    flow.admin.create_group(group)
    flow.admin.set_consumer_offset(group, queue, 3)
    starts = {
        "latest": ({"startingOffsets": "latest"}, range(15, 20)),
        "time": ({"startingTimestamp": moment_ms}, range(10, 20)),
        "group": ({"startingOffsets": "group", "group": group}, range(3, 20)),
    }

    def fail(batch_id: int) -> None:
        raise RuntimeError("the first batch fails")

    # One after the other: the Python process of a source has 10 s to start.
    for name, (options, _) in starts.items():
        assert "the first batch fails" in flow.stream(topic, checkpoint=name, kept=Kept(fail), **options).failure()
    flow.send(topic, range(15, 20))
    flow.admin.set_consumer_offset(group, queue, 12)
    for name, (options, wanted) in starts.items():
        again = flow.bounded(topic, checkpoint=name, **options)
        again.until_over()
        assert again.kept.numbers == list(wanted), name
    # The run itself is the group's progress now.
    assert flow.admin.consumer_offset(group, queue) == 20


def test_a_read_begins_where_the_group_is_and_falls_back_as_told(flow):
    """Also at 4.9, whose broker answers 0 for a group that has committed nothing for a young topic; and 0 may be what it has committed."""
    topic, group = flow.topic(3), flow.name()
    for queue in range(3):
        flow.send(topic, range(queue * 10, queue * 10 + 5), queue)
    flow.admin.create_group(group)
    flow.admin.set_consumer_offset(group, rmq.MessageQueue(topic, "broker-a", 0), 3)
    flow.admin.set_consumer_offset(group, rmq.MessageQueue(topic, "broker-a", 1), 0)
    at_group = {"topic": topic, "startingOffsets": "group", "group": group}
    assert flow.several(
        {
            "default": at_group,
            "latest": {**at_group, "groupOffsetsFallback": "latest"},
            "another group": {**at_group, "group": f"{group}-new", "groupOffsetsFallback": "latest"},
        }
    ) == {
        "default": [3, 4, *range(10, 15), *range(20, 25)],
        "latest": [3, 4, *range(10, 15)],
        "another group": [],
    }
    with pytest.raises(PySparkException, match=f"the group has committed nothing for {topic}/broker-a/2"):
        flow.numbers(**at_group, groupOffsetsFallback="error")

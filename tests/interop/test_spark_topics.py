# SPDX-License-Identifier: Apache-2.0
"""P1 through a real Spark at Apache's brokers, both generations: a topic, a list, a pattern; queues and topics that come while it runs."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark


def test_a_running_stream_takes_in_new_queues_and_new_topics_from_their_first_message(flow):
    """At `latest`: what comes later is new, whenever the stream first hears of it."""
    stem = flow.name()
    first = flow.topic(1, f"{stem}-a")
    flow.send(first, range(5))
    with flow.stream(topicsPattern=f"{stem}-.*") as stream:
        stream.until_begun()
        flow.send(first, range(5, 10))
        flow.topic(3, first)  # two queues more
        flow.send(first, range(10, 15), 1)
        flow.send(first, range(15, 20), 2)
        second = flow.topic(2, f"{stem}-b")
        flow.send(second, range(20, 25), 1)
        stream.until_read(range(5, 25))
        origins = {row.topic: set() for batch in stream.kept.rows for row in batch}
        for row in (row for batch in stream.kept.rows for row in batch):
            origins[row.topic].add(row.queueId)
        assert origins == {first: {0, 1, 2}, second: {1}}

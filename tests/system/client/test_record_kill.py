# SPDX-License-Identifier: Apache-2.0
"""A consumer that is killed with ``kill -9`` leaves a record that tells its last moments."""

from __future__ import annotations

import subprocess
import sys

from sprocketmq.client.observe.recorder import record_lines
from sprocketmq.core.replay.decision_replay import Replay
from sprocketmq.core.replay.decision_story import Story

CONSUMER = """
import sys, threading
import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

with EmbeddedRocketMQ(clock="system") as rocketmq, rocketmq.producer("ops") as producer:
    consumer = rocketmq.push_consumer("delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, record=sys.argv[1])
    consumer.subscribe("flights")
    seen = []

    @consumer.on_message
    def handle(message):
        seen.append(message)
        if len(seen) == 50:
            print("fifty", flush=True)

    producer.send(rmq.Message("flights", b"x", keys="k0"))
    consumer.start()
    for number in range(1, 100_000):
        producer.send(rmq.Message("flights", b"x", keys=f"k{number}"))
"""


def test_a_killed_consumers_record_replays_up_to_its_end(tmp_path):
    file = tmp_path / "delays.jsonl"
    process = subprocess.Popen([sys.executable, "-c", CONSUMER, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "fifty\n"
    finally:
        process.kill()
        process.communicate(timeout=60)
    replay, story = Replay(), Story()
    kinds = []
    for step in replay.run(record_lines(file)):
        story.add(step)
        kinds.append(step.do)
    assert replay.differences == []
    assert "record_ended" not in kinds
    # Whatever was handed to a listener had been written down before.
    assert len(story.deliveries) >= 50

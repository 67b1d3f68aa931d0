# SPDX-License-Identifier: Apache-2.0
"""A stuck message, recorded and explained.

A listener hangs, progress waits for it, the consume timeout makes a retry copy, progress goes on.

    python examples/replay_a_stuck_message.py stuck.jsonl
    sprocketmq replay stuck.jsonl
    sprocketmq replay stuck.jsonl --message flight-1 --why

Needs no broker: it brings its own, with a clock that is moved by hand, so the five minutes of the story take a second.
"""

import sys
import threading

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

record = sys.argv[1] if len(sys.argv) > 1 else "stuck.jsonl"
hangs = threading.Event()
seen: list[list[str]] = []

with EmbeddedRocketMQ() as rocketmq:
    rocketmq.create_topic("flights", queues=1)
    consumer = rocketmq.push_consumer(
        "delays",
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_timeout_ms=300_000,
        record=record,
    )
    consumer.subscribe("flights")

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        seen.append(message.keys)
        if message.keys == ["flight-1"] and message.reconsume_times == 0:
            hangs.wait(60)  # an HTTP call without a timeout, say

    with rocketmq.producer("ops") as producer, consumer:
        for number in range(1, 6):
            producer.send(rmq.Message("flights", b"delayed", tags="UA", keys=[f"flight-{number}"]))
        queue = rmq.MessageQueue("flights", "broker-a", 0)
        rocketmq.wait_until(lambda: len(seen) == 5 and consumer.process_queues[queue].count == 1)
        rocketmq.advance_until(lambda: rocketmq.consumer_offset("delays", "flights") == {0: 5}, step_ms=60_000)
        rocketmq.advance_until(lambda: len(seen) == 6)
        hangs.set()
        rocketmq.advance_until(lambda: rocketmq.consumer_offset("delays", "%RETRY%delays") == {0: 1})

print(f"recorded in {record}")

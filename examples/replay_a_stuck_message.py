# SPDX-License-Identifier: Apache-2.0
"""Record and explain a stuck message.

A listener hangs, progress waits for it, the consume timeout sends it back, and progress continues.

    python examples/replay_a_stuck_message.py stuck.jsonl
    sprocketmq replay stuck.jsonl
    sprocketmq replay stuck.jsonl --message flight-1 --why

It starts its own broker with a manual clock, so the five minutes of the example take a second.
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
            hangs.wait(60)  # for example an HTTP call without a timeout

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

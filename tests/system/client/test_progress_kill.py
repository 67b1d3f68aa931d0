# SPDX-License-Identifier: Apache-2.0
"""What is recorded of a consumer whose listener hangs in one call, when the process is killed with ``kill -9``."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MESSAGES, STUCK = 192, 120  # behind others of its pull

CONSUMER = """
import asyncio, sys, time
import sprocketmq as rmq

namesrv_addr, kind, stuck = sys.argv[1], sys.argv[2], sys.argv[3].encode()
consumer = rmq.PushConsumer(
    "delays", namesrv_addr=namesrv_addr, persist_consumer_offset_interval_ms=50,
    consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
)
consumer.subscribe("flights")

def handle(message):
    if message.body == stuck:
        time.sleep(3600)

async def handle_async(message):
    if message.body == stuck:
        await asyncio.sleep(3600)

def handle_batch(messages, context):
    handle(messages[0])
    return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

async def handle_batch_async(messages, context):
    await handle_async(messages[0])
    return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

if "one" in kind:
    consumer.on_message(handle_async if "async" in kind else handle)
else:
    consumer.concurrent_listener(batch_size=1)(handle_batch_async if "async" in kind else handle_batch)
consumer.start()
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["one", "one async", "batch", "batch async"])
def test_a_call_that_hangs_leaves_everything_before_it_recorded_and_only_the_rest_comes_again(kind):
    with EmbeddedRocketMQ(clock="system") as server, server.producer("ops") as producer:
        server.create_topic("flights", queues=1)
        for number in range(MESSAGES):
            producer.send(rmq.Message("flights", b"%d" % number))
        process = subprocess.Popen(
            [sys.executable, "-c", CONSUMER, server.namesrv_addr, kind, str(STUCK)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            server.wait_until(lambda: server.consumer_offset("delays", "flights") == {0: STUCK}, 60_000)
        finally:
            process.kill()
            process.communicate(timeout=60)
        assert server.consumer_offset("delays", "flights") == {0: STUCK}
        again: list[int] = []
        every = threading.Event()
        consumer = server.push_consumer("delays", consume_from_where=FIRST)
        consumer.subscribe("flights")

        @consumer.on_message
        def handle(message: rmq.MessageExt) -> None:
            again.append(message.queue_offset)
            if len(again) == MESSAGES - STUCK:
                every.set()

        with consumer:
            assert every.wait(60)
        assert sorted(again) == list(range(STUCK, MESSAGES))

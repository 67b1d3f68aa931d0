# SPDX-License-Identifier: Apache-2.0
"""Second stage, one child process for each member: a push group whose listener fails for a flight without a departure time. RocketMQ
delivers it again, twice, and then makes it a dead letter."""

from __future__ import annotations

import threading
import time
from typing import Final

import msgspec

import sprocketmq as rmq
from sprocketmq.cli.demo.children import Parent
from sprocketmq.cli.demo.flights import FlightBody
from sprocketmq.cli.demo.reports import (
    MAX_RECONSUME_TIMES,
    PUSH_GROUP,
    QUEUES,
    RETRY_LEVEL,
    TOPIC,
    Deliveries,
    Failure,
    Options,
)

_SHARE_DEADLINE_S: Final = 15.0


def main() -> None:
    demo = Parent(Options)
    consumed: list[int] = []
    failed: list[Failure] = []
    shared_out = threading.Event()
    decode = msgspec.json.Decoder(FlightBody).decode
    consumer = rmq.PushConsumer(
        PUSH_GROUP,
        **(demo.options.target.options() | {"instance_name": f"member-{demo.options.member}"}),
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        max_reconsume_times=MAX_RECONSUME_TIMES,
    )
    consumer.subscribe(TOPIC)

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        shared_out.wait(_SHARE_DEADLINE_S)
        flight = decode(message.body)
        if flight.dep_time is None:
            failed.append(Failure(flight.row, message.reconsume_times, message.message_id))
            raise rmq.RetryLater("cancelled", delay_level=RETRY_LEVEL)
        consumed.append(flight.row)

    def report() -> None:
        done = Deliveries(consumed[:], failed[:])  # the listener's threads only append
        if done.consumed or done.failed:
            demo.report(done)
            del consumed[: len(done.consumed)], failed[: len(done.failed)]

    with consumer:
        _wait_for_share(consumer, QUEUES // demo.options.members)
        shared_out.set()
        while not demo.lets_go_on(0.1):
            report()
    report()


def _wait_for_share(consumer: rmq.PushConsumer, share: int) -> None:
    """Or until the others are late. The first member gets all queues, and what it consumes before it loses some may come again: the demo's
    count of repeated deliveries would be hard to understand."""
    deadline_s = time.monotonic() + _SHARE_DEADLINE_S
    while time.monotonic() < deadline_s:
        if sum(queue.topic == TOPIC for queue in consumer.assigned_queues) == share:
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main()

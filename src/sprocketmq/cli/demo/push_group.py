# SPDX-License-Identifier: Apache-2.0
"""Second stage, one child process per member: a push group whose listener raises for a flight without a departure time. RocketMQ
delivers it again, twice, and then makes it a dead letter."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import msgspec

import sprocketmq as rmq
from sprocketmq.cli.demo.flights import FlightBody
from sprocketmq.cli.demo.members import member_options, report, run_until_stdin_closes
from sprocketmq.cli.demo.publish import QUEUES, TOPIC
from sprocketmq.cli.frame.target import Target

GROUP: Final = "delays-push"
MAX_RECONSUME_TIMES: Final = 2
# Level 1 is one second. The default schedule begins at level 3, ten seconds, and would make the demo a minute longer.
_RETRY_LEVEL: Final = 1
_SHARE_DEADLINE_S: Final = 15.0


class PushMemberOptions(msgspec.Struct):
    target: Target
    member: int
    members: int


class Failure(msgspec.Struct, array_like=True):
    row: int
    reconsume_times: int
    message_id: str


class Deliveries(msgspec.Struct):
    """The rows consumed since the last report (in order), and the deliveries that failed."""

    consumed: list[int] = []
    failed: list[Failure] = []


class _Tally:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Deliveries([], [])

    def consumed(self, row: int) -> None:
        with self._lock:
            self._now.consumed.append(row)

    def failed(self, failure: Failure) -> None:
        with self._lock:
            self._now.failed.append(failure)

    def report(self) -> None:
        with self._lock:
            done, self._now = self._now, Deliveries([], [])
        if done.consumed or done.failed:
            report(done)


def main() -> None:
    options = member_options(PushMemberOptions)
    tally, shared_out = _Tally(), threading.Event()
    decode = msgspec.json.Decoder(FlightBody).decode
    consumer = rmq.PushConsumer(
        GROUP,
        **(options.target.options() | {"instance_name": f"member-{options.member}"}),
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        max_reconsume_times=MAX_RECONSUME_TIMES,
    )
    consumer.subscribe(TOPIC, "*")

    @consumer.concurrent_listener(batch_size=1)
    def handle(
        messages: Sequence[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext
    ) -> rmq.ConsumeConcurrentlyStatus:
        shared_out.wait()
        (message,) = messages
        flight = decode(message.body)
        if flight.dep_time is None:
            tally.failed(Failure(flight.row, message.reconsume_times, message.message_id))
            context.delay_level_when_next_consume = _RETRY_LEVEL
            return rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER
        tally.consumed(flight.row)
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with consumer:
        _wait_for_share(consumer, QUEUES // options.members)
        shared_out.set()
        run_until_stdin_closes(tally.report)
    tally.report()


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

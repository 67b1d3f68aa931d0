# SPDX-License-Identifier: Apache-2.0
"""Third stage, a child process: an orderly group that looks for flights of one aircraft in the wrong order, that is, a new row with a
lower number than one before it. A row that comes again after a rebalance is a repetition, which at-least-once allows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec

import sprocketmq as rmq
from sprocketmq.cli.demo.flights import FlightBody
from sprocketmq.cli.demo.members import member_options, report, run_until_stdin_closes
from sprocketmq.cli.demo.publish import TOPIC
from sprocketmq.cli.frame.target import Target

GROUP: Final = "tails-orderly"


class OrderlyMemberOptions(msgspec.Struct):
    target: Target


class InOrder(msgspec.Struct):
    rows: list[int] = []
    repeated: int = 0
    inversions: int = 0


class _Watch:
    """Checks the order per aircraft. The listener runs on one thread per queue, so the lock is needed only for the report."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._highest: dict[str, int] = {}
        self._seen: set[int] = set()
        self._now = InOrder([])

    def see(self, flights: list[FlightBody]) -> None:
        with self._lock:
            for flight in flights:
                if flight.row in self._seen:
                    self._now.repeated += 1
                    continue
                self._seen.add(flight.row)
                self._now.rows.append(flight.row)
                aircraft = flight.tailnum or f"{flight.carrier}{flight.flight}"
                if flight.row < self._highest.get(aircraft, -1):
                    self._now.inversions += 1
                else:
                    self._highest[aircraft] = flight.row

    def report(self) -> None:
        with self._lock:
            done, self._now = self._now, InOrder([])
        if done.rows or done.repeated:
            report(done)


def main() -> None:
    options = member_options(OrderlyMemberOptions)
    watch = _Watch()
    decode = msgspec.json.Decoder(FlightBody).decode
    consumer = rmq.PushConsumer(
        GROUP, **options.target.options(), consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(TOPIC, "*")

    @consumer.orderly_listener(batch_size=32)
    def in_order(messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        watch.see([decode(message.body) for message in messages])
        return rmq.ConsumeOrderlyStatus.SUCCESS

    with consumer:
        run_until_stdin_closes(watch.report)
    watch.report()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Third stage, a child process: an orderly group that looks for flights of one aircraft in the wrong order, that is, a new row with a
lower number than one before it. A row that comes again after a rebalance is a repetition, which at-least-once allows."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

import sprocketmq as rmq
from sprocketmq.cli.demo.children import Parent
from sprocketmq.cli.demo.flights import FlightBody
from sprocketmq.cli.demo.reports import ORDERLY_GROUP, TOPIC, InOrder, Options


def main() -> None:
    demo = Parent(Options)
    decode = msgspec.json.Decoder(FlightBody).decode
    highest: dict[str, int] = {}
    seen: set[int] = set()
    new, lock = InOrder([]), threading.Lock()  # the listener runs on one thread for each queue
    consumer = rmq.PushConsumer(
        ORDERLY_GROUP,
        **demo.options.target.options(),
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(TOPIC)

    @consumer.orderly_listener(batch_size=32)
    def in_order(messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        flights = [decode(message.body) for message in messages]
        with lock:
            for flight in flights:
                if flight.row in seen:
                    new.repeated += 1
                    continue
                seen.add(flight.row)
                new.rows.append(flight.row)
                aircraft = flight.tailnum or f"{flight.carrier}{flight.flight}"
                if flight.row < highest.get(aircraft, -1):
                    new.inversions += 1
                else:
                    highest[aircraft] = flight.row
        return rmq.ConsumeOrderlyStatus.SUCCESS

    def report() -> None:
        nonlocal new
        with lock:
            done, new = new, InOrder([])
        if done.rows or done.repeated:
            demo.report(done)

    with consumer:
        while not demo.lets_go_on(0.1):
            report()
    report()


if __name__ == "__main__":
    main()

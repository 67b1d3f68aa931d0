# SPDX-License-Identifier: Apache-2.0
"""Messages of one order stay in order: NAMESRV_ADDR=127.0.0.1:9876 python examples/orderly.py"""

import logging
import sys
import threading

import sprocketmq as rmq

logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
log = logging.getLogger("orderly")
log.setLevel(logging.INFO)

STEPS = ("created", "paid", "shipped", "delivered")
ORDERS = ("order-1", "order-2", "order-3")

consumer = rmq.PushConsumer("orderly-consumers", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
consumer.subscribe("orders")
seen: dict[str, list[str]] = {}
complete = threading.Event()


@consumer.orderly_listener
def in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
    for message in messages:
        order, step = message.body.decode().split()
        seen.setdefault(order, []).append(step)
        log.info("%s %-10s from %s", order, step, context.message_queue)
    if sum(map(len, seen.values())) >= len(STEPS) * len(ORDERS):
        complete.set()
    return rmq.ConsumeOrderlyStatus.SUCCESS


with rmq.Producer("orderly-producers") as producer:
    for step in STEPS:
        for order in ORDERS:
            producer.send(rmq.Message("orders", f"{order} {step}".encode()), sharding_key=order)

with consumer:
    complete.wait(60)

# SPDX-License-Identifier: Apache-2.0
"""A producer and a consumer with message trace, metrics for Prometheus and a hook.

NAMESRV_ADDR=127.0.0.1:9876 python examples/watched.py
"""

from __future__ import annotations

import os
import sys
import threading

import sprocketmq as rmq


class Slowness:
    """A hook that reports slow listener calls."""

    def before_consume(self, context: rmq.ConsumeMessageContext) -> None:
        context.notes["limit"] = 500

    def after_consume(self, context: rmq.ConsumeMessageContext) -> None:
        if context.spent_ms > context.notes["limit"]:
            print(f"slow: {context.messages[0].message_id} took {context.spent_ms:.0f} ms")


def main(namesrv_addr: str) -> None:
    producer = rmq.Producer("ops", namesrv_addr=namesrv_addr, enable_trace=True)
    consumer = rmq.PushConsumer(
        "delays",
        namesrv_addr=namesrv_addr,
        enable_trace=True,
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    arrived = threading.Event()

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        if message.message_id == sent.message_id:
            arrived.set()

    consumer.subscribe("flights")
    consumer.add_hook(Slowness())
    metrics = rmq.ClientMetrics(producer, consumer, labels={"service": "delays"})
    port = metrics.serve(0)
    with producer:
        sent = producer.send(rmq.Message("flights", b"N14228 is late", tags="UA", keys="N14228"))
        with consumer:
            arrived.wait(30)
    print(f"http://127.0.0.1:{port}/metrics served the metrics")
    metrics.close()

    with rmq.Admin(namesrv_addr=namesrv_addr) as admin:
        for record in admin.message_trace(sent.message_id):
            outcome = "ok" if record.success else "failed"
            print(f"{record.trace_type.value:<10} {record.group:<8} {outcome:<7} {record.cost_ms} ms")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))

# SPDX-License-Identifier: Apache-2.0
"""A worker: consumes until SIGTERM, reports its health over HTTP, and logs one JSON object per line.

NAMESRV_ADDR=127.0.0.1:9876 sprocketmq run worker:consumer --health-port 8080 --log-format json
"""

from __future__ import annotations

import logging

import sprocketmq as rmq

log = logging.getLogger("worker")

consumer = rmq.PushConsumer(
    "billing", value_deserializer=rmq.json_deserializer, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
)
consumer.subscribe("orders")


@consumer.on_message
def handle(message: rmq.MessageExt) -> None:
    order = message.value
    if order["total"] < 0:
        raise rmq.DeadLetter("a negative total")
    log.info(
        "billed", extra={"order": order["id"], "message_id": message.message_id, "try": message.reconsume_times + 1}
    )

# SPDX-License-Identifier: Apache-2.0
"""Values instead of bytes, and a loop with ack: orders as msgspec structs, and one with an invalid body.

NAMESRV_ADDR=127.0.0.1:9876 python examples/orders.py
"""

from __future__ import annotations

import asyncio
import os

import msgspec

import sprocketmq as rmq


class Order(msgspec.Struct):
    id: int
    total: float


async def main(namesrv_addr: str) -> None:
    async with rmq.AsyncProducer("shop", namesrv_addr=namesrv_addr, value_serializer=rmq.json_serializer) as producer:
        for number in range(3):
            order = Order(id=number, total=10.0 * number)
            await producer.send(producer.message("orders", order, keys=f"order-{number}"))
        await producer.send(rmq.Message("orders", b'{"id": "seven"}', keys="order-7"))

    consumer = rmq.AsyncPushConsumer(
        "billing",
        namesrv_addr=namesrv_addr,
        consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        value_deserializer=msgspec.json.Decoder(Order).decode,  # with pydantic: Order.model_validate_json
    )
    consumer.subscribe("orders")
    async with consumer.messages() as messages:
        count = 0
        async for message in messages:
            try:
                order = message.value
                print(f"billed {order.id}: {order.total}")
            except rmq.ValueDeserializationError as error:
                message.dead_letter(str(error))
                print(f"given up {message.keys[0]}: {error.__cause__}")
            else:
                message.ack()
            count += 1
            if count == 4:
                messages.stop()


if __name__ == "__main__":
    asyncio.run(main(os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))

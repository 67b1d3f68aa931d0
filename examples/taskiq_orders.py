# SPDX-License-Identifier: Apache-2.0
"""A broker for Taskiq: tasks are messages, a killed worker's tasks come again, and a task may be delayed.

NAMESRV_ADDR=127.0.0.1:9876 taskiq worker taskiq_orders:broker
NAMESRV_ADDR=127.0.0.1:9876 python taskiq_orders.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

import sprocketmq as rmq


class RocketMQBroker(AsyncBroker):
    """Args:
    topic: where tasks go; each broker of one topic and group shares them out to its workers.
    most_at_once: tasks of this worker that are not acknowledged yet.
    options: of clients, such as namesrv_addr.
    """

    def __init__(
        self, topic: str = "taskiq", group: str = "taskiq-workers", *, most_at_once: int = 100, **options: Any
    ) -> None:
        super().__init__()
        self._topic, self._group, self._most, self._options = topic, group, most_at_once, options
        self._producer: rmq.AsyncProducer | None = None
        self._consumer: rmq.AsyncPushConsumer | None = None

    async def startup(self) -> None:
        await super().startup()
        self._producer = rmq.AsyncProducer(f"{self._group}-senders", **self._options)
        await self._producer.start()

    async def shutdown(self) -> None:
        for client in (self._consumer, self._producer):  # the consumer first: its last tasks may send
            if client is not None:
                await client.shutdown()
        await super().shutdown()

    async def kick(self, message: BrokerMessage) -> None:
        assert self._producer is not None, "call broker.startup() first"
        delay_s = message.labels.get("delay")  # of task.kicker().with_labels(delay=10)
        await self._producer.send(
            rmq.Message(self._topic, message.message, tags=message.task_name.rpartition(":")[2], keys=message.task_id),
            delay_ms=None if delay_s is None else int(float(delay_s) * 1000),
        )

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        # What is not acknowledged for this long comes again, on any worker.
        self._consumer = rmq.AsyncPushConsumer(
            self._group,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            consume_thread_count=self._most,
            consume_timeout_ms=15 * 60_000,
            **self._options,
        )
        self._consumer.subscribe(self._topic)
        messages = self._consumer.messages()
        await self._consumer.start()
        async for message in messages:
            yield AckableMessage(data=message.body, ack=message.ack)


broker = RocketMQBroker()


@broker.task
async def bill(order: int, total: float) -> None:
    print(f"billed {order}: {total}", flush=True)


async def main() -> None:
    await broker.startup()
    await bill.kiq(7, 12.5)
    await bill.kicker().with_labels(delay=1).kiq(8, 1.0)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())

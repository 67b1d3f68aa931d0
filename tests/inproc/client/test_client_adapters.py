# SPDX-License-Identifier: Apache-2.0
"""The recipes for authors of adapters: a broker for Taskiq, a router as FastStream has one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq

EXAMPLES = Path(__file__).parents[3] / "examples"
pytestmark = pytest.mark.rocketmq(clock="system", messageDelayLevel="1s 1s 1s 1s")


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch, rocketmq: Any) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq.namesrv_addr)


async def until(condition: Any, rocketmq: Any) -> None:
    await asyncio.to_thread(rocketmq.wait_until, condition)


def test_tasks_run_on_a_worker_and_those_of_a_killed_one_come_again(rocketmq: Any) -> None:
    pytest.importorskip("taskiq")
    from taskiq.api import run_receiver_task
    from taskiq_orders import RocketMQBroker

    done: list[int] = []

    async def worker(broker: RocketMQBroker) -> asyncio.Task[None]:
        return asyncio.create_task(run_receiver_task(broker, run_startup=True))

    def made() -> tuple[RocketMQBroker, Any, asyncio.Event]:
        broker, gate = RocketMQBroker(namesrv_addr=rocketmq.namesrv_addr), asyncio.Event()

        @broker.task(task_name="shop:bill")
        async def bill(order: int) -> None:
            await gate.wait()
            done.append(order)

        return broker, bill, gate

    async def ended(broker: RocketMQBroker, task: asyncio.Task[None]) -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await broker.shutdown()

    async def run() -> None:
        first, bill, _ = made()
        running = await worker(first)
        await until(lambda: first._consumer is not None and first._consumer.assigned_queues, rocketmq)
        await bill.kiq(7)
        await bill.kicker().with_labels(delay=1).kiq(8)
        (kept,) = (message for message in rocketmq.messages("taskiq") if message.tags == "bill")
        assert len(kept.keys) == 1
        await ended(first, running)
        assert done == [], "its tasks were not acknowledged"
        second, _, gate = made()
        gate.set()
        running = await worker(second)
        await until(lambda: sorted(done) == [7, 8], rocketmq)
        await until(lambda: sum(rocketmq.consumer_offset("taskiq-workers", "taskiq").values()) >= 0, rocketmq)
        await ended(second, running)

    rocketmq.create_topic("taskiq", queues=1)
    asyncio.run(run())
    assert sum(rocketmq.consumer_offset("taskiq-workers", "taskiq").values()) == 2, "acknowledged"


def test_a_router_gives_typed_values_and_publishes_what_handlers_return(rocketmq: Any) -> None:
    from router import shop

    rocketmq.create_topic("orders", queues=2)
    rocketmq.create_topic("bills", queues=2)

    async def run() -> None:
        router = shop(namesrv_addr=rocketmq.namesrv_addr)
        tries: list[int] = []

        @router.subscriber("refunds")
        async def refund(body: bytes) -> None:
            tries.append(len(body))
            if len(tries) == 1:
                raise OSError("the bank is closed")

        running = asyncio.create_task(router.run())
        with rocketmq.producer("customers") as producer:
            for topic, body in (("orders", b'{"id": 7, "total": 2.5}'), ("orders", b'{"id": "x"}'), ("refunds", b"1")):
                await asyncio.to_thread(producer.send, rmq.Message(topic, body))
        await until(lambda: rocketmq.messages("bills") and rocketmq.messages("%DLQ%shop-orders"), rocketmq)
        await until(lambda: len(tries) == 2, rocketmq)
        router.stop()
        await running

    asyncio.run(run())
    assert [json.loads(message.body) for message in rocketmq.messages("bills")] == [{"order": 7, "amount": 2.5}]
    (letter,) = rocketmq.messages("%DLQ%shop-orders")
    assert "Expected `int`, got `str`" in letter.properties["RETRY_REASON"]
    assert sum(rocketmq.consumer_offset("shop-orders", "orders").values()) == 2

# SPDX-License-Identifier: Apache-2.0
"""FastAPI with a producer and a consumer on its event loop; both start and stop with the application.

pip install sprocketmq fastapi uvicorn
NAMESRV_ADDR=127.0.0.1:9876 uvicorn --app-dir examples fastapi_orders:app
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel

import sprocketmq as rmq


class Order(BaseModel):
    id: int
    total: float


def order_to_body(order: Order) -> bytes:
    return order.model_dump_json().encode()


billed: dict[int, float] = {}


async def bill(message: rmq.MessageExt[Order]) -> None:
    billed[message.value.id] = message.value.total  # the same result if a message is delivered twice


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    producer = rmq.AsyncProducer("shop", value_serializer=order_to_body)
    consumer = rmq.AsyncPushConsumer("billing", value_deserializer=Order.model_validate_json)
    consumer.subscribe("orders")
    consumer.on_message(bill)
    async with producer, consumer:  # the consumer stops first
        app.state.producer, app.state.consumer = producer, consumer
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def create(order: Order, request: Request) -> dict[str, Any]:
    producer: rmq.AsyncProducer = request.app.state.producer
    try:
        result = await producer.send(producer.message("orders", order, keys=f"order-{order.id}"))
    except (rmq.NetworkError, rmq.RequestTimeout, rmq.RemoteError) as error:
        raise HTTPException(503, "the order was not taken, try again") from error
    return {"message_id": result.message_id}


@app.get("/orders/{number}")
async def show(number: int) -> dict[str, Any]:
    if number not in billed:
        raise HTTPException(404, "not billed yet")
    return {"id": number, "billed": billed[number]}


@app.get("/healthz")
async def healthz(request: Request, response: Response) -> dict[str, Any]:
    health = request.app.state.consumer.health()
    response.status_code = 200 if health.is_healthy else 503
    return {"healthy": health.is_healthy, "state": health.state, "problems": health.problems}

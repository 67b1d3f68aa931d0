# SPDX-License-Identifier: Apache-2.0
"""Calls that fail: thousands may fail at once, so each leaves nothing for the garbage collector, and none looks for another broker after
its time is over."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.client.remoting.queue_choice import QueueChoice
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as started:
        started.create_topic("flights", queues=8)
        yield started


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def _patient_producer(server: EmbeddedRocketMQ, **options: Any) -> rmq.AsyncProducer:
    return rmq.AsyncProducer("ops", namesrv_addr=server.namesrv_addr, send_msg_timeout_ms=60_000, **options)


def _flight() -> rmq.Message:
    return rmq.Message("flights", b"x")


BLOCKING: dict[str, Callable[[rmq.Producer], Any]] = {
    "send": lambda producer: producer.send(_flight(), timeout_ms=100),
    "send_async": lambda producer: producer.send_async(_flight(), timeout_ms=100).result(),
    "send_batch": lambda producer: producer.send_batch([_flight()], timeout_ms=100),
    "sharding key": lambda producer: producer.send(_flight(), sharding_key="k", timeout_ms=100),
    "request": lambda producer: producer.request(_flight(), timeout_ms=20),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batches": {"auto_batch": True},
    "permits": {"enable_backpressure_for_async_mode": True},
}


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fault", ["drop", "close_connection"])
@pytest.mark.parametrize("verb", BLOCKING)
def test_the_error_of_a_call_is_gone_when_its_caller_drops_it(server, verb, fault, options):
    with server.producer("ops", send_msg_timeout_ms=60_000, **OPTIONS[options]) as producer:
        producer.send(_flight())
        with getattr(server.faults, fault)(SENDS, None):
            try:
                BLOCKING[verb](producer)
                pytest.fail("it did not fail")
            except rmq.RocketMQError as error:
                gone = weakref.ref(error)
        producer.send(_flight())  # whatever the engine still held in its last step
    assert gone() is None


@pytest.mark.usefixtures("_no_collector")
def test_the_error_of_an_administrators_call_is_gone_when_its_caller_drops_it(server):
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    with rmq.Admin(namesrv_addr=server.namesrv_addr, mq_client_api_timeout_ms=60_000) as admin:
        with server.faults.close_connection(code, None):
            try:
                admin.broker_runtime_info("broker-a")
                pytest.fail("it did not fail")
            except rmq.RocketMQError as error:
                gone = weakref.ref(error)
        admin.broker_runtime_info("broker-a")
    assert gone() is None


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fault", ["drop", "close_connection"])
def test_the_errors_of_tasks_are_gone_when_they_are_dropped(server, fault, options):

    async def main() -> None:
        async with _patient_producer(server, **OPTIONS[options]) as producer:
            await producer.send(_flight())
            with getattr(server.faults, fault)(SENDS, None):
                sends = [producer.send(_flight(), timeout_ms=50) for _ in range(20)]
                errors = await asyncio.gather(*sends, return_exceptions=True)
            assert all(isinstance(error, rmq.RocketMQError) for error in errors)
            gone = [weakref.ref(error) for error in errors]
            del errors
            await producer.send(_flight())
            assert [error for ref in gone if (error := ref()) is not None] == []

    asyncio.run(main())


def test_a_send_whose_time_is_over_chooses_no_further_queue(server, monkeypatch):
    chosen: list[str] = []
    choose = QueueChoice.next_queue

    def counted(self: QueueChoice, topic: str, *args: Any) -> rmq.MessageQueue:
        chosen.append(topic)
        return choose(self, topic, *args)

    async def main() -> None:
        async with _patient_producer(server) as producer:
            await producer.send(_flight())
            monkeypatch.setattr(QueueChoice, "next_queue", counted)
            with server.faults.drop(SENDS, None), pytest.raises(rmq.RequestTimeout):
                await producer.send(_flight(), timeout_ms=50)

    asyncio.run(main())
    assert chosen == []


def test_the_error_of_a_server_leaves_a_blocking_call_without_the_frames_below_it():
    with (
        rmq.Producer("ops", namesrv_addr="127.0.0.1:1") as producer,
        pytest.raises(rmq.ConnectFailed, match=r"127\.0\.0\.1:1") as failed,
    ):
        producer.send(_flight())
    ours = [frame.name for frame in traceback.extract_tb(failed.tb) if "/sprocketmq/" in frame.filename]
    assert ours == ["send", "_run"]

# SPDX-License-Identifier: Apache-2.0
"""What type checkers say of programs that use the public API: a misspelt or mistyped option, argument or listener is an error, and nothing
else is. One program, one run of mypy and one of pyright (basedpyright in its standard mode: docs/decisions/0030)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Lines that end with "# refused" are errors, the others are none.
PROGRAM = """
import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ, ManualClock, SystemClock

message = rmq.Message("flights", b"...")


def check(half: rmq.MessageExt) -> rmq.LocalTransactionState:
    return rmq.LocalTransactionState.COMMIT_MESSAGE


rmq.Producer("ops", namesrv_addr="127.0.0.1:9876", send_msg_timeout_ms=3_000, tls=True)
rmq.Producer("ops", send_msg_timeout=3_000)  # refused
rmq.Producer("ops", send_msg_timeout_ms="3s")  # refused
rmq.Producer("ops", namesrv_adr="127.0.0.1:9876")  # refused
rmq.Producer("ops", consume_thread_count=2)  # refused
rmq.AsyncProducer("ops", retry_response_codes=[1, 2], compress_type="LZ4")
rmq.AsyncProducer("ops", compresstype="LZ4")  # refused
rmq.AsyncProducer("ops", topics=7)  # refused
rmq.TransactionProducer("ops", check=check, topics=["flights"], check_request_hold_max=10)
rmq.TransactionProducer("ops", check=check, topic=["flights"])  # refused
rmq.AsyncTransactionProducer("ops", check=check, batch_max_bytes=1_024)
rmq.AsyncTransactionProducer("ops", check=check, batch_max_bytes="1 KiB")  # refused
rmq.PushConsumer("delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_timeout_ms=0)
rmq.PushConsumer("delays", consume_timeout=0)  # refused
rmq.PushConsumer("delays", message_model=7)  # refused
rmq.AsyncPushConsumer("delays", unreadable_body=rmq.UnreadableBody.SKIP, record="decisions")
rmq.AsyncPushConsumer("delays", max_reconsume_time=3)  # refused
rmq.AsyncPushConsumer("delays", record=7)  # refused
rmq.PullConsumer("backfill", auto_commit=False, poll_timeout_ms=10)
rmq.PullConsumer("backfill", autocommit=False)  # refused
rmq.PullConsumer("backfill", consume_thread_count=2)  # refused
rmq.AsyncPullConsumer("backfill", pull_batch_size=10)
rmq.AsyncPullConsumer("backfill", pull_batch_size="10")  # refused
rmq.Admin(mq_client_api_timeout_ms=1_000).create_group("delays", retry_max_times=3)
rmq.Admin(timeout_ms=1_000)  # refused
rmq.Admin().create_group("delays", retry_times=3)  # refused
rmq.AsyncAdmin(access_key="a", secret_key="b")
rmq.AsyncAdmin(acces_key="a")  # refused
rmq.DeadLetters("delays", namespace="ns")
rmq.DeadLetters("delays", name_space="ns")  # refused
rmq.AsyncDeadLetters("delays", tls=False)
rmq.AsyncDeadLetters("delays", tls="yes")  # refused


def options_of_mine(**options: Unpack[rmq.ProducerOptions]) -> rmq.Producer:
    return rmq.Producer("ops", **options)


options_of_mine(auto_batch=True)
options_of_mine(autobatch=True)  # refused


def how_to_send(producer: rmq.Producer) -> None:
    future: concurrent.futures.Future[rmq.SendResult] = producer.send_async(message, sharding_key="N14228", delay_level=3)
    producer.send_async(message, shardingkey="N14228")  # refused
    producer.send_async(message, timeout_ms="3s")  # refused
    producer.request_async(message, timeout_ms=1_000)
    producer.request_async(message, delay_level=3)  # refused


async def how_to_send_async(producer: rmq.AsyncProducer) -> None:
    future: asyncio.Future[rmq.SendResult] = producer.send_async(message, timeout_ms=None)
    producer.send_async(message, key="N14228")  # refused


async def iterations(consumer: rmq.PushConsumer, other: rmq.AsyncPushConsumer) -> None:
    with consumer.messages() as messages:
        for message in messages:
            message.ack()
            message.nack("later", delay_ms=60_000)
            message.nack(delay="60s")  # refused
            message.dead_letter("never")
    async with other.messages(orderly=True) as later:
        async for one in later:
            body: bytes = one.body
            with one.process() as same:
                number: int = same.reconsume_times
        for one in later:  # refused
            pass
    other.messages(order=True)  # refused


def values(read: Callable[[bytes], int]) -> None:
    rmq.PushConsumer("delays", value_deserializer=read)
    rmq.PushConsumer("delays", value_deserializer={"flights": read, "notes": rmq.text_deserializer})
    rmq.PushConsumer("delays", value_deserializer=7)  # refused
    rmq.PullConsumer("delays", value_deserializer=rmq.json_deserializer)
    producer = rmq.Producer("ops", value_serializer=rmq.json_serializer)
    producer.send(producer.message("flights", {"id": 7}, keys="k"))
    producer.message("flights", {"id": 7}, key="k")  # refused
    rmq.Producer("ops", value_serializer=str)  # refused


def listeners(consumer: rmq.PushConsumer, other: rmq.AsyncPushConsumer) -> None:
    @consumer.on_message
    def one(message: rmq.MessageExt) -> None: ...

    @consumer.on_message
    async def later(message: rmq.MessageExt) -> None: ...

    @consumer.concurrent_listener
    def several(messages: Sequence[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> rmq.ConsumeConcurrentlyStatus:
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    @other.concurrent_listener(batch_size=8)
    async def several_later(
        messages: Sequence[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext
    ) -> rmq.ConsumeConcurrentlyStatus | None:
        return None

    @consumer.orderly_listener(batch_size=8)
    def in_order(messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUCCESS

    @consumer.concurrent_listener
    def of_a_list(messages: list[rmq.MessageExt], context: rmq.ConsumeConcurrentlyContext) -> rmq.ConsumeConcurrentlyStatus:
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    @other.concurrent_listener(batch_size=8)
    async def of_a_tuple(
        messages: tuple[rmq.MessageExt, ...], context: rmq.ConsumeConcurrentlyContext
    ) -> rmq.ConsumeConcurrentlyStatus:
        return rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    @other.orderly_listener
    async def a_list_in_order(messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUCCESS

    @consumer.orderly_listener(batch_size=8)
    def a_tuple_in_order(messages: tuple[rmq.MessageExt, ...], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUCCESS

    class Order:
        total: float

    @consumer.on_message
    def of_orders(message: rmq.MessageExt[Order]) -> None:
        total: float = message.value.total
        message.value.sum  # refused

    listener: Callable[[list[rmq.MessageExt], rmq.ConsumeOrderlyContext], rmq.ConsumeOrderlyStatus] = consumer.orderly_listener(
        batch_size=8
    )(in_order)

    def of_a_set(messages: set[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUCCESS

    def of_numbers(messages: list[int], context: rmq.ConsumeConcurrentlyContext) -> None: ...

    consumer.orderly_listener(of_a_set)  # refused
    consumer.concurrent_listener(of_numbers)  # refused

    def of_two(messages: Sequence[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        return rmq.ConsumeOrderlyStatus.SUCCESS

    consumer.on_message(of_two)  # refused
    other.on_message(of_two)  # refused
    consumer.concurrent_listener(of_two)  # refused
    other.concurrent_listener(of_two)  # refused
    consumer.orderly_listener(one)  # refused
    consumer.orderly_listener(batchsize=8)  # refused


def embedded(rocketmq: EmbeddedRocketMQ) -> None:
    rocketmq.producer("ops", auto_batch=True)
    rocketmq.producer("ops", autobatch=True)  # refused
    rocketmq.push_consumer("delays", pull_interval=1)  # refused
    rocketmq.pull_consumer("delays", poll_timeout=1)  # refused
    rocketmq.admin(timeout_ms=1)  # refused
    rocketmq.clock.advance(1_000)
    rocketmq.clock.advanc(1_000)  # refused
    moved: ManualClock = EmbeddedRocketMQ().clock
    EmbeddedRocketMQ(clock="manual").start().clock.advance(1_000)
    with EmbeddedRocketMQ(clock=rocketmq.clock, messageDelayLevel="1s") as other:
        other.clock.advance(1_000)
    EmbeddedRocketMQ(clock=SystemClock()).clock.advance(1_000)  # refused
    EmbeddedRocketMQ(clock="real")  # refused
    EmbeddedRocketMQ(7)  # refused


def a_fixture_of_real_time() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as rocketmq:
        embedded(rocketmq)
        yield rocketmq
"""
REFUSED = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# refused")}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "uses_of_the_public_face.py"
    file.write_text(PROGRAM, "utf-8")
    return file


def test_mypy_refuses_what_is_misspelt_or_mistyped_and_nothing_else(program):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    said = {int(number): text for number, text in re.findall(rf"{program.name}:(\d+): error: (.*)", done.stdout)}
    assert said.keys() == REFUSED, done.stdout + done.stderr


def test_pyright_refuses_what_is_misspelt_or_mistyped_and_nothing_else(program):
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")]}
    (program.parent / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(program.parent)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=program.parent)
    found = json.loads(done.stdout)["generalDiagnostics"]
    said = {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}
    assert said == REFUSED, "\n".join(f"{one['range']['start']['line'] + 1}: {one['message']}" for one in found)

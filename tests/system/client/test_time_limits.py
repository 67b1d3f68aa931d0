# SPDX-License-Identifier: Apache-2.0
"""A send ends within its timeout, and one peer that is silent, deaf or gone costs nobody else. Real sockets, real time.

Limits are several times what is needed: a loaded machine is no failure, a hang is.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from interop.child import poll_until
from interop.middleman import Middleman
from sprocketmq.broker import Broker
from sprocketmq.testing import HEARTBEATS, EmbeddedRocketMQ
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.recall_handle import RecallHandle

pytestmark = pytest.mark.timeout(120)

SLACK_S = 4.0  # of a loaded machine


@pytest.fixture
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as started:
        yield started


@pytest.fixture
def second(server: EmbeddedRocketMQ) -> Iterator[Broker]:
    broker = Broker(namesrv_addr=server.namesrv_addr, host="127.0.0.1", port=0, broker_name="broker-b")
    broker.start()
    yield broker
    broker.stop()


@contextlib.contextmanager
def unreachable(port: int = 0) -> Iterator[str]:
    """An address at which connecting takes for ever: the queue of those who wait to be accepted is full."""
    with contextlib.ExitStack() as open_sockets:
        listening = open_sockets.enter_context(socket.socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(0)
        for _ in range(4):
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def ended(sends: list[Awaitable[object]], limit_s: float) -> list[object]:
    """Their results or exceptions; those that did not end in time are missing."""
    tasks = [asyncio.ensure_future(send) for send in sends]
    done, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return [task.exception() or task.result() for task in done]


TIMEOUT_MS = 300

HOW: dict[str, Callable[[rmq.AsyncTransactionProducer], Awaitable[object]]] = {
    "any queue": lambda producer: producer.send(rmq.Message("flights", b"x")),
    "a queue": lambda producer: producer.send(
        rmq.Message("flights", b"x"), queue=rmq.MessageQueue("flights", "broker-a", 0)
    ),
    "sharding key": lambda producer: producer.send(rmq.Message("flights", b"x"), sharding_key="N1"),
    "selector": lambda producer: producer.send(rmq.Message("flights", b"x"), selector=lambda queues, _: queues[0]),
    "later": lambda producer: producer.send_async(rmq.Message("flights", b"x")),
    "batch": lambda producer: producer.send_batch([rmq.Message("flights", b"x")]),
    "batch with a key": lambda producer: producer.send_batch([rmq.Message("flights", b"x")], sharding_key="N1"),
    "one-way": lambda producer: producer.send_oneway(rmq.Message("flights", b"x")),
    "one-way with a key": lambda producer: producer.send_oneway(rmq.Message("flights", b"x"), sharding_key="N1"),
    "in a transaction": lambda producer: producer.send_in_transaction(rmq.Message("flights", b"x"), execute=_commit),
    "request": lambda producer: producer.request(rmq.Message("flights", b"x"), timeout_ms=TIMEOUT_MS),
    "reply": lambda producer: producer.reply(_ASKED, b"x"),
    "recall": lambda producer: producer.recall("flights", RecallHandle("flights", "broker-a", "1", "2").encode()),
}
_ASKED = rmq.Message("flights", b"?")
_ASKED.properties.update(CLUSTER="DefaultCluster", REPLY_TO_CLIENT="somebody", CORRELATION_ID="1")


def _commit(message: rmq.Message) -> rmq.LocalTransactionState:
    return rmq.LocalTransactionState.COMMIT_MESSAGE


def _producer(namesrv_addr: str, **options: Any) -> rmq.AsyncTransactionProducer:
    """One that can send in every way."""
    return rmq.AsyncTransactionProducer(
        "ops", check=_commit, namesrv_addr=namesrv_addr, send_msg_timeout_ms=TIMEOUT_MS, **options
    )


async def _failed_after_s(send: Awaitable[object]) -> float:
    began_s = time.monotonic()
    with pytest.raises((rmq.NetworkError, rmq.RequestTimeout)):
        await send
    return time.monotonic() - began_s


@pytest.mark.parametrize("gathers", [False, True], ids=["", "auto_batch"])
@pytest.mark.parametrize("how", HOW)
def test_a_send_that_no_name_server_can_be_asked_for_ends_in_time(how, gathers):
    async def run(addresses: str) -> float:
        # A question may take long: it is the send's own limit that ends it.
        async with _producer(addresses, auto_batch=gathers, mq_client_api_timeout_ms=9_000) as producer:
            return await _failed_after_s(HOW[how](producer))

    with unreachable() as one, unreachable() as two:
        assert asyncio.run(run(f"{one};{two}")) < TIMEOUT_MS / 1000 + SLACK_S / 2, "two dead name servers take 6 s"


@pytest.mark.parametrize("how", HOW)
def test_a_send_to_a_broker_that_cannot_be_reached_ends_in_time(server, how):
    server.create_topic("flights", 2)

    async def run() -> float:
        async with _producer(server.namesrv_addr) as producer:
            for topic in ("flights", "DefaultCluster_REPLY_TOPIC"):
                await producer.publish_queues(topic)
            port = server.broker.port
            server.broker.stop()
            with unreachable(port):
                return await _failed_after_s(HOW[how](producer))

    # A broker that ended says so to the name server; the producer still has its route.
    assert asyncio.run(run()) < 2.0, "connecting alone takes 3 s"


def test_the_end_of_a_transaction_whose_broker_cannot_be_reached_is_given_up_in_time(server):
    server.create_topic("flights", 2)

    async def run() -> float:
        async with _producer(server.namesrv_addr) as producer:
            with contextlib.ExitStack() as gone:
                ended_s = 0.0

                async def execute(message: rmq.Message) -> rmq.LocalTransactionState:
                    nonlocal ended_s
                    port = server.broker.port
                    server.broker.stop()
                    gone.enter_context(unreachable(port))
                    instance = producer._instance
                    assert instance is not None
                    while instance.cluster.pool.addresses != [server.namesrv_addr]:
                        await asyncio.sleep(0.01)
                    ended_s = time.monotonic()
                    return rmq.LocalTransactionState.COMMIT_MESSAGE

                await producer.send_in_transaction(rmq.Message("flights", b"x"), timeout_ms=10_000, execute=execute)
                return time.monotonic() - ended_s

    assert asyncio.run(run()) < 2.0, "connecting alone takes 3 s"


@pytest.fixture
def behind() -> Iterator[tuple[EmbeddedRocketMQ, Middleman]]:
    """A broker that clients reach through a middleman: it calls itself 127.0.0.2, where the middleman listens."""
    with EmbeddedRocketMQ(clock="system", brokerIP1="127.0.0.2") as server:
        port = server.broker.port
        with Middleman(f"127.0.0.1:{port}", f"127.0.0.2:{port}") as middleman:
            server.create_topic("flights", 4)
            yield server, middleman


def test_sends_to_a_broker_that_does_not_read_end_in_time_and_leave_nothing_open(behind):
    server, middleman = behind

    async def run() -> None:
        async with rmq.AsyncProducer(
            "ops", namesrv_addr=server.namesrv_addr, retry_times_when_send_failed=0
        ) as producer:
            await producer.send(rmq.Message("flights", b"passes"))
            instance = producer._instance
            assert instance is not None
            connection = await instance.cluster.pool.connection(middleman.address)
            await asyncio.to_thread(middleman.set_mood, "deaf")
            body = random.Random(1).randbytes(200_000)
            sends = [producer.send(rmq.Message("flights", body), timeout_ms=1_000) for _ in range(60)]
            found = await ended(sends, 1.0 + SLACK_S)
            assert len(found) == 60, "each send ends"
            assert all(isinstance(one, rmq.NetworkError | rmq.RequestTimeout) for one in found)
            for _ in range(100):
                if connection.is_gone:
                    break
                await asyncio.sleep(0.05)
            assert connection.is_gone, "what the peer does not read keeps no connection open"
            await asyncio.to_thread(middleman.set_mood, "pass")
            assert (await producer.send(rmq.Message("flights", b"again"))).status is rmq.SendStatus.SEND_OK

    asyncio.run(run())


def test_a_one_way_send_to_a_broker_that_does_not_read_ends_in_time(behind):
    server, middleman = behind

    async def run() -> None:
        # Nothing is compressed: 12 MB of it take the loop longer than the limit.
        async with _producer(server.namesrv_addr, compress_msg_body_over_bytes=1 << 22) as producer:
            await producer.send(rmq.Message("flights", b"passes"))
            await asyncio.to_thread(middleman.set_mood, "deaf")
            body = random.Random(1).randbytes(200_000)
            sends = [producer.send_oneway(rmq.Message("flights", body)) for _ in range(60)]
            found = await ended(sends, TIMEOUT_MS / 1000 + SLACK_S / 2)
            assert len(found) == 60, "each ends; the connection's own limit is 15 s"
            assert any(isinstance(one, rmq.RequestTimeout) for one in found), "all were written: nothing was shown"
            await asyncio.to_thread(middleman.set_mood, "cut")

    asyncio.run(run())


@pytest.mark.parametrize("mood", ["deaf", "silent"])
def test_batched_sends_to_a_broker_that_does_not_answer_end_in_time(behind, mood):
    server, middleman = behind

    async def run() -> None:
        options = {"auto_batch": True, "send_msg_timeout_ms": 1_000}
        async with rmq.AsyncProducer("ops", namesrv_addr=server.namesrv_addr, **options) as producer:
            await producer.send(rmq.Message("flights", b"passes"))
            await asyncio.to_thread(middleman.set_mood, mood)
            body = random.Random(1).randbytes(1_000)
            sends = [
                producer.send_async(rmq.Message("flights", body), sharding_key=f"N{number % 8}")
                for number in range(5_000)
            ]
            found = await ended(list(sends), 1.0 + SLACK_S)
            assert len(found) == 5_000, "each send ends, also those behind others of their queue"
            await asyncio.to_thread(middleman.set_mood, "cut")

    asyncio.run(run())


def test_a_silent_connection_to_a_name_server_is_given_up(server):
    server.create_topic("flights", 2)
    with (
        Middleman(server.namesrv_addr) as middleman,
        rmq.Producer("ops", namesrv_addr=middleman.address, mq_client_api_timeout_ms=300) as producer,
    ):
        assert producer.send(rmq.Message("flights", b"x")).status is rmq.SendStatus.SEND_OK
        middleman.set_mood("silent")
        before = middleman.connections
        for _ in range(3):
            with pytest.raises(rmq.RequestTimeout):
                producer.publish_queues("unknown")
        assert middleman.connections >= before + 2, "each time a new connection is tried"
        middleman.set_mood("pass")
        assert len(producer.publish_queues("unknown")) == 4


def test_heartbeats_to_other_brokers_are_not_delayed_by_a_frozen_one(server, second):
    server.create_topic("flights", 2)
    frozen: list[float] = []
    heard: list[float] = []

    def look(command: Command) -> bool:
        heard.append(time.monotonic())
        return False

    def swallow(connection: object, command: Command, handler: Callable[..., Command | None]) -> Command | None:
        if command.code in map(int, HEARTBEATS):
            frozen.append(time.monotonic())
            return None
        return handler(connection, command)

    with rmq.Admin(namesrv_addr=server.namesrv_addr) as admin:
        admin.create_topic("flights", queues=2)
    second.intercept = swallow
    server.faults.drop(HEARTBEATS, times=None, when=look)
    with rmq.Producer("ops", namesrv_addr=server.namesrv_addr, heartbeat_broker_interval_ms=1_100) as producer:
        poll_until(lambda: len({queue.broker_name for queue in producer.publish_queues("flights")}) == 2, "both known")
        poll_until(lambda: len(frozen) >= 2, "the frozen broker was asked twice")
        begin_s = time.monotonic()
        poll_until(lambda: len([at_s for at_s in heard if at_s >= begin_s]) >= 4, "heartbeats go on")
        assert time.monotonic() - begin_s < 4 * 1.1 + SLACK_S, (
            "each is due after 1.1 s; with the other's timeouts 4.1 s"
        )


class _Answering:
    """A consumer that replies to each message."""

    def __init__(self, namesrv_addr: str, replier: rmq.Producer) -> None:
        self.consumer = rmq.PushConsumer("answering", namesrv_addr=namesrv_addr)
        self.consumer.subscribe("flights")
        self.consumer.on_message(lambda message: replier.reply(message, b"yes"))
        self.consumer.start()

    def close(self) -> None:
        self.consumer.shutdown()


def test_a_request_is_answered_while_another_broker_of_its_topic_is_down(server, second):
    with rmq.Admin(namesrv_addr=server.namesrv_addr) as admin:
        admin.create_topic("flights", queues=2)
    with (
        rmq.Producer("ops", namesrv_addr=server.namesrv_addr) as producer,
        rmq.Producer("repliers", namesrv_addr=server.namesrv_addr) as replier,
        contextlib.closing(_Answering(server.namesrv_addr, replier)) as answering,
    ):
        consumer = answering.consumer
        poll_until(lambda: len(consumer.assigned_queues) >= 4, "all queues are read")
        poll_until(lambda: len(producer.publish_queues("flights")) == 4, "both brokers are known")
        assert producer.request(rmq.Message("flights", b"?"), timeout_ms=10_000).body == b"yes"
        second.stop()
        for _ in range(4):
            assert producer.request(rmq.Message("flights", b"?"), timeout_ms=10_000).body == b"yes"


def test_a_topic_that_is_sent_into_being_has_as_many_queues_as_its_producer_says(server):
    with rmq.Producer("ops", namesrv_addr=server.namesrv_addr, default_topic_queue_nums=2) as producer:
        producer.send(rmq.Message("new", b"x"))
        assert len(producer.publish_queues("new")) == 2

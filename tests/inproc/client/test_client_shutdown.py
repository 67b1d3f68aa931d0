# SPDX-License-Identifier: Apache-2.0
"""Shutting down from within, half way, twice, too early; and clients that nobody shuts down."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest
from recorder import Held, Recorder, noted, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.client import async_client
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.requests.consumers import HEART_BEAT

LIMIT_S = 30


def _members(rocketmq: EmbeddedRocketMQ, group: str = "delays") -> list[str]:
    with rocketmq.admin() as admin:
        try:
            return admin.consumer_ids(group)
        except rmq.GroupNotExist:  # nobody of it was ever here
            return []


@pytest.mark.parametrize("kind", ["message", "orderly"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_listener_may_shut_its_consumer_down(rocketmq, producer, consumers, kind, is_async):
    returned = threading.Event()
    answer = rmq.ConsumeOrderlyStatus.SUCCESS if kind == "orderly" else None

    def plain(*_: Any) -> Any:
        consumer.shutdown()
        returned.set()
        return answer

    async def asynchronous(*_: Any) -> Any:
        await asyncio.ensure_future(consumer._async.shutdown())  # the task that the listener starts is part of its call
        returned.set()
        return answer

    # Far beyond the test's own limit: who waits for itself is found.
    consumer = consumers(asynchronous if is_async else plain, kind=kind, await_termination_ms=600_000)
    send_all(producer, ["x"])
    assert returned.wait(LIMIT_S)
    consumer.shutdown()  # from outside: waits for the listener and all the rest
    assert _members(rocketmq) == []
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}, "the listener's result was lost"


def test_a_check_may_shut_its_producer_down(rocketmq):
    returned = threading.Event()

    def check(message: rmq.MessageExt) -> rmq.LocalTransactionState:
        producer.shutdown()
        returned.set()
        return rmq.LocalTransactionState.COMMIT_MESSAGE

    producer = rmq.TransactionProducer("ops", check=check, namesrv_addr=rocketmq.namesrv_addr, clock=rocketmq.clock)
    producer.start()
    producer.send_in_transaction(
        rmq.Message("flights", b"x"), execute=lambda message: rmq.LocalTransactionState.UNKNOWN
    )
    rocketmq.advance_until(returned.is_set, step_ms=10_000)
    producer.shutdown()
    with pytest.raises(rmq.ClosedError, match="not started or was shut down"):
        producer.send(rmq.Message("flights", b"x"))


def test_a_cancelled_shutdown_goes_on_and_whoever_calls_again_waits_for_it(rocketmq, producer, consumers):
    held = Held()
    consumer = consumers(held, await_termination_ms=600_000)
    keeper = consumers(Recorder(), group="keeper")  # a second, so that the engine has more to do than this one
    send_all(producer, ["x"])
    assert held.running.wait(LIMIT_S)

    async def cancel_one_shutdown() -> list[bool]:
        first = asyncio.ensure_future(consumer._async.shutdown())
        second = asyncio.ensure_future(consumer._async.shutdown())
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        third = asyncio.ensure_future(consumer._async.shutdown())
        await asyncio.sleep(0.05)
        early = [first.cancelled(), second.done(), third.done()]
        held.release.set()
        await asyncio.wait_for(asyncio.gather(second, third), LIMIT_S)
        return early

    assert keeper._engine.run(cancel_one_shutdown()) == [True, False, False]
    assert _members(rocketmq) == []
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}


def test_two_starts_at_once_make_one_member(rocketmq):
    rocketmq.create_topic("flights", queues=2)
    consumer = rocketmq.push_consumer("delays")
    consumer.subscribe("flights")
    consumer.on_message(Recorder())
    pull = rocketmq.pull_consumer("backfill")
    pull.subscribe("flights")

    async def start_twice(client: Any) -> None:
        await asyncio.gather(client.start(), client.start())

    for client in (consumer, pull):
        client._engine.run(start_twice(client._async))
    assert len(_members(rocketmq)) == 1
    assert len(_members(rocketmq, "backfill")) == 1
    assert [queue.topic for queue in consumer.assigned_queues].count("flights") == 2
    consumer.shutdown()
    pull.shutdown()
    assert _members(rocketmq) == _members(rocketmq, "backfill") == []


def test_a_shutdown_while_it_starts_ends_the_start(rocketmq, consumers):
    rocketmq.create_topic("flights", queues=2)
    consumer = consumers(Recorder(), start=False, mq_client_api_timeout_ms=1_000)

    async def both() -> BaseException | None:
        start = asyncio.ensure_future(consumer._async.start())
        await asyncio.wait([start], timeout=0.1)
        assert not start.done(), "its heartbeat is not answered yet"
        await asyncio.wait_for(consumer._async.shutdown(), LIMIT_S)
        return start.exception()

    with rocketmq.faults.drop(RequestCode.HEART_BEAT, times=None):
        failure = consumer._engine.run(both())
    assert isinstance(failure, rmq.ClosedError)
    assert "was shut down while it started" in str(failure)
    assert _members(rocketmq) == []
    with pytest.raises(rmq.ClosedError, match="make a new one"):
        consumer.start()


@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_a_shutdown_that_meets_the_end_of_a_start_leaves_all_the_same(rocketmq, admin, consumers, kind):
    """The keeper's connection stays open: only who says that it leaves is gone."""
    keeper = consumers(Recorder(), group="keeper", instance_name="shared")
    options = {"namesrv_addr": rocketmq.namesrv_addr, "clock": rocketmq.clock, "instance_name": "shared"}

    async def meet() -> None:
        client: Any
        if kind == "producer":
            client = rmq.AsyncProducer("delays", topics=["flights"], **options)
        else:
            client = rmq.AsyncPushConsumer("delays", **options)
            client.subscribe("flights")
            client.on_message(lambda message: None)
        parts = client._make
        ends: list[asyncio.Task[None]] = []

        def make() -> Any:
            made = parts()
            start = made.start

            async def started() -> None:
                await start()
                ends.append(asyncio.ensure_future(client.shutdown()))
                for _ in range(2 if kind == "producer" else 1):
                    await asyncio.sleep(
                        0
                    )  # the shutdown wants the opening cancelled, in the very turn in which it ends

            made.start = started
            return made

        client._make = make
        with pytest.raises(rmq.ClosedError, match="while it started"):
            await client.start()
        await asyncio.wait_for(asyncio.gather(*ends), LIMIT_S)

    keeper._engine.run(meet())
    assert _members(rocketmq) == []
    assert admin.producer_connection("delays", "flights") == []


def test_a_cancelled_start_leaves_nothing_and_may_be_repeated(rocketmq, producer, consumers):
    rocketmq.create_topic("flights", queues=2)
    recorder = Recorder()
    consumer = consumers(recorder, start=False, mq_client_api_timeout_ms=1_000)

    async def cancelled() -> None:
        start = asyncio.ensure_future(consumer._async.start())
        await asyncio.wait([start], timeout=0.1)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)

    with rocketmq.faults.drop(RequestCode.HEART_BEAT, times=1):
        consumer._engine.run(cancelled())
    rocketmq.wait_until(lambda: consumer._async.is_stopped)
    assert _members(rocketmq) == []
    consumer.start()
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: recorder.bodies == ["x"])


def _subscribe_in_start(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer, *subscription: str) -> None:
    """Starts the consumer, and subscribes while its heartbeat waits for the answer."""

    async def start() -> None:
        starting = asyncio.ensure_future(consumer._async.start())
        while not late.hits:
            await asyncio.sleep(0.01)
        consumer._async.subscribe(*subscription)
        # Until it has started: the answer may not be written yet when its request has been counted.
        threading.Thread(
            target=rocketmq.advance_until, args=(starting.done,), kwargs={"step_ms": 1}, daemon=True
        ).start()
        await starting

    with rocketmq.faults.delay_answer(RequestCode.HEART_BEAT, 1, times=1) as late:
        consumer._engine.run(start())


def test_what_was_subscribed_while_it_started_is_consumed(rocketmq, producer, consumers):
    for topic in ("flights", "delays"):
        rocketmq.create_topic(topic, queues=1)
    recorder = Recorder()
    consumer = consumers(recorder, start=False)

    _subscribe_in_start(rocketmq, consumer, "delays")
    rocketmq.advance_until(lambda: {queue.topic for queue in consumer.assigned_queues} >= {"flights", "delays"})
    producer.send(rmq.Message("delays", b"late"))
    rocketmq.advance_until(
        lambda: recorder.bodies == ["late"]
    )  # a first pull may have come before the broker heard of it


def test_a_filter_that_changes_while_its_consumer_starts_holds(rocketmq, producer, consumers):
    recorder = Recorder()
    consumer = consumers(recorder, start=False, post_subscription_when_pull=True)
    filters = noted(rocketmq, RequestCode.PULL_MESSAGE, lambda command: command.ext_fields.get("subscription"))

    _subscribe_in_start(rocketmq, consumer, "flights", "UA")
    rocketmq.advance_until(lambda: "UA" in filters, limit_ms=60_000)
    for tag in ("DL", "UA"):
        producer.send(rmq.Message("flights", tag.encode(), tags=tag))
    rocketmq.advance_until(lambda: recorder.bodies == ["UA"], limit_ms=60_000)


@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_a_late_heartbeat_does_not_add_a_member_that_has_left(rocketmq, admin, consumers, kind):
    keeper = consumers(Recorder(), group="keeper", instance_name="shared")
    leaver = (
        consumers(Recorder(), instance_name="shared")
        if kind == "consumer"
        else rocketmq.producer("delays", instance_name="shared", topics=["flights"])
    )
    leaver.start()
    running = parts_of(keeper)
    instance = running.instance
    told = instance.cluster.ask

    async def leave() -> None:
        connected = asyncio.Event()

        async def slowly(asked: Any, *args: Any, **how: Any) -> Any:
            if asked is HEART_BEAT:
                await connected.wait()  # as while its connection opens
            return await told(asked, *args, **how)

        instance.cluster.ask = slowly  # type: ignore[method-assign]
        heartbeat = asyncio.ensure_future(instance.heartbeats.send_to_all())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        shutdown = asyncio.ensure_future(leaver._async.shutdown())
        await asyncio.wait([shutdown], timeout=0.1)
        connected.set()
        await asyncio.wait_for(asyncio.gather(heartbeat, shutdown), LIMIT_S)
        instance.cluster.ask = told  # type: ignore[method-assign]

    keeper._engine.run(leave())
    assert _members(rocketmq) == []
    assert admin.producer_connection("delays", "flights") == []
    assert len(admin.consumer_ids("keeper")) == 1


def test_a_poll_that_waits_ends_with_its_consumer(rocketmq):
    consumer = rocketmq.pull_consumer("backfill")
    consumer.start()
    consumer.subscribe("flights")
    polled: list[Any] = []
    waiting = threading.Thread(target=lambda: polled.append(consumer.poll(timeout_ms=3_600_000)), daemon=True)
    waiting.start()
    consumer.shutdown()
    waiting.join(LIMIT_S)
    assert polled in ([[]], []), "nothing is handed out any more"
    assert not waiting.is_alive()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # its first loop was closed with sockets open
def test_a_client_of_a_loop_that_was_closed_is_over():
    with EmbeddedRocketMQ(clock="system") as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        producer = rmq.AsyncProducer("ops", namesrv_addr=rocketmq.namesrv_addr)

        async def send() -> None:
            await producer.start()
            await producer.send(rmq.Message("flights", b"x"))

        asyncio.run(send())
        asyncio.run(send())  # a producer may be started again, and its first loop is gone
        asyncio.run(producer.shutdown())
        assert len(rocketmq.messages("flights")) == 2
        with rocketmq.producer("another"):  # who comes next forgets the instances of closed loops
            gc.collect()


# -- forgotten clients ----------------------------------------------------------------------------------------------------------------


def _forget(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def test_a_client_without_references_shuts_down_with_a_warning(rocketmq):
    makers: list[Callable[[], Any]] = [
        lambda: rocketmq.pull_consumer("delays"),
        lambda: rocketmq.producer("ops", topics=["flights"]),
    ]
    for make in makers:
        client = make()
        if hasattr(client, "subscribe"):
            client.subscribe("flights")
        client.start()
        name = repr(client._async)[:20]
        held = [client]
        del client
        with pytest.warns(
            ResourceWarning, match=r"was not shut down before it was garbage-collected; call shutdown\(\)"
        ) as seen:
            _forget(held)
        assert any(name in str(warning.message) for warning in seen)
        with rocketmq.admin() as admin:
            rocketmq.wait_until(lambda admin=admin: not admin.consumer_ids("delays"))
            rocketmq.wait_until(lambda admin=admin: not admin.producer_connection("ops", "flights"))


def test_a_push_consumer_without_references_continues(rocketmq, producer, admin):
    """As a thread does: whether its listener holds it, by chance, must not decide whether messages come."""
    recorder = Recorder()

    def begin() -> None:
        consumer = rocketmq.push_consumer("delays")
        consumer.subscribe("flights")
        consumer.on_message(recorder)
        consumer.start()

    begin()
    gc.collect()
    producer.send(rmq.Message("flights", b"late"))
    rocketmq.wait_until(lambda: recorder.bodies == ["late"])
    (kept,) = [client for client in async_client._kept if client.group == "delays"]
    assert kept._loop is not None
    asyncio.run_coroutine_threadsafe(kept.shutdown(), kept._loop).result(30)
    assert kept not in async_client._kept
    rocketmq.wait_until(lambda: not admin.consumer_ids("delays"))


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_a_listener_may_end_its_consumer_while_it_starts(rocketmq, producer, admin, face):
    """The first messages come before ``start`` is through: "consume until done, then shut down" is no failed start."""
    producer.send(rmq.Message("flights", b"only"))
    seen: list[bytes] = []
    if face == "blocking":
        consumer = rocketmq.push_consumer("delays")
        consumer.subscribe("flights")

        @consumer.on_message
        def handle(message: Any) -> None:
            seen.append(message.body)
            consumer.shutdown()

        consumer.run_forever()
    else:

        async def run() -> None:
            consumer = rocketmq.async_push_consumer("delays")
            consumer.subscribe("flights")

            @consumer.on_message
            async def handle(message: Any) -> None:
                seen.append(message.body)
                await consumer.shutdown()

            await consumer.run_forever()

        asyncio.run(asyncio.wait_for(run(), 60))
    assert seen == [b"only"]
    rocketmq.wait_until(lambda: not admin.consumer_ids("delays"))


_PROGRAM = textwrap.dedent(
    """
    import sys
    import sprocketmq as rmq
    producer = rmq.Producer("ops", namesrv_addr=sys.argv[1], auto_batch=sys.argv[2] == "True")
    producer.start()
    for number in range(2000):
        producer.send_async(rmq.Message("flights", str(number).encode()))
    consumer = rmq.PushConsumer("delays", namesrv_addr=sys.argv[1])
    consumer.subscribe("flights")
    consumer.on_message(lambda message: None)
    consumer.start()
    print("end", flush=True)
    """
)


@pytest.mark.parametrize("auto_batch", [False, True])
def test_the_end_of_a_program_sends_what_was_begun_and_warns(rocketmq, auto_batch):
    rocketmq.create_topic("flights", queues=4)
    ended = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", _PROGRAM, rocketmq.namesrv_addr, str(auto_batch)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert ended.stdout.strip() == "end"
    sent = sorted(int(message.body) for message in rocketmq.messages("flights"))
    assert sent == list(range(2000)), f"{2000 - len(sent)} of 2000 were lost"
    for name in ("Producer(group='ops'", "PushConsumer(group='delays'"):
        assert f"{name}" in ended.stderr, ended.stderr
    assert "was not shut down before the program ended" in ended.stderr


@pytest.mark.slow
def test_the_end_of_a_program_does_not_wait_for_ever(rocketmq):
    rocketmq.create_topic("flights", queues=4)
    with rocketmq.faults.drop(RequestCode.SEND_MESSAGE_V2, times=None):
        program = _PROGRAM.replace("auto_batch=", "send_msg_timeout_ms=600_000, auto_batch=")
        ended = subprocess.run(
            [sys.executable, "-c", program, rocketmq.namesrv_addr, "False"],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    assert ended.stdout.strip() == "end"
    assert "producer 'ops' was not shut down within 5 s at the end of the program" in ended.stderr
    assert "2000 sends" in ended.stderr


# A thread that goes on when the main one has ended: concurrent.futures is shut down, and what imports it cannot be imported any more.
_LATE_PROGRAM = textwrap.dedent(
    """
    import asyncio, sys, threading

    def work(addr, what):
        threading.main_thread().join()
        import sprocketmq as rmq
        if what == "async":
            async def main():
                async with rmq.AsyncProducer("ops", namesrv_addr=addr) as producer:
                    for number in range(20):
                        await producer.send(rmq.Message("flights", b"%d" % number))
            asyncio.run(main())
            return
        yes = lambda message: rmq.LocalTransactionState.COMMIT_MESSAGE
        with rmq.TransactionProducer("ops", check=yes, namesrv_addr=addr) as producer:  # ``execute`` runs on an executor
            for number in range(20):
                producer.send_in_transaction(rmq.Message("flights", b"%d" % number), execute=yes)
        got, consumer = set(), rmq.PushConsumer("delays", consume_from_where="CONSUME_FROM_FIRST_OFFSET", namesrv_addr=addr)
        consumer.subscribe("flights")
        all_came = threading.Event()
        consumer.on_message(lambda message: (got.add(message.body), len(got) == 20 and all_came.set()) and None)
        with consumer:
            assert all_came.wait(30), got
        with rmq.Admin(namesrv_addr=addr) as admin:
            assert admin.topic_stats("flights")
        print("all came")

    threading.Thread(target=work, args=sys.argv[1:]).start()
    """
)


_STARTS_NO_THREADS = pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 starts no thread then")


@pytest.mark.parametrize("what", ["async", pytest.param("blocking", marks=_STARTS_NO_THREADS)])
def test_a_client_is_first_started_by_a_thread_when_the_main_one_has_ended(what):
    with EmbeddedRocketMQ(clock="system") as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        # asyncio's own loop resolves names with its executor.
        addr = rocketmq.namesrv_addr if what == "async" else rocketmq.namesrv_addr.replace("127.0.0.1", "localhost")
        ended = subprocess.run(
            [sys.executable, "-c", _LATE_PROGRAM, addr, what], capture_output=True, text=True, timeout=120
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended
        assert len(rocketmq.messages("flights")) == 20
        assert what == "async" or ended.stdout == "all came\n"


@pytest.mark.parametrize("auto_batch", [False, True])
def test_flush_and_shutdown_wait_for_what_send_async_began(rocketmq, auto_batch):
    rocketmq.create_topic("flights", queues=4)
    with rocketmq.producer("ops", auto_batch=auto_batch) as producer:
        first = [producer.send_async(rmq.Message("flights", str(n).encode())) for n in range(500)]
        producer.flush()
        assert all(future.done() for future in first)
        producer.flush()  # nothing to wait for
        second = [
            producer.send_async(rmq.Message("flights", str(n).encode()), sharding_key=str(n % 7)) for n in range(500)
        ]
    assert [future.result(0).status for future in (*first, *second)] == [rmq.SendStatus.SEND_OK] * 1000


def test_shutdown_waits_for_a_send_that_is_answered_late(rocketmq):
    producer = rocketmq.producer("ops")
    producer.start()
    with rocketmq.faults.delay_answer(RequestCode.SEND_MESSAGE_V2, 1_000, times=1) as late:
        sent = producer.send_async(rmq.Message("flights", b"x"))
        ending = threading.Thread(target=producer.shutdown, daemon=True)
        ending.start()
        rocketmq.wait_until(lambda: late.hits)
        ending.join(0.3)
        assert ending.is_alive()
        rocketmq.advance(1_000)
        assert sent.result(LIMIT_S).status is rmq.SendStatus.SEND_OK
        ending.join(LIMIT_S)
        assert not ending.is_alive()


@pytest.mark.parametrize("auto_batch", [False, True])
def test_flush_waits_for_what_was_given_before_it_and_for_nothing_that_comes_meanwhile(rocketmq, auto_batch):
    sends = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    answered_late = rocketmq.faults.delay_answer(sends, 500, when=lambda command: b"before" in bytes(command.body))
    rocketmq.faults.delay_answer(sends, 60_000, when=lambda command: b"meanwhile" in bytes(command.body))

    async def begin() -> tuple[asyncio.Future[rmq.SendResult], asyncio.Future[None]]:
        await producer.start()
        return producer.send_async(rmq.Message("flights", b"before")), asyncio.ensure_future(producer.flush())

    async def send_meanwhile() -> asyncio.Future[rmq.SendResult]:
        return producer.send_async(rmq.Message("flights", b"meanwhile"))

    producer = rocketmq.async_producer("ops", auto_batch=auto_batch)
    engine = Engine("flush")
    before, flush = engine.run(begin())
    rocketmq.wait_until(lambda: answered_late.hits)
    meanwhile = engine.run(send_meanwhile())
    assert not flush.done()
    rocketmq.advance(500)
    engine.run(asyncio.wait_for(flush, LIMIT_S))
    assert before.done()
    assert not meanwhile.done()
    rocketmq.faults.clear()
    rocketmq.advance(60_000)
    engine.run(producer.shutdown())
    assert meanwhile.result().status is rmq.SendStatus.SEND_OK
    engine.close()


@pytest.mark.parametrize("kind", ["message", "batch", "orderly", "async"])
def test_a_shutdown_names_the_messages_that_it_does_not_wait_for(rocketmq, producer, kind, monkeypatch, caplog):
    monkeypatch.setattr("sprocketmq.client.consume.running_consumer._SHUTDOWN_WARNING_S", 0.01)
    consumer = rocketmq.push_consumer(
        "delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, await_termination_ms=300
    )
    consumer.subscribe("flights")
    began: list[str] = []
    goes_on = threading.Event()

    def listen(messages: list[rmq.MessageExt], context: object) -> object:
        began.extend(one.message_id for one in messages)
        goes_on.wait(60)
        return None

    async def hang(message: rmq.MessageExt) -> None:
        began.append(message.message_id)
        await asyncio.sleep(3_600)

    if kind == "message":
        consumer.on_message(lambda message: listen([message], None))
    elif kind == "async":
        consumer.on_message(hang)
    elif kind == "batch":
        consumer.concurrent_listener(batch_size=4)(listen)
    else:
        consumer.orderly_listener(listen)
    producer.send(rmq.Message("flights", b"x"))
    consumer.start()
    rocketmq.advance_until(lambda: began)
    try:
        consumer.shutdown()
    finally:
        goes_on.set()
    told = [line for line in caplog.messages if "shutdown waits for 1 listener call, up to 300 ms" in line]
    cut_off = [line for line in caplog.messages if "still runs after 300 ms" in line]
    assert len(told) == len(cut_off) == 1
    assert cut_off[0].endswith(f"is delivered again: {began[0]}")

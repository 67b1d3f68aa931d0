# SPDX-License-Identifier: Apache-2.0
"""Starting, sharing, shutting down: what a client takes it gives back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from recorder import HELD_S, Held, Recorder, open_sockets, parts_of, send_all

import sprocketmq as rmq
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.core.lifecycle import LifeState
from sprocketmq.net.process.engine import Engine
from sprocketmq.net.process.stop_signals import stop_signals

LOOPS: Final = ("asyncio", "uvloop")
SIGNALS: Final = tuple(stop_signals())


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts the handlers of both signals back after the test."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _run_on(loop: str, main: Callable[[], Any]) -> None:
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


def _ran(program: str, *arguments: str) -> tuple[int, list[str]]:
    """Its exit code, and the lines that it printed."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()


async def _one_thread_for_libraries() -> None:
    """The broker may need it at any moment, so it is there before the count; and no second one: a pool begins another
    where the first has handed over its result and is not back yet."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    await asyncio.to_thread(int)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts sockets in /proc")
def test_shutdown_leaves_no_thread_no_socket_and_no_task(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, [str(n) for n in range(100)])
    assert rocketmq._engine is not None
    rocketmq._engine.run(_one_thread_for_libraries())
    threads, sockets = set(threading.enumerate()), open_sockets()
    engine = Engine("client-under-test")
    for orderly in (False, True):
        recorder = Recorder()
        consumer = rocketmq.push_consumer(
            f"group-{orderly}", engine=engine, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
        )
        consumer.subscribe("flights")
        if orderly:
            consumer.orderly_listener(
                lambda messages, context, r=recorder: r(messages[0]) or rmq.ConsumeOrderlyStatus.SUCCESS
            )
        else:
            consumer.on_message(recorder)
        with consumer, rocketmq.producer("p", engine=engine) as p:
            send_all(p, ["more"])
            rocketmq.wait_until(lambda recorder=recorder: len(recorder) >= 101)

    async def tasks() -> list[str]:
        await asyncio.sleep(0)
        return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert engine.run(tasks()) == []
    engine.close()
    rocketmq.wait_until(lambda: set(threading.enumerate()) <= threads)
    rocketmq.wait_until(lambda: open_sockets() <= sockets)
    assert ClientInstance._instances.keys() == {
        key for key, one in ClientInstance._instances.items() if one._loop is Engine.shared().loop
    }


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
def test_shutdown_waits_for_the_running_listener_and_keeps_its_result(rocketmq, producer, consumers, fails):
    held = Held(failure=ValueError("cannot read this") if fails else None)
    consumer = consumers(held)
    send_all(producer, ["x"])
    assert held.running.wait(10)
    threading.Timer(0.2, held.release.set).start()
    consumer.shutdown()
    assert rocketmq.consumer_offset("delays", "flights") == {0: 1}
    assert len(rocketmq.messages("SCHEDULE_TOPIC_XXXX")) == fails  # a failed message was sent back before the end


def test_a_listener_that_does_not_end_is_left_and_its_message_comes_again(rocketmq, producer, consumers):
    held = Held()
    consumer = consumers(held, await_termination_ms=50)
    send_all(producer, ["x"])
    assert held.running.wait(10)
    consumer.shutdown()
    held.release.set()
    assert rocketmq.consumer_offset("delays", "flights").get(0, 0) == 0
    again = Recorder()
    consumers(again)
    rocketmq.wait_until(lambda: again.bodies == ["x"])


def test_clients_that_shut_down_unregister_at_all_brokers(rocketmq, admin, second_broker, consumers):
    admin.create_topic("flights", queues=1)
    keeper = consumers(Recorder(), group="other", instance_name="shared")
    consumer = consumers(Recorder(), instance_name="shared")
    producer = rocketmq.producer("ops", instance_name="shared", topics=["flights"])
    producer.start()
    brokers = rocketmq.broker, second_broker
    rocketmq.advance_until(lambda: all("ops" in broker.producers.groups for broker in brokers))
    assert all("delays" in broker.consumers.groups for broker in brokers)
    consumer.shutdown()
    producer.shutdown()
    for broker in brokers:
        assert not broker.consumers.groups.keys() & {"delays"}
        assert not broker.producers.groups.keys() & {"ops"}
        assert len(broker.consumers.groups["other"].members) == 1
    assert keeper.assigned_queues


def test_the_copy_in_a_forked_child_stops_nothing(rocketmq, admin, consumers):
    consumer = consumers(Recorder())
    running = parts_of(consumer)
    rocketmq.wait_until(lambda: rocketmq.broker.parked.waiting("flights", 0))
    running.instance.is_inherited = True  # as the fork marks it in the child, whose broker is ours here
    consumer._engine.run(running.stop())
    running.instance.is_inherited = running.stopping = False
    assert any(queue.topic == "flights" for queue in consumer.assigned_queues)
    assert admin.consumer_ids("delays") == [consumer.client_id]


def test_start_refuses_what_cannot_work(rocketmq):
    consumer = rocketmq.push_consumer("delays")
    with pytest.raises(rmq.ConfigurationError, match="has no listener"):
        consumer.start()
    consumer.on_message(Recorder())
    with pytest.raises(rmq.ConfigurationError, match="subscribes to nothing"):
        consumer.start()
    consumer.subscribe("flights")
    consumer.start()
    consumer.start()
    with pytest.raises(rmq.ConfigurationError, match="before start"):
        consumer.on_message(Recorder())
    consumer.shutdown()
    consumer.shutdown()
    with pytest.raises(rmq.ClosedError, match="make a new one"):
        consumer.start()


def test_a_blocking_call_on_the_engines_thread_is_refused_not_hung(rocketmq, producer, consumers):
    errors: list[Exception] = []

    async def listener(message: rmq.MessageExt) -> None:
        try:
            producer.send(rmq.Message("flights", b"y"))
        except RuntimeError as error:
            errors.append(error)

    consumers(listener)
    send_all(producer, ["x"])
    rocketmq.wait_until(lambda: len(errors) == 1)


def test_run_forever_ends_on_sigterm_with_progress_written(rocketmq, producer):
    send_all(producer, ["0", "1", "2"])
    program = textwrap.dedent(
        """
        import sys
        import sprocketmq as rmq
        consumer = rmq.PushConsumer("delays", namesrv_addr=sys.argv[1],
            consume_from_where="CONSUME_FROM_FIRST_OFFSET", consume_thread_count=1)
        consumer.subscribe("flights")
        @consumer.on_message
        def handle(message):
            print(message.body.decode(), flush=True)
        consumer.run_forever()
        print("ended", flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, rocketmq.namesrv_addr], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines: list[Any] = [process.stdout.readline().strip() for _ in range(3)]
        process.terminate()
        rest, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (sorted(lines), rest.strip(), process.returncode) == (["0", "1", "2"], "ended", 0)
    assert rocketmq.consumer_offset("delays", "flights") == {0: 3}


def test_run_forever_ends_on_a_signal_at_each_moment_before_it_waits(rocketmq):
    """A signal handler runs between any two steps of the main thread, so it must not need a lock that this thread holds."""
    program = """
        import os, signal, sys, threading
        import sprocketmq as rmq

        def is_hit(moment):
            consumer = rmq.PushConsumer("delays", namesrv_addr=sys.argv[1], consume_thread_count=1)
            consumer.subscribe("flights")
            consumer.on_message(print)
            passed, has_waited = -1, False

            def interrupt_the_wait():
                nonlocal has_waited
                has_waited = True
                os.kill(os.getpid(), signal.SIGTERM)

            def look(frame, event, value):
                nonlocal passed
                is_started = event == "return" and frame.f_code.co_name == "__enter__" and frame.f_locals.get("self") is consumer
                if is_started:
                    late.start()
                if (passed >= 0 or is_started) and not has_waited:
                    passed += 1
                    if passed == moment:
                        sys.setprofile(None)
                        late.cancel()
                        late.join()
                        signal.raise_signal(signal.SIGTERM)

            late = threading.Timer(1.0, interrupt_the_wait)
            sys.setprofile(look)
            consumer.run_forever()
            sys.setprofile(None)
            return not has_waited

        moment = 0
        while is_hit(moment):
            moment += 1
            print(moment, flush=True)
        """
    code, lines = _ran(program, rocketmq.namesrv_addr)
    assert (code, lines[:1]) == (0, ["1"])


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal that could be closed")
@pytest.mark.parametrize("run", ["Push", "AsyncPush"])
def test_run_forever_ends_when_the_terminal_is_closed_but_not_under_nohup(rocketmq, run):
    program = """
        import asyncio, signal, sys, threading, time
        import sprocketmq as rmq

        def run(*numbers):
            consumer = getattr(rmq, sys.argv[2] + "Consumer")("delays", namesrv_addr=sys.argv[1])
            consumer.subscribe("flights")
            consumer.on_message(print)

            def terminate():
                while not consumer.client_id:
                    time.sleep(0.01)
                for number in numbers:
                    signal.pthread_kill(threading.main_thread().ident, number)

            threading.Thread(target=terminate).start()
            ended = consumer.run_forever()
            if ended is not None:
                asyncio.run(ended)

        run(signal.SIGHUP)
        print("ended")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        run(signal.SIGHUP, signal.SIGTERM)
        print(signal.getsignal(signal.SIGHUP).name)
        """
    code, lines = _ran(program, rocketmq.namesrv_addr, run)
    assert (code, lines) == (0, ["ended", "SIG_IGN"])


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="sends a signal to one thread")
def test_run_forever_ends_on_a_signal_that_does_not_end_its_wait(rocketmq):
    """Another thread gets the signal, so nothing interrupts the wait of the main thread, which has to run the handler."""
    program = """
        import signal, sys, threading, time
        import sprocketmq as rmq

        consumer = rmq.PushConsumer("delays", namesrv_addr=sys.argv[1])
        consumer.subscribe("flights")
        consumer.on_message(print)

        def is_waiting():
            frame = sys._current_frames()[threading.main_thread().ident]
            return consumer.client_id and frame.f_code.co_filename.endswith("push_consumer.py")

        def terminate():
            while not is_waiting():
                time.sleep(0.01)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

        threading.Thread(target=terminate).start()
        consumer.run_forever()
        print("ended")
        """
    code, lines = _ran(program, rocketmq.namesrv_addr)
    assert (code, lines) == (0, ["ended"])


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="sends a signal to one thread")
@pytest.mark.usefixtures("handlers")
def test_an_interrupted_shutdown_ends_run_forever_of_another_thread(rocketmq, producer):
    consumer = rocketmq.push_consumer("delays", consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    running, release = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def listener(message: rmq.MessageExt) -> None:
        running.set()
        deadline = time.monotonic() + HELD_S
        while time.monotonic() < deadline:
            if consumer._async._life.state is LifeState.STOPPING:
                signal.pthread_kill(main, signal.SIGINT)  # the main thread waits for this call to end
                break
            time.sleep(0.01)
        release.wait(HELD_S)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    consumer.subscribe("flights")
    consumer.on_message(listener)
    waiting = threading.Thread(target=consumer.run_forever, daemon=True)
    waiting.start()
    try:
        send_all(producer, ["x"])
        assert running.wait(10)
        rocketmq.wait_until(lambda: consumer._async._life.state is LifeState.RUNNING)
        with pytest.raises(KeyboardInterrupt):
            consumer.shutdown()
        release.set()
        waiting.join(10)
        assert not waiting.is_alive()
    finally:
        release.set()
        consumer._over.put(None)
        waiting.join(10)


@pytest.mark.usefixtures("handlers")
def test_an_interrupt_while_run_forever_installs_its_handlers_leaves_none_of_them(monkeypatch):
    consumer = rmq.PushConsumer("delays", namesrv_addr="127.0.0.1:1")
    before = [signal.getsignal(number) for number in SIGNALS]
    install = signal.signal

    def interrupted(number: signal.Signals, handler: Any) -> Any:
        install(number, handler)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.run_forever()
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.usefixtures("handlers")
def test_run_forever_sets_the_default_where_a_handler_was_not_installed_from_python(monkeypatch):
    """Python tells None about such a handler, and takes no None back."""
    consumer = rmq.PushConsumer("delays", namesrv_addr="127.0.0.1:1")
    install, read = signal.signal, signal.getsignal

    def install_over_native(number: signal.Signals, handler: Any) -> None:
        install(number, handler)

    monkeypatch.setattr(signal, "signal", install_over_native)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with pytest.raises(rmq.ConfigurationError, match="has no listener"):
        consumer.run_forever()
    at_first = [signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL for number in SIGNALS]
    assert [read(number) for number in SIGNALS] == at_first


@pytest.mark.parametrize("loop", LOOPS)
def test_a_signal_ends_all_async_consumers_of_a_loop(rocketmq, loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    program = """
        import asyncio, signal, sys
        import sprocketmq as rmq

        async def begin(*groups):
            consumers, runs = [], []
            for group in groups:
                consumer = rmq.AsyncPushConsumer(group, namesrv_addr=sys.argv[1])
                consumer.subscribe("flights")
                consumer.on_message(print)
                consumers.append(consumer)
                runs.append(asyncio.ensure_future(consumer.run_forever()))
            while not all(consumer.client_id for consumer in consumers):
                await asyncio.sleep(0.01)
            return consumers, runs

        async def main():
            _, runs = await begin("a", "b")
            signal.raise_signal(signal.SIGTERM)
            await asyncio.gather(*runs)
            print("all ended", flush=True)

            (first, _), runs = await begin("c", "d")
            await first.shutdown()
            await runs[0]
            signal.raise_signal(signal.SIGINT)
            await runs[1]
            print("the one that was left ended", flush=True)

        factory = asyncio.new_event_loop
        if sys.argv[2] == "uvloop":
            from uvloop import new_event_loop as factory
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())
        """
    code, lines = _ran(program, rocketmq.namesrv_addr, loop)
    assert (code, lines) == (0, ["all ended", "the one that was left ended"])


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.usefixtures("handlers")
def test_an_async_run_forever_puts_back_the_handlers_of_the_application(loop):
    def own(number: int, frame: Any) -> None: ...

    async def run() -> None:
        before = [signal.getsignal(number) for number in SIGNALS]
        runs = [rmq.AsyncPushConsumer(group, namesrv_addr="127.0.0.1:1").run_forever() for group in "ab"]
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [rmq.ConfigurationError] * 2  # no listener
        assert [signal.getsignal(number) for number in SIGNALS] == before
        assert before[0] is own
        assert before[1] is not signal.default_int_handler  # asyncio has its own

    signal.signal(signal.SIGTERM, own)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run_on(loop, run)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.usefixtures("handlers")
def test_an_async_run_forever_leaves_no_dead_handler_where_the_loop_had_one(loop):
    """What the loop gave to ``signal.signal`` for it would swallow SIGTERM."""

    async def run() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, int)
        with pytest.raises(rmq.ConfigurationError, match="has no listener"):
            await rmq.AsyncPushConsumer("delays", namesrv_addr="127.0.0.1:1").run_forever()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    _run_on(loop, run)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_async_run_forever_of_another_thread_ends_by_shutdown(rocketmq, loop):
    before = [signal.getsignal(number) for number in SIGNALS]

    async def run() -> None:
        consumer = rocketmq.async_push_consumer("delays")
        consumer.subscribe("flights")
        consumer.on_message(Recorder())
        running = asyncio.ensure_future(consumer.run_forever())
        while not consumer.client_id:
            await asyncio.sleep(0.01)
        assert [signal.getsignal(number) for number in SIGNALS] == before
        await consumer.shutdown()
        await running

    with ThreadPoolExecutor(1) as pool:
        pool.submit(_run_on, loop, run).result(30)


def _heard(consumer: rmq.AsyncPushConsumer, kind: str) -> Callable[[], Any]:
    """Lets a consumer, before its start, get messages in one of its ways; returns how to wait for the next."""
    if kind.startswith("messages"):
        messages = consumer.messages(orderly=kind.endswith("orderly"))
        return messages.__anext__
    heard: asyncio.Queue[rmq.MessageExt] = asyncio.Queue()
    if kind == "listener":
        consumer.on_message(lambda message: heard.put_nowait(message))
    else:
        consumer.orderly_listener(lambda messages, context: heard.put_nowait(messages[0]) or "SUCCESS")
    return heard.get


@pytest.mark.parametrize("turns", [1, 3, 10, 30])
@pytest.mark.parametrize("kind", ["listener", "orderly listener", "messages", "messages orderly"])
def test_what_a_failed_start_ended_begins_with_the_next(rocketmq, producer, kind, turns):
    """Found by the simulator: iterations ended without a word when a name server was away at the first start."""
    send_all(producer, ["UA"])

    async def main() -> bytes:
        consumer = rocketmq.async_push_consumer("delays", consume_from_where="CONSUME_FROM_FIRST_OFFSET")
        consumer.subscribe("flights")
        following = _heard(consumer, kind)
        start = asyncio.ensure_future(consumer.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        if consumer._life.state is not LifeState.RUNNING:
            await consumer.start()
        async with asyncio.timeout(60):
            message = await following()
        if kind.startswith("messages"):
            message.ack()
        await consumer.shutdown()
        return bytes(message.body)

    assert asyncio.run(main()) == b"UA"

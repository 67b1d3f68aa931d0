# SPDX-License-Identifier: Apache-2.0
"""A process that forks with clients in it: the connections stay the parent's, the child is told so or makes its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from sprocketmq.testing import EmbeddedRocketMQ

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

_BEGIN = """
    import asyncio, json, multiprocessing, os, signal, socket, sys, threading, time
    import sprocketmq as rmq
    addr = sys.argv[1]

    def say(**what):
        print(json.dumps(what), flush=True)

    def failure(call):
        try:
            call()
        except rmq.RocketMQError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def connections():
        found = 0
        for number in range(3, 256):
            try:
                with socket.socket(fileno=os.dup(number)) as one:
                    one.getpeername()
                    found += one.family == socket.AF_INET
            except OSError:
                pass
        return found

    def send(producer, text):
        return producer.send(rmq.Message("flights", text.encode())).status.name

    seen = []
    consumer = rmq.PushConsumer("delays", namesrv_addr=addr, consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                                persist_consumer_offset_interval_ms=100)
    consumer.subscribe("flights")
    consumer.on_message(lambda message: seen.append(message.body.decode()))
    producer = rmq.Producer("ops", namesrv_addr=addr, instance_name="shared")
    not_started = rmq.Producer("later", namesrv_addr=addr)
    consumer_not_started = rmq.PushConsumer("other", namesrv_addr=addr, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    consumer_not_started.subscribe("flights")

    def until(condition):
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, "not within 30 s"
            time.sleep(0.01)
"""


@pytest.fixture
def rocketmq() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as started:
        started.create_topic("flights", queues=2)
        yield started


class Program:
    """A child process that runs the text below the common beginning; forks of it write to the same pipe."""

    def __init__(self, rocketmq: EmbeddedRocketMQ, text: str) -> None:
        program = textwrap.dedent(_BEGIN) + textwrap.dedent(text)
        # Newer Pythons warn of forks while threads run: that is what is tested here.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, rocketmq.namesrv_addr]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the program has ended"
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *failure: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("way", ["os.fork", "multiprocessing"])
def test_a_forked_child_cannot_use_its_parents_clients_and_makes_its_own(rocketmq, way):
    text = f"""
        def child():
            say(connections=connections())
            say(send=failure(lambda: send(producer, "never")), shutdown=failure(consumer.shutdown),
                leaving_a_with_block=failure(lambda: producer.__exit__(None, None, None)))
            with rmq.Producer("ops", namesrv_addr=addr, instance_name="shared") as own:
                say(own=send(own, "from a new producer"))
            with not_started:
                say(made_before=send(not_started, "from a producer made before"))
            mine = []
            consumer_not_started.on_message(lambda message: mine.append(message.body.decode()))
            with consumer_not_started:
                until(lambda: len(mine) == 3)
            say(received=sorted(mine))

        consumer.start(); producer.start()
        send(producer, "from the parent")
        until(lambda: len(seen) == 1)
        say(connections=connections() >= 2)
        if {way!r} == "os.fork":
            pid = os.fork()
            if pid == 0:
                child()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        else:
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start(); process.join()
            assert process.exitcode == 0
        for number in range(10):
            send(producer, f"afterwards {{number}}")
        until(lambda: len(seen) == 13)
        consumer.shutdown(); producer.shutdown()
        say(seen=sorted(seen))
    """
    with Program(rocketmq, text) as program:
        assert program.read() == {"connections": True}
        assert program.read() == {"connections": 0}, "the child holds a connection of its parent"
        refused = program.read()
        assert "ClosedError" in refused["send"]
        assert "parent of a fork" in refused["send"]
        assert "parent of a fork" in refused["shutdown"]
        assert refused["leaving_a_with_block"] is None
        assert program.read() == {"own": "SEND_OK"}
        assert program.read() == {"made_before": "SEND_OK"}
        sent = sorted(["from the parent", "from a new producer", "from a producer made before"])
        assert program.read() == {"received": sent}
        assert program.read() == {"seen": sorted([*sent, *(f"afterwards {number}" for number in range(10))])}
        assert program.process.wait(30) == 0


def test_brokers_notice_the_parents_death_at_once_although_a_child_lives(rocketmq):
    text = """
        consumer.start()
        if os.fork() == 0:
            say(child=os.getpid())
            sys.stdin.read()
            os._exit(0)
        time.sleep(600)
    """
    with Program(rocketmq, text) as program, rocketmq.admin() as admin:
        child = program.read()["child"]
        assert len(admin.consumer_ids("delays")) == 1
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
        rocketmq.wait_until(lambda: admin.consumer_ids("delays") == [])
        os.kill(child, 0)  # it lived all the time


def test_async_clients_and_an_own_server_are_left_to_the_parent_too(rocketmq, tmp_path):
    text = """
        from sprocketmq.testing import EmbeddedRocketMQ

        async def parent():
            async with rmq.AsyncProducer("ops", namesrv_addr=addr) as producer:
                say(first=(await producer.send(rmq.Message("flights", b"1"))).status.name)
                pid = os.fork()
                if pid == 0:
                    threading.Thread(target=child, args=(producer,)).start()
                    finished.wait()  # the loop goes no further here: it is the parent's
                    os._exit(0)
                await asyncio.to_thread(os.waitpid, pid, 0)
                say(second=(await producer.send(rmq.Message("flights", b"2"))).status.name)

        finished = threading.Event()

        def child(producer):
            async def use(given):
                await given.send(rmq.Message("flights", b"never"))

            async def own():
                async with rmq.AsyncProducer("ops", namesrv_addr=addr) as producer:
                    return (await producer.send(rmq.Message("flights", b"child"))).status.name

            say(connections=connections(), refused=failure(lambda: asyncio.run(use(producer))), own=asyncio.run(own()))
            finished.set()

        asyncio.run(parent())

        own_server = EmbeddedRocketMQ(clock="system").start()
        host, port = own_server.broker_addr.split(":")
        ready, tell = os.pipe()
        if os.fork() == 0:
            os.write(tell, b"!")
            sys.stdin.read()
            os._exit(0)
        os.read(ready, 1)
        own_server.stop()
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            say(bound=again.bind((host, int(port))) is None)
            again.listen()
        say(refused=socket.socket().connect_ex((host, int(port))) != 0)
    """
    with Program(rocketmq, text) as program:
        assert program.read() == {"first": "SEND_OK"}
        child = program.read()
        assert child["connections"] == 0
        assert "parent of a fork" in child["refused"]
        assert child["own"] == "SEND_OK"
        assert program.read() == {"second": "SEND_OK"}
        assert program.read() == {"bound": True}
        assert program.read() == {"refused": True}

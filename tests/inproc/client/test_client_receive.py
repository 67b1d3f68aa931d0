# SPDX-License-Identifier: Apache-2.0
"""``messages.receive`` with a limit of time, with and without an event loop; and loops of others, which wait for ``messages.fileno()``."""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from interrupts import Interrupted, needs_signals, signal_while_waiting
from recorder import send_all

import sprocketmq as rmq
from sprocketmq.testing import EmbeddedRocketMQ

LONG_MS = 3_600_000


class Receiving:
    """A started consumer and its messages: the blocking face, which runs the async one."""

    def __init__(self, rocketmq: EmbeddedRocketMQ, *, orderly: bool = False, **options: Any) -> None:
        self.consumer = rocketmq.push_consumer(
            "delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **options
        )
        self.consumer.subscribe("flights")
        self.messages = self.consumer.messages(orderly=orderly)
        self.receive = self.messages.receive
        self.stream = self.messages._async._stream

    def receive_all(self, count: int) -> list[rmq.ReceivedMessage]:
        received: list[rmq.ReceivedMessage] = []
        while len(received) < count:
            more = self.receive(count - len(received), timeout_ms=30_000)
            assert more, f"only {len(received)} of {count} messages came"
            received += more
        return received

    def __enter__(self) -> Receiving:
        self.messages.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.messages.__exit__(None, None, None)


def _bodies(messages: list[rmq.ReceivedMessage]) -> list[str]:
    return [message.body.decode() for message in messages]


def _numbers(count: int) -> list[str]:
    return [str(n) for n in range(count)]


def _progress(rocketmq: EmbeddedRocketMQ) -> int:
    return sum(rocketmq.consumer_offset("delays", "flights").values())


def test_received_messages_are_settled_one_by_one_as_those_of_a_loop(rocketmq, producer):
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, _numbers(50))
    seen: list[str] = []
    with Receiving(rocketmq) as receiving:
        while len(seen) < 50:
            messages = receiving.receive(8, timeout_ms=30_000)
            assert 1 <= len(messages) <= 8
            for message in messages:
                message.ack()
            seen += _bodies(messages)
        assert receiving.receive(8, timeout_ms=0) == []
    assert sorted(seen, key=int) == _numbers(50)
    assert _progress(rocketmq) == 50


def test_a_receive_raises_when_no_more_messages_come(rocketmq):
    with Receiving(rocketmq) as receiving:
        assert receiving.receive(timeout_ms=0) == []
        receiving.messages.stop()
        for timeout_ms in (0, 1, None):
            with pytest.raises(rmq.ClosedError, match="or its messages were stopped: no more come"):
                receiving.receive(timeout_ms=timeout_ms)
        receiving.consumer.shutdown()
        with pytest.raises(rmq.ClosedError, match="'delays' was shut down"):
            receiving.receive()


def test_a_shutdown_by_others_ends_a_receive_that_waits(rocketmq):
    ends: list[str] = []
    with Receiving(rocketmq) as receiving:

        def wait() -> None:
            try:
                receiving.receive()
            except rmq.ClosedError as error:
                ends.append(str(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        rocketmq.wait_until(lambda: len(receiving.stream._receivers) == 1)
        receiving.consumer.shutdown()
        waiting.join(30)
    assert len(ends) == 1
    assert "was shut down" in ends[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"max_messages": 0}, "max_messages is 0, a whole number from 1 to 1048576 is allowed"),
        ({"max_messages": True}, "max_messages is True, a whole number"),
        ({"timeout_ms": -1}, "timeout_ms is -1, a number from 0 to 2147483647 is allowed"),
        ({"timeout_ms": "1s"}, "timeout_ms is '1s', a number"),
    ],
)
def test_wrong_arguments_are_told_in_a_sentence(rocketmq, arguments, sentence):
    receiving = Receiving(rocketmq)
    with pytest.raises(rmq.ConfigurationError, match=sentence):
        receiving.receive(**arguments)
    with pytest.raises(rmq.ClosedError, match="is not started; write"):
        receiving.receive()
    with receiving:
        pass


@needs_signals
def test_an_interrupted_receive_has_taken_nothing_although_its_messages_came_meanwhile(rocketmq, producer):
    with Receiving(rocketmq) as receiving:
        unsettled = receiving.stream._unsettled

        def interrupt() -> None:
            send_all(producer, ["0", "1"])
            rocketmq.wait_until(lambda: len(unsettled) >= 1)  # the call that waits was given some
            raise Interrupted

        with signal_while_waiting(interrupt), pytest.raises(Interrupted):
            receiving.receive(timeout_ms=60_000)
        assert sorted(_bodies(receiving.receive_all(2))) == ["0", "1"]


def test_a_shutdown_by_the_code_that_works_on_messages_does_not_wait_for_it(rocketmq, producer):
    send_all(producer, _numbers(3))
    with Receiving(rocketmq, await_termination_ms=LONG_MS) as receiving:
        for message in receiving.receive_all(3):
            message.nack(delay_level=1)
        rocketmq.advance_until(lambda: len(rocketmq.messages("%RETRY%delays")) == 3)
        messages = receiving.receive(timeout_ms=30_000)
        messages[-1].ack()
        receiving.consumer.shutdown()
        rocketmq.wait_until(
            lambda: receiving.stream.is_over
        )  # the consumer waits for the others now, until the block is left


# -- loops of others ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def receiving(rocketmq: EmbeddedRocketMQ) -> Iterator[Receiving]:
    rocketmq.create_topic("flights", queues=2)
    with Receiving(rocketmq, consume_thread_count=4) as started:
        yield started


def test_a_loop_of_selectors_serves_messages_beside_others_until_the_consumer_ends(rocketmq, producer, receiving):
    ours, theirs = socket.socketpair()
    seen: list[str] = []
    other: list[bytes] = []
    idle: list[int] = []
    messages = receiving.messages
    with ours, theirs, selectors.DefaultSelector() as selector:
        selector.register(messages, selectors.EVENT_READ)
        selector.register(ours, selectors.EVENT_READ)

        def loop() -> None:
            while True:
                for key, _ in selector.select():
                    if key.fileobj is ours:
                        other.append(ours.recv(16))
                        continue
                    try:
                        received = messages.receive(3, timeout_ms=0)
                    except rmq.ClosedError:
                        selector.unregister(messages)
                        return
                    if not received:
                        idle.append(len(seen))
                    for message in received:
                        seen.append(message.body.decode())
                        message.ack()

        thread = threading.Thread(target=loop)
        thread.start()
        for number in range(0, 60, 3):
            send_all(producer, [str(number + n) for n in range(3)])
            theirs.send(b"x")
            if number % 2:
                rocketmq.wait_until(lambda number=number: len(seen) == number + 3)
        rocketmq.wait_until(lambda: len(seen) == 60)
        rocketmq.wait_until(lambda: b"".join(other) == b"x" * 20)
        receiving.consumer.shutdown()
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(seen, key=int) == _numbers(60)
    assert len(idle) <= 60, "it is not woken again and again for nothing"
    assert _progress(rocketmq) == 60


def _readable(messages: rmq.MessageIterator, timeout_s: float | None = 0) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(messages, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


def test_the_descriptor_of_an_orderly_iteration_is_readable_when_the_lock_is_there(rocketmq, producer):
    send_all(producer, _numbers(2))
    with Receiving(rocketmq, orderly=True) as receiving:
        for number in range(2):
            rocketmq.advance_until(lambda: _readable(receiving.messages))
            [message] = receiving.receive(timeout_ms=0)
            assert message.body == b"%d" % number
            assert not _readable(receiving.messages)
            message.ack()
        assert not _readable(receiving.messages)


def test_the_descriptor_can_be_registered_before_the_start_and_is_closed_with_the_block(rocketmq, producer):
    send_all(producer, ["0"])
    receiving = Receiving(rocketmq)
    number = receiving.messages.fileno()
    with receiving:
        assert receiving.messages.fileno() == number
        assert _readable(receiving.messages, 30)
    assert receiving.messages.fileno() == -1


@pytest.mark.rocketmq(clock="system")  # a manual one keeps timers that were cancelled
def test_descriptors_without_a_block_are_closed_with_the_last_reference(rocketmq):
    consumer = rocketmq.push_consumer("delays")
    consumer.subscribe("flights")
    messages = consumer.messages()
    consumer.start()
    messages.fileno()
    ready = messages._async._stream.descriptor
    assert ready is not None
    ends = [ready._reader, ready._writer]
    consumer.shutdown()
    assert _readable(messages)
    del consumer, messages, ready

    def closed() -> bool:
        gc.collect()
        return [end.fileno() for end in ends] == [-1, -1]

    rocketmq.wait_until(closed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where there are forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forks beside threads
def test_a_forked_child_is_told_and_takes_nothing(rocketmq, producer, receiving):
    send_all(producer, ["0"])
    assert _readable(receiving.messages, 30)
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            assert _readable(receiving.messages)
            try:
                receiving.messages.receive(timeout_ms=0)
            except rmq.ClosedError as error:
                code = 0 if "parent of a fork" in str(error) else 2
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert _readable(receiving.messages)
    assert _bodies(receiving.receive(timeout_ms=0)) == ["0"]

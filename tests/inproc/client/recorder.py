# SPDX-License-Identifier: Apache-2.0
"""A listener that remembers what it saw, and what tests ask for most: sending, progress, the parts of a consumer."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

import sprocketmq as rmq
from sprocketmq.client.consume.running_consumer import RunningConsumer
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.testing.faults import Codes
from sprocketmq.wire.frames.command import Command

# How long a listener waits to be let go. Longer than ``wait_until``: a call that ended by itself would look like one that was dealt with.
HELD_S: Final = 120
QUEUE: Final = rmq.MessageQueue("flights", "broker-a", 0)

Consumers = Callable[..., rmq.PushConsumer]


class Recorder:
    """What a listener saw, in order. ``answer`` is called with the message (under no lock) and may raise."""

    def __init__(self, answer: Callable[[rmq.MessageExt], Any] | None = None) -> None:
        self.messages: list[rmq.MessageExt] = []
        self.answer = answer
        self._lock = threading.Lock()

    def __call__(self, message: rmq.MessageExt) -> Any:
        with self._lock:
            self.messages.append(message)
        return self.answer(message) if self.answer is not None else None

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    @property
    def times(self) -> list[int]:
        return [message.reconsume_times for message in self.messages]

    def __len__(self) -> int:
        return len(self.messages)


class Held(Recorder):
    """Its calls, of first deliveries and with the body ``held`` (default: any), set ``running`` and wait for ``release``. Then they raise
    ``failure``, if there is one."""

    def __init__(self, held: bytes | None = None, failure: Exception | None = None) -> None:
        super().__init__(self._hold)
        self.running, self.release = threading.Event(), threading.Event()
        self._held, self._failure = held, failure

    def _hold(self, message: rmq.MessageExt) -> None:
        if message.reconsume_times or self._held not in (None, message.body):
            return
        self.running.set()
        assert self.release.wait(HELD_S)
        if self._failure is not None:
            raise self._failure


class OrderlyRecorder:
    """An orderly listener that remembers; ``answer(message, context)`` decides, SUCCESS without it."""

    def __init__(self, answer: Callable[[rmq.MessageExt, rmq.ConsumeOrderlyContext], Any] | None = None) -> None:
        self.seen: list[tuple[str, int]] = []
        self.at_once = 0
        self.most_at_once: dict[rmq.MessageQueue, int] = {}
        self._answer = answer
        self._running: dict[rmq.MessageQueue, int] = {}
        self._lock = threading.Lock()

    def __call__(self, messages: list[rmq.MessageExt], context: rmq.ConsumeOrderlyContext) -> Any:
        queue = context.message_queue
        with self._lock:
            self._running[queue] = self._running.get(queue, 0) + 1
            self.most_at_once[queue] = max(self.most_at_once.get(queue, 0), self._running[queue])
            self.seen += [(message.body.decode(), message.reconsume_times) for message in messages]
        try:
            return rmq.ConsumeOrderlyStatus.SUCCESS if self._answer is None else self._answer(messages[0], context)
        finally:
            with self._lock:
                self._running[queue] -= 1

    @property
    def bodies(self) -> list[str]:
        return [body for body, _ in self.seen]


class HeldInOrder(OrderlyRecorder):
    """An orderly listener whose call for the body ``held`` (without it: each call) sets ``running`` and waits for ``release``."""

    def __init__(self, held: bytes | None = None) -> None:
        super().__init__(self._hold)
        self.running, self.release = threading.Event(), threading.Event()
        self._held = held

    def _hold(self, message: rmq.MessageExt, context: rmq.ConsumeOrderlyContext) -> rmq.ConsumeOrderlyStatus:
        if self._held is None or message.body == self._held:
            self.running.set()
            self.release.wait(HELD_S)
        return rmq.ConsumeOrderlyStatus.SUCCESS


def by_kind(kind: str, listener: Callable[..., Any]) -> Callable[..., Any]:
    """The listener, or for "async" one that does the same on the loop."""

    async def later(*given: Any) -> Any:
        return listener(*given)

    return later if kind == "async" else listener


def open_sockets() -> int:
    """Of this process."""
    fds = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.exists(fd) and os.readlink(fd).startswith("socket:") for fd in fds)


def waits_ms(rocketmq: EmbeddedRocketMQ, group: str = "delays") -> list[int]:
    """How long each failed message waited at the broker for its next delivery, by the times that the broker stored.

    How far a test has moved the clock by then says less: on a busy machine it is some steps ahead.
    """
    sent_back, again = (
        sorted(message.store_timestamp_ms for message in rocketmq.messages(topic))
        for topic in ("SCHEDULE_TOPIC_XXXX", f"%RETRY%{group}")
    )
    return [end_ms - begin_ms for begin_ms, end_ms in zip(sent_back, again, strict=False)]


def send_all(producer: rmq.Producer, bodies: list[str], topic: str = "flights", **how: Any) -> list[rmq.SendResult]:
    return [producer.send(rmq.Message(topic, body.encode()), **how) for body in bodies]


def noted(
    rocketmq: EmbeddedRocketMQ,
    codes: Codes,
    read: Callable[[Command], Any] = lambda command: command,
    topic: str | None = None,
) -> list[Any]:
    """What ``read`` sees of each request (about ``topic``) from now on, in order; none is touched."""
    seen: list[Any] = []

    def look(command: Command) -> bool:
        if topic in (None, command.ext_fields.get("topic")):
            seen.append(read(command))
        return False

    rocketmq.faults.drop(codes, times=None, when=look)
    return seen


def committed(rocketmq: EmbeddedRocketMQ, consumer: rmq.PushConsumer, topic: str = "flights") -> int:
    """How many messages the group is done with, by the broker."""
    consumer.persist_offsets()
    return sum(rocketmq.consumer_offset(consumer.group, topic).values())


def parts_of(consumer: rmq.PushConsumer) -> RunningConsumer:
    running = consumer._async._running
    assert running is not None
    return running


def held_port(port: int) -> socket.socket:
    """The port of a server that has stopped, until this is closed: connections are refused, and no server of another test gets it, whose
    answers would be taken for those of the one that is back."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before are closing
    held.bind(("127.0.0.1", port))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return held

# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq bench``: how fast this machine can send messages to a cluster and consume them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.output import Column, Output, note
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.frame.verbs import reads
from sprocketmq.errors import ConfigurationError, RequestNotServed, RequestTimeout

if TYPE_CHECKING:
    import concurrent.futures

    from sprocketmq.client.results import SendResult
    from sprocketmq.wire.records.message import MessageExt

_TOPIC: Final = "sprocketmq-bench"
_IN_FLIGHT: Final = 256
_PATIENCE_S: Final = 30.0
_COLUMNS: Final = (
    Column("what"),
    Column("messages"),
    Column("seconds"),
    Column("messages/s", "per_second"),
    Column("MiB/s", "mib_per_second"),
    Column("p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("failed"),
)


@dataclass(slots=True)
class _Figures:
    seconds: float = 0.0
    failed: int = 0
    times_ms: list[float] = field(default_factory=list)

    def row(self, what: str, size: int) -> dict[str, Any]:
        count = len(self.times_ms)
        rate = count / self.seconds if self.seconds else 0.0
        return {
            "what": what,
            "messages": count,
            "seconds": self.seconds,
            "per_second": rate,
            "mib_per_second": rate * size / (1 << 20),
            "p50_ms": self._percentile(0.5),
            "p99_ms": self._percentile(0.99),
            "failed": self.failed,
        }

    def _percentile(self, share: float) -> float | None:
        if not self.times_ms:
            return None
        ordered = sorted(self.times_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@click.command()
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.option(
    "--messages",
    "count",
    type=click.IntRange(1, 10_000_000),
    default=20_000,
    show_default=True,
    help="Number of messages.",
)
@click.option(
    "--size", type=click.IntRange(20, 4 << 20), default=1_024, show_default=True, help="Size of a body in bytes."
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 10_000),
    default=_IN_FLIGHT,
    show_default=True,
    help="Maximum number of sends that wait for their answer at the same time.",
)
@click.option("--consume/--no-consume", default=True, help="Also consume the messages, with a group made for it.")
@click.option(
    "--group",
    metavar="GROUP",
    help="Consume with this group, which skips the messages that wait; default: a new group.",
)
@reads
def bench(
    target: Target,
    output: Output,
    topic: str | None,
    count: int,
    size: int,
    in_flight: int,
    consume: bool,
    group: str | None,
) -> None:
    """Measure the speed of sending and consuming.

    Without TOPIC, the command creates a topic and deletes it at the end. With TOPIC, the other groups of that topic get the messages, too.
    The row "send" shows the time of each send, the row "consume" the time from the send to the listener.
    """
    own = f"{_TOPIC}-{os.getpid()}"
    name, reader = topic or own, group or own
    with target.admin() as admin, contextlib.ExitStack() as after:
        try:
            if topic is None:
                admin.create_topic(name, queues=4)
                after.callback(admin.delete_topic, name)
            if consume and group is None:
                admin.create_group(reader)
                after.callback(admin.delete_group, reader, remove_offsets=True)
        except RequestNotServed as error:
            sentence = (
                f"the proxy at {error.address} creates no topics and groups; give a TOPIC, and --group or --no-consume"
            )
            raise RequestNotServed(error.code, sentence, error.address) from error
        if consume:
            if online := admin.consumer_ids(reader):
                raise ConfigurationError(f"group {reader!r} has members online ({', '.join(online)}); stop them first")
            for queue in admin.queues(name):  # without progress the group would skip what is sent before its first pull
                admin.set_consumer_offset(reader, queue, admin.max_offset(queue))
            received = _Received(reader, count)
            with received.running(target, name, own):
                sent = _send(target, name, own, count, size, in_flight)
                received.wait(count - sent.failed)
            rows = [sent.row("send", size), received.figures().row("consume", size)]
        else:
            rows = [_send(target, name, own, count, size, in_flight).row("send", size)]
    output.rows(_COLUMNS, rows)


def _send(target: Target, topic: str, tag: str, count: int, size: int, in_flight: int) -> _Figures:
    from sprocketmq.client.produce.producer import Producer
    from sprocketmq.wire.records.message import Message

    figures = _Figures()
    open_sends: deque[tuple[float, concurrent.futures.Future[SendResult]]] = deque()
    ended: dict[int, float] = {}

    def settle() -> None:
        begun, future = open_sends.popleft()
        if future.exception() is None:
            figures.times_ms.append((ended.pop(id(future), time.perf_counter()) - begun) * 1000)
        else:
            figures.failed += 1

    def note_end(future: concurrent.futures.Future[SendResult]) -> None:
        ended[id(future)] = time.perf_counter()

    with Producer(_TOPIC, **target.options()) as producer:
        first = time.perf_counter()
        for _ in range(count):
            body = f"{time.time_ns():020d}".encode()
            future = producer.send_async(Message(topic, body + b"x" * max(0, size - len(body)), tags=tag))
            future.add_done_callback(note_end)
            open_sends.append((time.perf_counter(), future))
            if len(open_sends) >= in_flight:
                settle()
        while open_sends:
            settle()
        figures.seconds = time.perf_counter() - first
    return figures


class _Received:
    """A consumer that counts. Each body begins with the time of its send."""

    def __init__(self, group: str, count: int) -> None:
        self._group = group
        self._times_ms: list[float] = []
        self._first = self._last = 0.0
        self._wanted = count
        self._all = threading.Event()

    @contextlib.contextmanager
    def running(self, target: Target, topic: str, tag: str) -> Any:
        from sprocketmq.client.consume.push_consumer import PushConsumer

        consumer = PushConsumer(self._group, **target.options())
        consumer.subscribe(topic, tag)

        @consumer.on_message
        async def take(message: MessageExt) -> None:
            self._last = time.perf_counter()
            self._first = self._first or self._last
            self._times_ms.append((time.time_ns() - int(message.body[:20])) / 1e6)
            if len(self._times_ms) >= self._wanted:
                self._all.set()

        with consumer:
            yield

    def wait(self, count: int) -> None:
        self._wanted = count
        seen = -1
        while len(self._times_ms) < count and not self._all.wait(_PATIENCE_S):
            if len(self._times_ms) == seen:
                note(f"sprocketmq: {count - seen:,} of {count:,} messages did not come")
                raise RequestTimeout(f"no message came for {_PATIENCE_S:g} s", timeout_ms=int(_PATIENCE_S * 1000))
            seen = len(self._times_ms)

    def figures(self) -> _Figures:
        return _Figures(self._last - self._first, times_ms=self._times_ms)

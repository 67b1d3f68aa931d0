# SPDX-License-Identifier: Apache-2.0
"""One load by Apache's `rocketmq-python-client` 5.1 (gRPC, through a proxy); runs in a separate venv, see load_clock.py.

send-one, send-64 (its futures), push, idle
"""

from __future__ import annotations

import threading
import time
from argparse import Namespace
from concurrent.futures import Future
from itertools import cycle

from load_clock import LoadClock, run_peer
from message_forms import MessageForm, read_forms
from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)


def message(load: Namespace, form: MessageForm) -> Message:
    made = Message()
    made.topic = load.topic
    made.body = form.body.encode()
    if form.tags:
        made.tag = form.tags
    if form.keys:
        made.keys = form.keys
    for name, value in form.properties.items():
        made.add_property(name, value)
    return made


def configuration(load: Namespace) -> ClientConfiguration:
    return ClientConfiguration(load.endpoints, Credentials())


def send(load: Namespace, clock: LoadClock, in_flight: int) -> None:
    producer, forms = Producer(configuration(load), (load.topic,)), cycle(read_forms(load))
    producer.startup()

    def many(count: int) -> None:
        free = threading.Semaphore(in_flight)
        for _ in range(count):
            if clock.is_over:
                break
            free.acquire()
            started_s = time.perf_counter()

            def answered(future: Future[object], started_s: float = started_s) -> None:
                future.result()
                clock.latencies_s.append(time.perf_counter() - started_s)
                free.release()

            producer.send_async(message(load, next(forms))).add_done_callback(answered)
        for _ in range(in_flight):
            free.acquire(timeout=5)

    if in_flight == 1:
        clock.measure(lambda count: clock.time_each(count, lambda: producer.send(message(load, next(forms)))))
    else:
        clock.measure(many)
    producer.shutdown()


class Counting(MessageListener):  # type: ignore[misc] # the peer has no types
    def __init__(self, clock: LoadClock | None) -> None:
        self._clock = clock

    def consume(self, message: Message) -> ConsumeResult:
        if self._clock is not None:
            self._clock.count()
        return ConsumeResult.SUCCESS


def consume(load: Namespace, clock: LoadClock | None) -> None:
    consumer = PushConsumer(configuration(load), load.group, Counting(clock), {load.topic: FilterExpression()})
    consumer.startup()


if __name__ == "__main__":
    run_peer(send, consume)

# SPDX-License-Identifier: Apache-2.0
"""One load by the PyPI package `rocketmq` 0.4.4 (C++, loaded by ctypes); runs in a separate venv, see load_clock.py.

send-one, send-64 (64 threads, each one at a time: its asynchronous send keeps a list that it searches for each answer), push, orderly, idle
"""

from __future__ import annotations

import os
import sys
import threading
import time
from argparse import Namespace
from itertools import cycle

from load_clock import LoadClock, parsed_load, say
from message_forms import MessageForm, read_forms
from rocketmq.client import Message, Producer, PushConsumer


def message(load: Namespace, form: MessageForm) -> Message:
    made = Message(load.topic)
    if form.tags:
        made.set_tags(form.tags)
    if form.keys:
        made.set_keys(form.keys)
    for name, value in form.properties.items():
        made.set_property(name, value)
    made.set_body(form.body)
    return made


def started_producer(load: Namespace) -> Producer:
    producer = Producer(load.group)
    producer.set_namesrv_addr(load.namesrv)
    producer.set_timeout(30_000)
    producer.start()
    # 64 threads that request the route at the same time get none.
    producer.send_sync(message(load, MessageForm("x", "TagA", "key", {})))
    return producer


def send(load: Namespace, clock: LoadClock, threads: int) -> None:
    producer, forms = started_producer(load), cycle(read_forms(load))

    def work(count: int) -> None:
        for _ in range(count):
            started_s = time.perf_counter()
            producer.send_sync(message(load, next(forms)))
            clock.latencies_s.append(time.perf_counter() - started_s)
            if clock.is_over:
                return

    def in_threads(messages: int) -> None:
        if threads == 1:
            work(messages)
            return
        running = [threading.Thread(target=work, args=(messages // threads,)) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    in_threads(clock.warm_up)
    clock.begin()
    in_threads(clock.messages)
    clock.report(len(clock.latencies_s))
    producer.shutdown()


def consume(load: Namespace, clock: LoadClock | None) -> None:
    consumer = PushConsumer(load.group, orderly=load.load == "orderly")
    consumer.set_namesrv_addr(load.namesrv)
    consumer.subscribe(load.topic, (lambda message: clock.count()) if clock is not None else (lambda message: None))
    consumer.start()
    if clock is None:
        say("ready")
        sys.stdin.read()
    else:
        clock.wait()
        clock.report()


def main() -> None:
    load = parsed_load()
    if load.load == "idle":
        consume(load, None)
    else:
        clock = LoadClock(load.messages, load.warm_up, load.seconds)
        if load.load.startswith("send"):
            send(load, clock, 1 if load.load == "send-one" else 64)
        else:
            consume(load, clock)
    # It does not always end by itself (its threads call into Python while it is shutting down).
    os._exit(0)


if __name__ == "__main__":
    main()

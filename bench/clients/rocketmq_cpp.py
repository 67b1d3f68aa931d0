# SPDX-License-Identifier: Apache-2.0
"""One load by the PyPI package `rocketmq` 0.4.4 (C++, loaded by ctypes); runs in a separate venv, see load_clock.py.

send-one, send-64 (64 threads, each one at a time: its asynchronous send keeps a list that it searches for each answer), push, orderly, idle
"""

from __future__ import annotations

from argparse import Namespace
from itertools import cycle

from load_clock import LoadClock, run_peer
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

    clock.measure(
        lambda count: clock.time_in_threads(threads, count, lambda: producer.send_sync(message(load, next(forms))))
    )
    producer.shutdown()


def consume(load: Namespace, clock: LoadClock | None) -> None:
    consumer = PushConsumer(load.group, orderly=load.load == "orderly")
    consumer.set_namesrv_addr(load.namesrv)
    consumer.subscribe(load.topic, (lambda message: clock.count()) if clock is not None else (lambda message: None))
    consumer.start()


if __name__ == "__main__":
    run_peer(send, consume)

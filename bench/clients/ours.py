# SPDX-License-Identifier: Apache-2.0
"""One load by our own client; load_clock.py describes the output, client_bench.py the comparison.

send-one        blocking, one thread, one at a time            send-64         64 coroutines, each one at a time
send-64-threads blocking, 64 threads; also send-8-threads      send-batched    automatic batching: futures, 2000 of them in flight
send-batched-await     the same, 2000 coroutines               send-batched-blocking     the same, futures of the blocking face
send-64-signed  each request signed                                   send-64-tls     over TLS, whoever the server is
start-producer, start-consumer     with 1000 topics "many-N" that exist
push-async, push-blocking, push-classic, orderly               idle            prints "ready", ends with its input
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import cProfile
import ssl
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from typing import Any

from load_clock import LoadClock, parsed_load, say
from message_forms import read_forms

from sprocketmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SendResult,
)
from sprocketmq.net.process.engine import new_event_loop

# Long timeouts, so that a busy machine causes no errors.
TIMEOUT_MS = 30_000
UNDER_WAY = 2_000  # messages of automatic batching in flight


def message_maker(load: Namespace) -> Callable[[], Message]:
    """What makes the load's next message."""
    given: list[dict[str, Any]] = [
        {
            "body": form.body.encode(),
            "tags": form.tags or None,
            "keys": form.keys or None,
            "properties": form.properties or None,
        }
        for form in read_forms(load)
    ]
    if len(given) == 1:
        return partial(Message, load.topic, **given[0])
    wanted = cycle(given)
    return lambda: Message(load.topic, **next(wanted))


def run_sync(load: Namespace, clock: LoadClock, threads: int) -> None:
    message = message_maker(load)
    with Producer(load.group, namesrv_addr=load.namesrv, send_msg_timeout_ms=TIMEOUT_MS) as producer:
        send = lambda: producer.send(message())  # noqa: E731
        if threads == 1:
            clock.measure(lambda count: clock.time_each(count, send))
        else:
            clock.measure(lambda count: clock.time_in_threads(threads, count, send))


async def run_async(load: Namespace, clock: LoadClock, in_flight: int, **options: Any) -> None:
    message = message_maker(load)

    async def send(count: int) -> None:
        for _ in range(count):
            started_s = time.perf_counter()
            await producer.send(message())
            clock.latencies_s.append(time.perf_counter() - started_s)
            if clock.is_over:
                return

    how = {"namesrv_addr": load.namesrv, "send_msg_timeout_ms": TIMEOUT_MS, **options}
    async with AsyncProducer(load.group, **how) as producer:
        await asyncio.gather(*(send(clock.warm_up // in_flight) for _ in range(in_flight)))
        with profiled(load.profile):
            clock.begin()
            await asyncio.gather(*(send(clock.messages // in_flight) for _ in range(in_flight)))
            clock.end()
        clock.report(len(clock.latencies_s))


async def run_batched(load: Namespace, clock: LoadClock) -> None:
    """As in the guide: futures instead of tasks; wait for the oldest one if too many are in flight."""
    message = message_maker(load)

    async def send(count: int) -> int:
        window: deque[asyncio.Future[SendResult]] = deque()
        for number in range(count):
            window.append(producer.send_async(message()))
            if len(window) == UNDER_WAY:
                await window.popleft()
                if not number % 1000 and clock.is_over:
                    return number - UNDER_WAY
        for future in window:
            await future
        return count

    how = {"namesrv_addr": load.namesrv, "send_msg_timeout_ms": TIMEOUT_MS, "auto_batch": True}
    async with AsyncProducer(load.group, **how) as producer:
        await send(clock.warm_up)
        with profiled(load.profile):
            clock.begin()
            done = await send(clock.messages)
            clock.end()
        clock.report(done)


async def run_start(load: Namespace, clock: LoadClock) -> None:
    """One start; a "message" is a topic."""
    topics = [f"many-{number}" for number in range(clock.messages)]
    client: AsyncProducer | AsyncPushConsumer
    if load.load == "start-producer":
        client = AsyncProducer(load.group, namesrv_addr=load.namesrv, topics=topics)
    else:
        client = AsyncPushConsumer(load.group, namesrv_addr=load.namesrv)
        client.on_message(lambda message: None)
        for topic in topics:
            client.subscribe(topic)
    clock.begin()
    await client.start()
    clock.end()
    await client.shutdown()
    clock.report(len(topics))


def run_batched_blocking(load: Namespace, clock: LoadClock) -> None:
    """Like ``run_batched``, from a thread without an event loop."""
    message = message_maker(load)

    def send(count: int) -> int:
        window: deque[concurrent.futures.Future[SendResult]] = deque()
        for number in range(count):
            window.append(producer.send_async(message()))
            if len(window) == UNDER_WAY:
                window.popleft().result()
                if not number % 1000 and clock.is_over:
                    return number - UNDER_WAY
        for future in window:
            future.result()
        return count

    how = {"namesrv_addr": load.namesrv, "send_msg_timeout_ms": TIMEOUT_MS, "auto_batch": True}
    with Producer(load.group, **how) as producer:
        send(clock.warm_up)
        clock.begin()
        done = send(clock.messages)
        clock.end()
        clock.report(done)


def push_options(load: Namespace) -> dict[str, Any]:
    return {
        "namesrv_addr": load.namesrv,
        "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "pull_threshold_for_queue": load.in_hand,
        "consume_concurrently_max_span": max(2000, min(65_535, load.in_hand)),
    }


async def run_push_async(load: Namespace, clock: LoadClock) -> None:
    consumer = AsyncPushConsumer(load.group, **push_options(load))
    consumer.subscribe(load.topic)
    count = clock.count

    @consumer.on_message
    async def consume(message: MessageExt) -> None:
        count()

    with profiled(load.profile):
        async with consumer:
            await asyncio.get_running_loop().run_in_executor(None, clock.wait)
            clock.report()


def run_push_blocking(load: Namespace, clock: LoadClock) -> None:
    consumer = PushConsumer(load.group, **push_options(load))
    consumer.subscribe(load.topic)
    count = clock.count

    if load.load == "orderly":

        @consumer.orderly_listener
        def in_order(messages: Sequence[MessageExt], context: Any) -> ConsumeOrderlyStatus:
            for _ in messages:
                count()
            return ConsumeOrderlyStatus.SUCCESS

    elif load.load == "push-classic":

        @consumer.concurrent_listener
        def consume_batch(messages: Sequence[MessageExt], context: Any) -> ConsumeConcurrentlyStatus:
            for _ in messages:
                count()
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    else:

        @consumer.on_message
        def consume(message: MessageExt) -> None:
            count()

    with consumer:
        clock.wait()
        clock.report()


def run_idle(load: Namespace) -> None:
    consumer = PushConsumer(load.group, **push_options(load))
    consumer.subscribe(load.topic)

    @consumer.on_message
    def consume(message: MessageExt) -> None:
        pass

    with consumer:
        say("ready")
        sys.stdin.read()


@contextlib.contextmanager
def profiled(path: str) -> Iterator[None]:
    if not path:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    yield
    profile.disable()
    profile.dump_stats(path)


def main() -> None:
    load = parsed_load()
    if load.load == "idle":
        run_idle(load)
        return
    clock = LoadClock(load.messages, load.warm_up, load.seconds)
    if load.load == "send-one":
        run_sync(load, clock, 1)
    elif load.load in ("send-64-threads", "send-8-threads"):
        run_sync(load, clock, int(load.load.split("-")[1]))
    elif load.load == "send-batched-blocking":
        run_batched_blocking(load, clock)
    elif load.load in ("push-blocking", "push-classic", "orderly"):
        run_push_blocking(load, clock)
    else:
        if load.load == "push-async":
            work = run_push_async(load, clock)
        elif load.load == "send-batched":
            work = run_batched(load, clock)
        elif load.load in ("start-producer", "start-consumer"):
            work = run_start(load, clock)
        elif load.load == "send-64-signed":
            work = run_async(load, clock, 64, access_key="bench-account", secret_key="bench-secret-1234")
        elif load.load == "send-64-tls":
            trusting_anybody = ssl.create_default_context()
            trusting_anybody.check_hostname, trusting_anybody.verify_mode = False, ssl.CERT_NONE
            work = run_async(load, clock, 64, ssl_context=trusting_anybody)
        elif load.load == "send-batched-await":
            work = run_async(load, clock, UNDER_WAY, auto_batch=True)
        else:
            work = run_async(load, clock, 64)
        loop = new_event_loop()
        loop.run_until_complete(work)
        loop.close()


if __name__ == "__main__":
    main()

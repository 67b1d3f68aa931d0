# SPDX-License-Identifier: Apache-2.0
"""The measurement of one load by the client's program itself: rate, latencies, CPU.

It uses only the standard library, because peers run it in their own venvs.

A program runs one load and prints one JSON line: ``{"event": "load", "messages", "seconds", "p50_us", "p99_us", "cpu_us"}``. CPU is user
and system time of the whole process, all its threads, per message. Messages of the warm-up do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable


def parsed_load() -> argparse.Namespace:
    """The options of every program."""
    parser = argparse.ArgumentParser()
    for name in ("--load", "--namesrv", "--topic", "--group"):
        parser.add_argument(name, required=True)
    parser.add_argument("--endpoints", default="", help="of the proxy, for a client that speaks gRPC")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--warm-up", type=int, default=0)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument(
        "--forms", default="", help="a file of message_forms.py, in place of messages that are all alike"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="a program that is slower ends here")
    parser.add_argument("--in-hand", type=int, default=1000, help="pull threshold of a queue")
    parser.add_argument("--profile", default="", help="write a cProfile of the thread that does the work there")
    return parser.parse_args()


class LoadClock:
    """Counts messages, and measures from the end of the warm-up on.

    Args:
        messages: the number to measure.
        warm_up: the number of messages before that.
        seconds: limit of the whole load.
    """

    def __init__(self, messages: int, warm_up: int, seconds: float) -> None:
        self.messages, self.warm_up = messages, warm_up
        self.deadline_s = time.perf_counter() + seconds
        self.seen = 0
        self.latencies_s: list[float] = []
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._started_s = self._started_cpu_s = self._ended_s = self._ended_cpu_s = 0.0
        if not warm_up:
            self.begin()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.deadline_s

    def begin(self) -> None:
        self.latencies_s.clear()
        self._started_cpu_s = _cpu_s()
        self._started_s = time.perf_counter()

    def count(self) -> None:
        """Count one message; can be called from any thread."""
        with self._lock:
            self.seen += 1
            seen = self.seen
        if seen == self.warm_up:
            self.begin()
        elif seen == self.warm_up + self.messages:
            self.end()

    def end(self) -> None:
        self._ended_cpu_s, self._ended_s = _cpu_s(), time.perf_counter()
        self.ended.set()

    def wait(self) -> None:
        """Wait until all are counted or the time is over."""
        self.ended.wait(max(0.0, self.deadline_s - time.perf_counter()))

    def report(self, done: int | None = None) -> None:
        """Print the line; `done` messages were measured, by default the number counted."""
        if not self.ended.is_set():
            self.end()
        if done is None:
            done = min(self.messages, self.seen - self.warm_up)
        took = sorted(self.latencies_s) or [0.0]
        say(
            "load",
            messages=done,
            seconds=self._ended_s - self._started_s,
            p50_us=took[len(took) // 2] * 1e6,
            p99_us=took[int(len(took) * 0.99)] * 1e6,
            cpu_us=(self._ended_cpu_s - self._started_cpu_s) * 1e6 / max(done, 1),
        )

    def time_each(self, count: int, send: Callable[[], object]) -> None:
        """Call ``send`` so many times, one after the other."""
        for _ in range(count):
            started_s = time.perf_counter()
            send()
            self.latencies_s.append(time.perf_counter() - started_s)
            if self.is_over:
                return

    def time_in_threads(self, threads: int, count: int, send: Callable[[], object]) -> None:
        running = [threading.Thread(target=self.time_each, args=(count // threads, send)) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    def measure(self, run: Callable[[int], None]) -> None:
        """``run(count)`` sends so many: the warm-up, then what is reported."""
        run(self.warm_up)
        self.begin()
        run(self.messages)
        self.report(len(self.latencies_s))


def run_peer(
    send: Callable[[argparse.Namespace, LoadClock, int], None],
    consume: Callable[[argparse.Namespace, LoadClock | None], None],
) -> None:
    """The main program of a peer. ``send`` gets the number of messages in flight, ``consume`` returns after its consumer has started."""
    load = parsed_load()
    clock = None if load.load == "idle" else LoadClock(load.messages, load.warm_up, load.seconds)
    if clock is not None and load.load.startswith("send"):
        send(load, clock, 1 if load.load == "send-one" else 64)
    else:
        consume(load, clock)
        if clock is None:
            say("ready")
            sys.stdin.read()
        else:
            clock.wait()
            clock.report()
    # A peer does not always end by itself: its threads call into Python while it is shutting down.
    os._exit(0)


def say(event: str, **figures: float) -> None:
    """Print one JSON line."""
    sys.stdout.write(json.dumps({"event": event, **figures}) + "\n")
    sys.stdout.flush()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

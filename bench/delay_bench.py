# SPDX-License-Identifier: Apache-2.0
"""How late delayed messages are delivered while 100,000 of them wait: `python bench/delay_bench.py`, or `make bench-delay`.

    load.c --rate R     N messages of one delay level          each waits a minute, so that all wait at the same time
    load.c              a fifth as many timer messages          each due 20 s later
    load.c              ordinary messages in addition, until the last one is delivered

The lateness of a message is the store time of its copy minus its due time. Both are read from the records themselves, after the run: the
due time of a level is the store time in SCHEDULE_TOPIC_XXXX plus the delay, that of a timer message the end of its slot (TIMER_OUT_MS plus
a second, the precision of both brokers). The brokers run one after the other on the same machine, with their defaults. Read the figures
together with the load of the machine: a broker that has to wait for a core is late, too.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rich.console import Console

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from broker_bench import Server, chosen_servers, cpu_seconds, name_of  # noqa: E402
from interop.peers import ALL_VERSIONS, APACHE_5, unwind_on_sigterm  # noqa: E402
from interop.remoting import decode_header, request_frame, split_frame  # noqa: E402
from load_program import build_programs, load_command  # noqa: E402
from report import figures_table, mark, new_console  # noqa: E402
from sprocketmq.wire.records.properties import get_property  # noqa: E402
from sprocketmq.wire.records.record import record_parts  # noqa: E402

QUEUES: Final = 8
LEVELS_MS: Final = (1_000, 5_000, 10_000, 30_000, 60_000)
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
PRECISION_MS: Final = 1_000
GOAL_MS: Final = 100
_PULL_MESSAGE, _GET_MAX_OFFSET = 11, 30
_PATIENCE_S: Final = 60.0


class Lateness(NamedTuple):
    """One line of the table; milliseconds."""

    messages: int
    missing: int
    most_waiting: int
    earliest: float
    p50: float
    p99: float
    latest: float


class Outcome(NamedTuple):
    """The results of one broker."""

    level: Lateness
    timer: Lateness
    beside_p50_us: float
    beside_p99_us: float
    cpu: float  # cores used by the broker, on average over the run
    machine_load: float


class Asking:
    """One connection for requests one after the other."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._file = self._socket.makefile("rb")

    def ask(self, code: int, ext: dict[str, str]) -> tuple[dict[str, object], bytes]:
        self._socket.sendall(request_frame(code, ext))
        head = self._file.read(4)
        kind, header, body = split_frame(head + self._file.read(struct.unpack(">i", head)[0]))
        return decode_header(kind, header), body

    def max_offset(self, topic: str, queue: int) -> int:
        header, _ = self.ask(_GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)})
        fields = header.get("extFields")
        return int(fields["offset"]) if isinstance(fields, dict) else 0

    def records(self, topic: str, queue: int, begin: int) -> Iterator[tuple[int, bytes]]:
        """(store time, raw properties) of each record of a queue from ``begin`` on."""
        end = self.max_offset(topic, queue)
        ext = {"consumerGroup": "bench-consumers", "topic": topic, "queueId": str(queue), "maxMsgNums": "32"}
        ext |= {
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "1000",
            "subscription": "*",
            "subVersion": "0",
        }
        while begin < end:
            header, body = self.ask(_PULL_MESSAGE, {**ext, "queueOffset": str(begin)})
            fields = header["extFields"]
            assert isinstance(fields, dict)
            if int(fields["nextBeginOffset"]) <= begin:
                raise SystemExit(f"bench: queue {queue} of {topic} gives nothing at {begin}: {header}")
            begin, at = int(fields["nextBeginOffset"]), 0
            while at < len(body):
                head, _, raw = record_parts(body, at)
                yield head[11], raw
                at += head[0]

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Run:
    """One broker, one run."""

    def __init__(self, server: Server, options: argparse.Namespace) -> None:
        self.server, self.options = server, options
        self.asking = Asking(server.broker_addr)

    def load(self, topic: str, messages: int, rate: int, property_text: str = "") -> subprocess.Popen[str]:
        more = ["--mode", "send", "--rate", str(rate), "--inflight", "64"]
        more += ["--property", property_text] if property_text else []
        command = load_command(self.server.broker_addr, topic, QUEUES, messages, 600, *more)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def once(self, topic_suffix: str, level: int, messages: int, timer_ms: int, timers: int, rate: int) -> Outcome:
        """Send, wait for all copies, read everything back."""
        level_topic, timer_topic = f"bench-level{topic_suffix}", f"bench-timer{topic_suffix}"
        for topic in (level_topic, timer_topic, "bench-beside"):
            self.server.create_topic(topic, QUEUES)
        schedule_begin = self.asking.max_offset(SCHEDULE_TOPIC, level - 1)
        seconds = messages / rate + LEVELS_MS[level - 1] / 1000
        began_s, cpu = time.monotonic(), cpu_seconds(self.server.broker_pid)
        beside_rate = max(1, rate // 8)
        loads = [
            self.load("bench-beside", int(beside_rate * seconds), beside_rate),
            self.load(level_topic, messages, rate, f"DELAY={level}"),
            self.load(timer_topic, timers, max(1, rate * timers // messages), f"TIMER_DELAY_MS={timer_ms}"),
        ]
        try:
            self._wait({level_topic: messages, timer_topic: timers}, seconds + _PATIENCE_S, loads)
            beside = json.loads(finished(loads[0]))
        finally:
            for load in loads:
                load.kill()
                load.wait()
        cores = (cpu_seconds(self.server.broker_pid) - cpu) / (time.monotonic() - began_s)
        return Outcome(
            self._level(level, schedule_begin, level_topic, messages),
            self._timer(timer_topic, timer_ms, timers),
            beside["p50_us"],
            beside["p99_us"],
            cores,
            os.getloadavg()[0],
        )

    def _wait(self, wanted: dict[str, int], patience_s: float, loads: list[subprocess.Popen[str]]) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            for load in loads:
                if load.poll():
                    finished(load)
            if all(
                sum(self.asking.max_offset(topic, queue) for queue in range(QUEUES)) >= count
                for topic, count in wanted.items()
            ):
                return
            time.sleep(0.5)

    def _copies(self, topic: str) -> Iterator[tuple[int, bytes]]:
        for queue in range(QUEUES):
            yield from self.asking.records(topic, queue, 0)

    def _level(self, level: int, begin: int, topic: str, messages: int) -> Lateness:
        stored = {
            get_property(raw, "UNIQ_KEY"): ms
            for ms, raw in self.asking.records(SCHEDULE_TOPIC, level - 1, begin)
            if get_property(raw, "REAL_TOPIC") == topic
        }
        copies = {get_property(raw, "UNIQ_KEY"): ms for ms, raw in self._copies(topic)}
        pairs = [(ms, copies[key]) for key, ms in stored.items() if key in copies]
        return lateness(pairs, LEVELS_MS[level - 1], messages)

    def _timer(self, topic: str, timer_ms: int, messages: int) -> Lateness:
        pairs = [(int(get_property(raw, "TIMER_OUT_MS") or 0), ms) for ms, raw in self._copies(topic)]
        return lateness(pairs, PRECISION_MS, messages, timer_ms)


def finished(load: subprocess.Popen[str]) -> str:
    """The JSON line of a load.

    Raises:
        SystemExit: it failed; the text is its error.
    """
    out, error = load.communicate(timeout=_PATIENCE_S)
    if load.returncode:
        raise SystemExit(f"bench: {error.strip() or f'load ended with {load.returncode}'}")
    return out


def lateness(pairs: list[tuple[int, int]], delay_ms: int, messages: int, waited_ms: int = 0) -> Lateness:
    """For pairs (begin, end) in ms: how much later than begin + delay each end is, and the maximum number that waited at one time."""
    if not pairs:
        return Lateness(0, messages, 0, 0, 0, 0, 0)
    begins, ends = np.array(pairs).T
    late = ends - begins - delay_ms
    since = np.sort(begins - max(0, waited_ms - delay_ms))
    waiting = np.searchsorted(since, np.sort(ends), side="right") - np.arange(len(ends))
    p50, p99 = np.percentile(late, (50, 99))
    return Lateness(
        len(pairs), messages - len(pairs), int(waiting.max()), float(late.min()), p50, p99, float(late.max())
    )


def print_table(outcomes: dict[str, Outcome], console: Console) -> None:
    figures = ("count", "missing", "most waiting", "earliest ms", "p50 ms", "p99 ms", "latest ms")
    title = "store time of the copy minus the moment it was due"
    table = figures_table(title, ("messages", "broker"), *figures, f"goal p99 {GOAL_MS} ms")
    for kind in ("level", "timer"):
        for number, (name, outcome) in enumerate(outcomes.items()):
            of: Lateness = getattr(outcome, kind)
            is_reached = of.p99 <= GOAL_MS and not of.missing and of.earliest >= 0
            table.add_row(
                {"level": "delay level", "timer": "timer"}[kind] if number == 0 else "",
                name,
                f"{of.messages:,}",
                f"{of.missing:,}",
                f"{of.most_waiting:,}",
                *(f"{figure:.0f}" for figure in of[3:]),
                mark(is_reached),
            )
        table.add_section()
    console.print(table)
    for name, outcome in outcomes.items():
        console.print(
            f"{name}: ordinary sends beside p50 {outcome.beside_p50_us / 1000:.1f} ms, p99 {outcome.beside_p99_us / 1000:.1f} ms; "
            f"the broker used {outcome.cpu:.2f} cores of {os.cpu_count()}, load of the machine {outcome.machine_load:.1f}"
        )


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="How late delayed and timer messages come, ours and Apache's side by side."
    )
    parser.add_argument("--messages", type=int, default=100_000, help="messages of the delay level, default 100,000")
    parser.add_argument("--timers", type=int, help="timer messages, default a fifth of that")
    parser.add_argument("--level", type=int, default=5, choices=range(1, 6), help="delay level, default 5: 1 min")
    parser.add_argument("--timer-ms", type=int, default=20_000, help="how long timer messages wait, default 20,000")
    parser.add_argument("--rate", type=int, default=2_000, help="messages of the level sent per second, default 2,000")
    parser.add_argument(
        "--peers", default=APACHE_5, help=f"versions of Apache, by commas, out of {','.join(ALL_VERSIONS)}; - for none"
    )
    parser.add_argument("--no-ours", action="store_true", help="Apache alone")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    console = new_console(160)
    build_programs()
    unwind_on_sigterm()
    names = [*options.peers.split(","), *([] if options.no_ours else ["ours"])]
    timers = options.timers if options.timers is not None else options.messages // 5
    outcomes: dict[str, Outcome] = {}
    for server in chosen_servers(names, None, console):
        try:
            server.start()
            run = Run(server, options)
            # A JVM that has just started is late, so it delivers some messages before the measurement.
            run.once("-warm-up", 1, min(20_000, options.messages), 2_000, min(4_000, timers), options.rate)
            outcomes[name_of(server)] = run.once(
                "", options.level, options.messages, options.timer_ms, timers, options.rate
            )
            run.asking.close()
        finally:
            server.stop()
    if not outcomes:
        raise SystemExit("nothing to measure")
    print_table(outcomes, console)


if __name__ == "__main__":
    main()

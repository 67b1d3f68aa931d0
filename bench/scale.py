# SPDX-License-Identifier: Apache-2.0
"""How the broker scales: start and memory, restart after a kill, and the cost of a message with large tables.

Start, memory and restart are compared with Apache's name server and broker on the same machine. The other rows compare our broker with
itself: CPU per message with little and with much of something, with the goal that it grows by at most a fifth. The last table has a broker
with much of everything, killed and started again: the time of the start, and its memory. Anonymous memory counts against a container's
limit; the files of the store are in the page cache, which the kernel frees when memory is needed.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from interop.peers import ApacheCluster, SprocketServer
from interop.remoting import ask, request_frame
from load_program import Form, run_load_program
from report import at_most

QUEUES: Final = 8
_UPDATE_AND_CREATE_TOPIC_LIST, _PULL_MESSAGE = 18, 11
_SEND: Final = ("--mode", "send", "--inflight", "64")
_PULL: Final = ("--mode", "pull")
# Ten gigabytes are written with many messages per request; the content of the files is the same.
_FILL: Final = ("--mode", "batch", "--batch", "100", "--body", "1024", "--inflight", "16")
_TURNS: Final = 4
_START_GOAL: Final = 0.1
_MEMORY_GOAL: Final = 0.1
_RESTART_GOAL: Final = 0.5
_SCALE_GOAL: Final = 1.2
_LARGE_RESTART_GOAL_S: Final = 5.0
_MANY_TOPICS, _MANY_CONNECTIONS = 10_000, 2_000
_FILL_SMALL: Final = ("--mode", "batch", "--batch", "100", "--body", "100", "--inflight", "16")

Server = ApacheCluster | SprocketServer


def run(
    console: Console, peers: list[str], stored: int, restart_messages: int, *, quick: bool, form: Form = ()
) -> None:
    """Measure and print all rows; ``form``: options of load.c for the messages of all of them."""
    table = Table(
        "what",
        "Apache",
        "ours",
        "ratio",
        "goal",
        title="start, memory, restart: the smaller ratio is ours being better",
    )
    for name, theirs, own, goal in _against_apache(peers, restart_messages, form):
        ratio = own / theirs if theirs else 0.0
        table.add_row(
            name, f"{theirs:,.2f}" if theirs else "-", f"{own:,.2f}", *_verdict(ratio, goal, known=bool(theirs))
        )
    console.print(table)
    messages = 20_000 if quick else 100_000
    table = Table(
        "CPU us per message", "with little", "with much", "ratio", "goal", title="our broker with large tables"
    )
    for name, little, much in _growing(stored // 10 if quick else stored, messages, form):
        table.add_row(name, f"{little:.2f}", f"{much:.2f}", *_verdict(much / little, _SCALE_GOAL, known=True))
    console.print(table)
    console.print(_large_store(stored // 10 if quick else stored, messages, form))


def _verdict(ratio: float, goal: float, *, known: bool) -> tuple[str, str]:
    if not known:
        return "-", f"<= {goal}"
    return f"{ratio:.2f}x", at_most(ratio, goal).partition(" of ")[2]


# -- against Apache ------------------------------------------------------------------------------------------------------------


def _against_apache(peers: list[str], restart_messages: int, form: Form) -> Iterator[tuple[str, float, float, float]]:
    """(name, Apache's figure or 0, ours, goal)"""
    makers: list[Callable[[Path], Server]] = [SprocketServer, *(partial(ApacheCluster, version) for version in peers)]
    figures = []
    for make in makers:
        starts_s = []
        for messages in (0, 0, restart_messages):
            folder = Path(tempfile.mkdtemp(prefix="bench-"))
            server = make(folder / "store")
            try:
                start_s, memory_mb, restart_s = _start_and_restart(server, messages, form)
                starts_s.append(start_s)
            finally:
                server.stop()
                shutil.rmtree(folder, ignore_errors=True)
        figures.append((min(starts_s), memory_mb, restart_s))
    own, theirs = figures[0], figures[1] if peers else (0.0, 0.0, 0.0)
    yield "start to ready, s", theirs[0], own[0], _START_GOAL
    yield "memory when idle, MB", theirs[1], own[1], _MEMORY_GOAL
    yield f"restart after kill -9 with {restart_messages:,} x 1 KB, s", theirs[2], own[2], _RESTART_GOAL


def _start_and_restart(server: Server, messages: int, form: Form) -> tuple[float, float, float]:
    began_s = time.monotonic()
    server.start()
    start_s = time.monotonic() - began_s
    time.sleep(2)
    pids = {server.broker_pid}
    if isinstance(server, ApacheCluster) and server._namesrv is not None:
        pids.add(server._namesrv.pid)
    memory_mb = sum(_resident_bytes(pid) for pid in pids) / (1 << 20)
    if not messages:
        return start_s, memory_mb, 0.0
    server.create_topic("bench-1k", QUEUES)
    _load(server, "bench-1k", (*_FILL, *form), messages)
    if isinstance(server, ApacheCluster):
        server.kill()
        began_s = time.monotonic()
        server.start_broker()
    else:
        server.kill()
        began_s = time.monotonic()
        server.start()
    return start_s, memory_mb, time.monotonic() - began_s


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


# -- our broker with large tables ----------------------------------------------------------------------------------------


def _growing(stored: int, messages: int, form: Form) -> Iterator[tuple[str, float, float]]:
    """(name, CPU per message with little, with much)"""
    with SprocketServer() as small, SprocketServer(cleanFileForciblyEnable=False) as large:
        for server in (small, large):
            server.create_topic("bench-1k", QUEUES)
            _load(server, "bench-1k", (*_SEND, *form), messages)
        for what, much in (
            (f"{_MANY_TOPICS:,} topics", _many_topics(large, _MANY_TOPICS)),
            (f"{_MANY_CONNECTIONS:,} connections", _idle_connections(large, _MANY_CONNECTIONS)),
            ("10,000 parked pulls", _parked_pulls(large, 10_000)),
            (f"{stored:,} messages of 100 B", _stored(large, stored, form)),
        ):
            with much:
                for mode in (_SEND, _PULL):
                    yield f"{mode[1]}, {what}", *_costs((small, large), mode, messages, form)


def _large_store(stored: int, messages: int, form: Form) -> Table:
    """A broker with much of everything, killed and started again, compared with a small one."""
    what = f"{stored:,} x 100 B, {_MANY_TOPICS:,} topics, {_MANY_CONNECTIONS:,} connections"
    table = Table("what", "small", "large", "ratio", "goal", title=what)
    with SprocketServer() as small, SprocketServer(cleanFileForciblyEnable=False) as large:
        for server in (small, large):
            server.create_topic("bench-1k", QUEUES)
            _load(server, "bench-1k", (*_SEND, *form), messages)
        with _many_topics(large, _MANY_TOPICS):
            _load(large, "bench-1k", (*_FILL_SMALL, *form), stored)
            _until_idle(large.broker_pid)
        restarts_s = []
        for server in (small, large):
            server.kill()
            began_s = time.monotonic()
            server.start()
            restarts_s.append(time.monotonic() - began_s)
        with _idle_connections(large, _MANY_CONNECTIONS):
            for mode in (_SEND, _PULL):
                little, much = _costs((small, large), mode, messages, form)
                ratio, goal = _verdict(much / little, _SCALE_GOAL, known=True)
                table.add_row(f"{mode[1]}, CPU us per message", f"{little:.2f}", f"{much:.2f}", ratio, goal)
            for kind, fields in (("anonymous", ("RssAnon",)), ("page cache, mapped", ("RssFile", "RssShmem"))):
                sizes = [sum(_memory_mb(server.broker_pid, field) for field in fields) for server in (small, large)]
                table.add_row(f"memory, {kind}, MB", *(f"{size:,.0f}" for size in sizes), "", "")
    goal = at_most(restarts_s[1], _LARGE_RESTART_GOAL_S).partition(" of ")[2]
    table.add_row("restart after kill -9, s", *(f"{restart_s:.2f}" for restart_s in restarts_s), "", goal)
    return table


def _memory_mb(pid: int, field: str) -> float:
    """A figure of /proc/PID/status."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def _costs(
    servers: tuple[SprocketServer, SprocketServer], mode: tuple[str, ...], messages: int, form: Form
) -> tuple[float, float]:
    """CPU us per message of each, the best of some rounds in which they take turns, because the machine's speed changes over minutes."""
    count = messages if mode is _SEND else 4 * messages
    costs: tuple[list[float], list[float]] = ([], [])
    for _ in range(_TURNS):
        for server, of_server in zip(servers, costs, strict=True):
            before = _cpu_s(server.broker_pid)
            _load(server, "bench-1k", (*mode, *form), count)
            _until_idle(server.broker_pid)
            of_server.append((_cpu_s(server.broker_pid) - before) * 1e6 / count)
    return min(costs[0]), min(costs[1])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _until_idle(pid: int) -> None:
    deadline, before = time.monotonic() + 15, _cpu_s(pid)
    while time.monotonic() < deadline:
        time.sleep(0.4)
        after = _cpu_s(pid)
        if after - before <= 0.02:
            return
        before = after


def _load(server: Server, topic: str, mode: tuple[str, ...], messages: int) -> None:
    run_load_program(server.broker_addr, topic, QUEUES, messages, 600, *mode)


@contextlib.contextmanager
def _many_topics(server: SprocketServer, count: int) -> Iterator[None]:
    """Create topics with one message each, so that their queues exist as well."""
    with _Asking(server) as asking:
        # A thousand at once, because each change writes the file of all topics.
        for first in range(0, count, 1_000):
            topics = [
                {"topicName": f"many-{number:05d}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
                for number in range(first, min(first + 1_000, count))
            ]
            asking.ask(_UPDATE_AND_CREATE_TOPIC_LIST, {}, json.dumps({"topicConfigList": topics}).encode())
        for number in range(count):
            fields = (
                "p",
                f"many-{number:05d}",
                "TBW102",
                "4",
                "0",
                "0",
                "1700000000000",
                "0",
                f"UNIQ_KEY\x01{number:032X}\x02",
            )
            asking.ask(310, dict(zip("abcdefghi", fields, strict=True)), b"x")
    yield


@contextlib.contextmanager
def _idle_connections(server: SprocketServer, count: int) -> Iterator[None]:
    with _many_files(count), contextlib.ExitStack() as stack:
        host, port = server.broker_addr.rsplit(":", 1)
        for _ in range(count):
            stack.enter_context(socket.create_connection((host, int(port))))
        yield


@contextlib.contextmanager
def _parked_pulls(server: SprocketServer, count: int) -> Iterator[None]:
    """Parked pulls on a separate topic, 500 per connection, for ten minutes."""
    server.create_topic("waiting", QUEUES)
    per_connection = 500
    with contextlib.ExitStack() as stack:
        for _ in range(count // per_connection):
            asking = stack.enter_context(_Asking(server))
            for number in range(per_connection):
                fields = {
                    "consumerGroup": f"waiters-{number % 20}",
                    "topic": "waiting",
                    "queueId": str(number % QUEUES),
                    "queueOffset": "0",
                    "maxMsgNums": "32",
                    "sysFlag": "6",
                    "commitOffset": "0",
                    "suspendTimeoutMillis": "600000",
                    "subVersion": "0",
                    "subscription": "*",
                }
                asking.tell(_PULL_MESSAGE, fields)
        ask(server.broker_addr, 28)  # all earlier requests are parked by now
        yield


@contextlib.contextmanager
def _stored(server: SprocketServer, count: int, form: Form) -> Iterator[None]:
    # A message more costs the same whatever its size, and 50,000,000 of these fit on a disk.
    _load(server, "bench-1k", (*_FILL_SMALL, *form), count)
    _until_idle(server.broker_pid)
    yield


@contextlib.contextmanager
def _many_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class _Asking:
    """One connection for many requests, one after the other."""

    def __init__(self, server: SprocketServer) -> None:
        host, port = server.broker_addr.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 30)
        self._stream = self._socket.makefile("rb")
        self._opaque = 0

    def tell(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        self._opaque += 1
        self._socket.sendall(request_frame(code, fields, body, self._opaque))

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        self.tell(code, fields, body)
        (length,) = struct.unpack(">i", self._stream.read(4))
        answer = self._stream.read(length)
        if b'"code":0' not in answer:
            raise SystemExit(f"request {code} was refused: {answer[4:300]!r}")

    def __enter__(self) -> _Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

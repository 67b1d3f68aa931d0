# SPDX-License-Identifier: Apache-2.0
"""How long one request, or one periodic task, holds the loop of a broker with large tables: `make loop-share`.

    python bench/loop_share.py [--topics 10000] [--groups 10000] [--offsets 200000] [--members 1000]

Broker and name server share one loop, as in `sprocketmq serve`. Their tables are filled, then a request of each served code is sent, and
each periodic task is run, one at a time. A callback runs in every turn of the loop; the longest time between two of its calls is the time
for which the request or task held the loop. Requests of every code are sent in their ordinary form and, if a request may contain many
names, in their largest form. Exit code 1 if something held the loop for longer than ``--allowed-ms``.

    python bench/loop_share.py --console [--groups 2000]

What a console costs its broker: `sprocketmq serve --console` in a process, groups of 8 queues with progress, an open page. An honest sender
notes how long each send waits, less the time for which it or the broker was ready but waited for a processor: without a console, with one,
and with a liar that registered a broker and answers code 317 with 14.8 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from interop.hostile_requests import templates  # noqa: E402
from interop.large_tables import Sizes, fill, large_requests, periodic_tasks  # noqa: E402
from report import figures_table, new_console  # noqa: E402
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig  # noqa: E402
from sprocketmq.client.admin import AsyncAdmin  # noqa: E402
from sprocketmq.client.produce.async_producer import AsyncProducer  # noqa: E402
from sprocketmq.errors import RocketMQError  # noqa: E402
from sprocketmq.net.connection import Connection  # noqa: E402
from sprocketmq.net.pool import ConnectionPool  # noqa: E402
from sprocketmq.net.process.clock import ManualClock  # noqa: E402
from sprocketmq.net.process.engine import Engine  # noqa: E402
from sprocketmq.net.server import Server  # noqa: E402
from sprocketmq.wire import bodies, headers, requests  # noqa: E402
from sprocketmq.wire.codes import RequestCode  # noqa: E402
from sprocketmq.wire.frames.command import Command, request, response  # noqa: E402
from sprocketmq.wire.records.message import Message, MessageQueue  # noqa: E402

ALLOWED_MS: Final = 50.0
_LAST: Final = (25, 318, 30001, 316, 306, 329)  # requests that change settings or clean up come last


class Hold(NamedTuple):
    """A request or task, the longest time for which it held the loop, and its total time."""

    what: str
    hold_ms: float
    whole_ms: float
    code: int


class Probe:
    """A callback in every turn of the loop; ``longest_ms`` is the longest time between two of them.

    The time for which the loop's thread was ready but waited for a processor is subtracted (schedstat, on Linux).
    """

    def __init__(self) -> None:
        self.longest_ms = self._last_s = 0.0
        self._on, self._stat = False, -1

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._stat = os.open(path, os.O_RDONLY) if path.exists() else -1
        self._last_s, self._on = self._time_s(), True
        self._loop.call_soon(self._turn)

    def stop(self) -> None:
        self._on = False
        self._note()
        if self._stat >= 0:
            os.close(self._stat)

    def _time_s(self) -> float:
        waited_ns = int(os.pread(self._stat, 64, 0).split()[1]) if self._stat >= 0 else 0
        return time.perf_counter() - waited_ns / 1e9

    def _note(self) -> None:
        now_s = self._time_s()
        self.longest_ms = max(self.longest_ms, (now_s - self._last_s) * 1000)
        self._last_s = now_s

    def _turn(self) -> None:
        if self._on:
            self._note()
            self._loop.call_soon(self._turn)


class Measured:
    """A broker and a name server with large tables on one loop, and a client on another."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.clock = ManualClock()
        self.engine, self.asking = Engine("measured"), Engine("asking")
        self.namesrv = NameServer(
            port=0,
            clock=self.clock,
            engine=self.engine,
            config=NameServerConfig(kv_config_path=str(folder / "kv.json")),
        )
        self.namesrv.start()
        config = BrokerConfig(
            enable_property_filter=True, metrics_exporter_type="PROM", metrics_prom_exporter_port=0,
            mapped_file_size_commit_log=64 << 20, mapped_file_size_consume_queue=20_000, slow_request_ms=100_000,
        )  # fmt: skip
        self.broker = Broker(
            self.namesrv.address,
            port=0,
            store_dir=str(folder / "store"),
            clock=self.clock,
            config=config,
            engine=self.engine,
        )
        self.broker.start()
        self.pool: ConnectionPool = self.asking.run(self._pool())
        self.on_loop(lambda: fill(self.broker, self.namesrv, sizes))
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)  # as `sprocketmq serve` does

    @staticmethod
    async def _pool() -> ConnectionPool:
        def ignore(connection: Connection, command: Any) -> None:
            return None

        return ConnectionPool(ignore)

    def on_loop(self, call: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return call()

        return self.engine.run(run())

    def hold(self, what: str, do: Callable[[], int]) -> Hold:
        """Run ``do`` on this thread and probe the servers' loop, until the work that it started there has ended."""
        probe = Probe()
        self.on_loop(probe.start)
        began_s = time.perf_counter()
        try:
            code = do()
        except (RocketMQError, OSError) as error:
            print(f"{what}: {error}", file=sys.stderr)
            code = -1
        self.on_loop(lambda: None)
        whole_ms = (time.perf_counter() - began_s) * 1000
        self.on_loop(probe.stop)
        return Hold(what, probe.longest_ms, whole_ms, code)

    def ask(self, to: str, frames: list[tuple[int, dict[str, str], bytes]]) -> int:
        address = self.broker.address if to == "broker" else self.namesrv.address

        async def asked() -> int:
            waiting = []
            for code, fields, body in frames:
                command = request(code, None, body)
                command.ext_fields = fields
                if code in _ONEWAY:
                    await self.pool.invoke_oneway(address, command)
                else:
                    waiting.append(asyncio.ensure_future(self.pool.invoke(address, command, 60_000)))
            answers = await asyncio.gather(*waiting)
            return answers[-1].code if answers else 0

        return self.asking.run(asked())

    def close(self) -> None:
        self.asking.run(self.pool.aclose())
        self.broker.stop()
        self.namesrv.stop()
        self.engine.close()
        self.asking.close()


_ONEWAY: Final = frozenset((37,))


def measure(measured: Measured, sizes: Sizes, only: str = "") -> list[Hold]:
    found = []

    def run(task: Callable[[], Coroutine[Any, Any, object]]) -> int:
        done = measured.engine.run(task())
        return done if isinstance(done, int) else 0

    for name, task in periodic_tasks(measured.broker, measured.namesrv):
        if only in name:
            found.append(measured.hold(name, partial(run, task)))
    asked = sorted(templates(), key=lambda one: (one.code in _LAST, one.to, one.code))
    frames = [(one.to, one.key, [(one.code, one.fields, one.body)]) for one in asked if one.code not in _LAST]
    frames += large_requests(sizes)
    frames += [(one.to, one.key, [(one.code, one.fields, one.body)]) for one in asked if one.code in _LAST]
    for to, key, asked_once in frames:
        what = f"{key} {_name(asked_once[0][0])}"
        if only in what:
            found.append(measured.hold(what, partial(measured.ask, to, asked_once)))
    return found


def _name(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return ""


# -- a console beside a broker -----------------------------------------------------------------------------------------------------------

_QUEUES: Final = 8
_FOR_S: Final = 20.0
_LIE_BYTES: Final = 14_800_000


class Waits(NamedTuple):
    """How long honest sends waited beside a console."""

    beside: str
    waits_ms: list[float]

    def row(self, allowed_ms: float) -> list[str]:
        late_ms = sum(wait for wait in self.waits_ms if wait > allowed_ms)
        p99_ms = statistics.quantiles(self.waits_ms, n=100)[-1]
        figures = (statistics.median(self.waits_ms), p99_ms, max(self.waits_ms))
        return [
            self.beside,
            f"{len(self.waits_ms)}",
            *(f"{one:.1f}" for one in figures),
            f"{late_ms / 10 / _FOR_S:.1f} %",
        ]


@contextlib.contextmanager
def served(*options: str) -> Iterator[tuple[str, str, str, int]]:
    """`sprocketmq serve`: the addresses of name server and broker, the console's link, and the process id."""
    command = [sys.executable, "-m", "sprocketmq.cli", "serve", "--namesrv-port", "0", "--broker-port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ready = server.stdout.readline()
        found = re.match(r"ready namesrv=(\S+) broker=(\S+) (?:console=(\S+) )?", ready)
        assert found is not None, ready
        try:
            yield found[1], found[2], found[3] or "", server.pid
        finally:
            server.terminate()


async def fill_progress(namesrv: str, broker: str, groups: int) -> None:
    async with AsyncAdmin(namesrv_addr=namesrv) as admin:
        await admin.create_topic("orders", queues=_QUEUES, broker="broker-a")
        queues = [MessageQueue("orders", "broker-a", number) for number in range(_QUEUES)]
        pool = ConnectionPool()
        configs = [bodies.SubscriptionGroupConfig(group_name=f"g{number:04}") for number in range(groups)]
        for first in range(0, groups, 500):
            await admin.create_groups(configs[first : first + 500], broker="broker-a")
        for number in range(groups):
            for queue in queues:
                header = headers.UpdateConsumerOffsetRequestHeader(
                    consumer_group=f"g{number:04}", topic="orders", queue_id=queue.queue_id, commit_offset=1
                )
                command = requests.offsets.UPDATE_CONSUMER_OFFSET.command(header, oneway=queue is not queues[-1])
                if queue is queues[-1]:
                    await pool.invoke(broker, command, 30_000)
                else:
                    await pool.invoke_oneway(broker, command)
        await pool.aclose()


def lie() -> bytes:
    """An answer to code 317 in fastjson's dialect, as long as a frame may be."""
    row = '{"brokerName":"liar","queueId":%d,"topic":"t"}:{"brokerOffset":9,"consumerOffset":1,"lastTimestamp":0,"pullOffset":1}'
    size = len(row) + 7
    rows = ",".join(row % number for number in range(_LIE_BYTES // size))
    return ('{"consumeStatsList":[{"g":[{"consumeTps":0.0,"offsetTable":{' + rows + '}}]}],"totalDiff":0}').encode()


async def begin_to_lie(namesrv: str) -> tuple[Server, asyncio.Task[None]]:
    """Register a broker as a stranger can, and answer for it."""
    text = lie()

    def handle(connection: Connection, command: Command, now_ms: int = 0) -> Command | None:
        if command.code == RequestCode.GET_BROKER_CONSUME_STATS:
            return response(command, body=text)
        if command.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return response(command, body=bodies.KVTable(table={"brokerVersionDesc": "V5_4_0"}).encode())
        return response(command, 1, "no")

    server = Server(handle)
    port = await server.start("127.0.0.1", 0)
    header = headers.RegisterBrokerRequestHeader(
        cluster_name="DefaultCluster", broker_name="liar", broker_id=0, broker_addr=f"127.0.0.1:{port}",
        ha_server_addr="", compressed=False, body_crc32=0,
    )  # fmt: skip
    body = bodies.RegisterBrokerBody()

    async def register() -> None:
        pool = ConnectionPool()
        while True:
            command = requests.name_servers.REGISTER_BROKER.command(header, body.encode())
            await pool.invoke(namesrv, command, 3_000)
            await asyncio.sleep(10)

    return server, asyncio.ensure_future(register())


def withheld_s(*pids: int) -> float:
    """For how long the main threads of these processes have waited for a processor so far (Linux)."""
    paths = [Path(f"/proc/{pid}/task/{pid}/schedstat") for pid in pids]
    return sum(int(path.read_text().split()[1]) for path in paths if path.exists()) / 1e9


async def send_honestly(namesrv: str, pid: int, begin: Callable[[], None]) -> list[float]:
    waits_ms = []
    async with AsyncProducer("honest", namesrv_addr=namesrv, send_msg_timeout_ms=60_000) as producer:
        await producer.send(Message("orders", b"first"))
        begin()
        ends_s = time.perf_counter() + _FOR_S
        while (began_s := time.perf_counter()) < ends_s:
            withheld_before_s = withheld_s(pid, os.getpid())
            await producer.send(Message("orders", b"x" * 100))
            took_s = time.perf_counter() - began_s - (withheld_s(pid, os.getpid()) - withheld_before_s)
            waits_ms.append(max(0.0, took_s) * 1000)
            await asyncio.sleep(0.005)
    return waits_ms


def keep_open(link: str, stopped: threading.Event) -> None:
    """A page in a browser: it waits for events, and loads the overview again with each."""
    with httpx.Client(timeout=120) as browser:
        browser.get(link)
        base = link.partition("/?")[0]
        with contextlib.suppress(httpx.HTTPError), browser.stream("GET", f"{base}/events") as events:
            for line in events.iter_lines():
                if stopped.is_set():
                    return
                if line.startswith("event: tick"):
                    browser.get(f"{base}/overview/live")


def beside_a_console(beside: str, groups: int, *, console: bool, is_lied_to: bool = False) -> Waits:
    with served(*(["--console", "0"] if console else [])) as (namesrv, broker, link, pid):
        asyncio.run(fill_progress(namesrv, broker, groups))
        stopped = threading.Event()
        page = threading.Thread(target=keep_open, args=(link, stopped), daemon=True)
        lying = Engine("lying")
        liars: list[tuple[Server, asyncio.Task[None]]] = []

        def begin() -> None:
            if is_lied_to:
                liars.append(lying.run(begin_to_lie(namesrv)))
            if console:
                page.start()

        waits_ms = asyncio.run(send_honestly(namesrv, pid, begin))
        stopped.set()
        for liar, registering in liars:
            lying.loop.call_soon_threadsafe(registering.cancel)
            lying.run(liar.stop())
        lying.close()
    return Waits(beside, waits_ms)


def measure_console(groups: int, allowed_ms: float) -> bool:
    """Print what honest sends waited for; whether all waited for less than allowed."""
    figures = ("sends", "median, ms", "99 %, ms", "longest, ms", f"time above {allowed_ms:.0f} ms")
    table = figures_table(f"{groups:,} groups of {_QUEUES} queues, {_FOR_S:.0f} s each", ("beside",), *figures)
    found = [
        beside_a_console("no console", groups, console=False),
        beside_a_console("a console", groups, console=True),
        beside_a_console("a console and a liar", groups, console=True, is_lied_to=True),
    ]
    for one in found:
        table.add_row(*one.row(allowed_ms))
    new_console(130).print(table)
    return all(max(one.waits_ms) <= allowed_ms for one in found)


def main() -> None:
    parser = argparse.ArgumentParser(description="How long one request or task holds the loop.")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--offsets", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--allowed-ms", type=float, default=ALLOWED_MS)
    parser.add_argument("--only", default="", help="only what has this text in its name")
    parser.add_argument("--console", action="store_true", help="what `serve --console` costs its broker, see above")
    options = parser.parse_args()
    if options.console:
        raise SystemExit(0 if measure_console(min(options.groups, 2_000), options.allowed_ms) else 1)
    sizes = Sizes(options.topics, options.groups, options.offsets, options.members)
    with tempfile.TemporaryDirectory(prefix="loop-share-") as folder:
        measured = Measured(Path(folder), sizes)
        try:
            holds = measure(measured, sizes, options.only)
        finally:
            measured.close()
    title = f"{sizes.topics:,} topics, {sizes.groups:,} groups, {sizes.offsets:,} offsets, {sizes.members:,} members"
    table = figures_table(title, ("what",), "held the loop, ms", "to the end, ms", "answer")
    holds.sort(key=lambda hold: -hold.hold_ms)
    for hold in holds:
        if hold.hold_ms >= options.allowed_ms / 10:
            table.add_row(hold.what, f"{hold.hold_ms:.1f}", f"{hold.whole_ms:.1f}", str(hold.code))
    new_console(130).print(table)
    late = [hold for hold in holds if hold.hold_ms > options.allowed_ms]
    print(f"{len(holds)} requests and tasks, {len(late)} held the loop for longer than {options.allowed_ms:.0f} ms")
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()

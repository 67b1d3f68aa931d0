# SPDX-License-Identifier: Apache-2.0
"""How long one request, or one periodic task, holds the loop of a broker with large tables: `make loop-share`.

    python bench/loop_share.py [--topics 10000] [--groups 10000] [--offsets 200000] [--members 1000]

Broker and name server share one loop, as in `sprocketmq serve`. Their tables are filled, then a request of each served code is sent, and
each periodic task is run, one at a time. A callback runs in every turn of the loop; the longest time between two of its calls is the time
for which the request or task held the loop. Requests of every code are sent in their ordinary form and, if a request may contain many
names, in their largest form. Exit code 1 if something held the loop for longer than ``--allowed-ms``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from interop.hostile_requests import templates  # noqa: E402
from interop.large_tables import Sizes, fill, large_requests, periodic_tasks  # noqa: E402
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig  # noqa: E402
from sprocketmq.errors import RocketMQError  # noqa: E402
from sprocketmq.net.connection import Connection  # noqa: E402
from sprocketmq.net.pool import ConnectionPool  # noqa: E402
from sprocketmq.net.process.clock import ManualClock  # noqa: E402
from sprocketmq.net.process.engine import Engine  # noqa: E402
from sprocketmq.wire.codes import RequestCode  # noqa: E402
from sprocketmq.wire.frames.command import request  # noqa: E402

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
    for to, key, requests in frames:
        what = f"{key} {_name(requests[0][0])}"
        if only in what:
            found.append(measured.hold(what, partial(measured.ask, to, requests)))
    return found


def _name(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description="How long one request or task holds the loop.")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--offsets", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--allowed-ms", type=float, default=ALLOWED_MS)
    parser.add_argument("--only", default="", help="only what has this text in its name")
    options = parser.parse_args()
    sizes = Sizes(options.topics, options.groups, options.offsets, options.members)
    with tempfile.TemporaryDirectory(prefix="loop-share-") as folder:
        measured = Measured(Path(folder), sizes)
        try:
            holds = measure(measured, sizes, options.only)
        finally:
            measured.close()
    table = Table(
        title=f"{sizes.topics:,} topics, {sizes.groups:,} groups, {sizes.offsets:,} offsets, {sizes.members:,} members"
    )
    for column in ("what", "held the loop, ms", "to the end, ms", "answer"):
        table.add_column(column, justify="left" if column == "what" else "right")
    holds.sort(key=lambda hold: -hold.hold_ms)
    for hold in holds:
        if hold.hold_ms >= options.allowed_ms / 10:
            table.add_row(hold.what, f"{hold.hold_ms:.1f}", f"{hold.whole_ms:.1f}", str(hold.code))
    Console(width=None if sys.stdout.isatty() else 130).print(table)
    late = [hold for hold in holds if hold.hold_ms > options.allowed_ms]
    print(f"{len(holds)} requests and tasks, {len(late)} held the loop for longer than {options.allowed_ms:.0f} ms")
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()

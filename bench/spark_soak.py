# SPDX-License-Identifier: Apache-2.0
"""An hour of streaming at a steady rate with rows that fail at random: `make spark-soak`.

    python bench/spark_soak.py [--minutes 60] [--rate 400] [--trigger "2 seconds"] [--seed N] [--json FILE]

    sender (here) --> broker, a process, keeps six minutes --> Spark driver, a process: judge, sink, retries --> counter (here) --> ledger

Checked at the end: every row arrived once, and was tried as often as planned (tests/system/spark/soak_ledger.py); no lag at the listener
and at the broker; constant memory of each kind of process (defined in soak_samples.py), for runs of ten minutes and more; and planning does
not take longer with the number of batches. Exit code 1 with a list of failures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from interop.child import Child, poll_until, unwind_on_sigterm  # noqa: E402
from report import figures_table, new_console, write_figures  # noqa: E402
from system.spark.soak_samples import Series, anonymous_bytes, memory_by_role  # noqa: E402
from system.spark.soak_traffic import SoakTraffic  # noqa: E402

_MIB: Final = 1 << 20
_SAMPLE_S: Final = 10.0
_SETTLE_S: Final = 600.0
# Short runs and short-lived processes show nothing about memory.
_SAMPLES: Final = 8
_JUDGED_FROM_S: Final = 540.0
# Other work on the machine only adds time, so the lower quartile is compared; a fifth and 20 ms are tolerated.
_PLANNING: Final = ("latestOffset", "walCommit", "queryPlanning", "getBatch", "commitOffsets", "commitBatch")
_SLOWER_SHARE: Final = 0.2
_SLOWER_MS: Final = 20.0
# Spark ends idle workers and starts new ones.
_MORE_PROCESSES: Final = 2.0


class SoakRun:
    """The processes, the traffic and the samples."""

    def __init__(self, folder: Path, options: argparse.Namespace, seed: int) -> None:
        self.folder, self.seconds, self.seed = folder, options.minutes * 60, seed
        self.memory: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.behind: list[tuple[float, float]] = []
        self.processes: list[tuple[float, float]] = []
        self.batches: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        self._began_s = time.monotonic()
        self._sample_at_s = 0.0
        self._broker = self._child("soak_broker.py", str(folder / "store"))
        words = dict(word.split("=") for word in self._broker.read_line(60).split()[1:])
        self.namesrv_addr, self._broker_pid = words["namesrv"], int(words["pid"])
        self.traffic = SoakTraffic(self.namesrv_addr, seed, options.rate)
        self._trigger = options.trigger
        self._driver: Child | None = None

    def _child(self, script: str, *arguments: str) -> Child:
        paths = f"{ROOT / 'tests'}:{ROOT / 'src'}"
        env = {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(ROOT / "tests/system/spark" / script), *arguments]
        return Child(command, self.folder / f"{script}.log", env)

    def __enter__(self) -> SoakRun:
        return self

    def __exit__(self, *args: object) -> None:
        if self._driver is not None:
            self._driver.kill()
        self._broker.stop()

    def run(self, console: Console) -> None:
        with self.traffic as traffic:
            arguments = (self.namesrv_addr, str(self.folder), str(self.seed), self._trigger)
            self._driver = self._child("soaked_stream.py", *arguments)
            while self._hear(240)["event"] != "started":
                pass
            poll_until(lambda: self._hear(240)["event"] == "batch", "the first batch", 240)
            self._began_s = time.monotonic()
            traffic.each_tick = lambda: self._sample(console)

            def settled() -> bool:
                self._sample(console)
                return traffic.settled()

            traffic.send_for(self.seconds)
            poll_until(settled, "every row at its end", _SETTLE_S, 0.5)
            self._driver.close_input()
            while self._hear(240)["event"] != "stopping":
                pass
            self.left = traffic.behind()
            self.retry_messages = traffic.retry_messages()
            self._driver.wait(120)

    # -- what is seen ------------------------------------------------------------------------------------------------------------

    def _hear(self, timeout_s: float) -> dict[str, Any]:
        """Read the driver's next line."""
        assert self._driver is not None
        line = self._driver.read_line(timeout_s)
        if not line.startswith("{"):
            return {"event": "noise"}
        said: dict[str, Any] = json.loads(line)
        if said["event"] == "batch":
            self.batches.append({"at_s": time.monotonic() - self._began_s, **said})
        elif said["event"] == "heap":
            self.memory["heap after a full collection"].append((time.monotonic() - self._began_s, said["bytes"]))
        elif said["event"] == "failed":
            raise RuntimeError(f"the stream failed: {said['why']}")
        self.last.update(said)
        return said

    def _sample(self, console: Console) -> None:
        """Sample memory, lag and counts each 10 s."""
        assert self._driver is not None
        with contextlib.suppress(TimeoutError):
            while True:
                self._hear(0)
        at_s = time.monotonic() - self._began_s
        if at_s < self._sample_at_s:
            return
        self._sample_at_s = at_s + _SAMPLE_S
        roles = memory_by_role(self._driver.pid)
        for role, sizes in {**roles, "broker": [anonymous_bytes(self._broker_pid)]}.items():
            self.memory[role].append((at_s, max(sizes)))
        self.processes.append((at_s, sum(map(len, roles.values()))))
        self.behind.append((at_s, self.traffic.behind()))
        ledger = self.traffic.ledger
        store = sum(file.stat().st_size for file in (self.folder / "store/commitlog").glob("*"))
        shown = ", ".join(
            f"{role} {sum(of) / _MIB:.0f}" + f" in {len(of)}" * (len(of) > 1) for role, of in roles.items()
        )
        console.print(
            f"{at_s:6.0f} s  sent {ledger.sent:,}  acked {ledger.acked:,}  dead {ledger.dead:,}  under way {ledger.under_way:,}  "
            f"behind {self.behind[-1][1]:,} (listener {self.last.get('behind', 0):,})  batch {self.last.get('batch', 0)}  "
            f"log {store / _MIB:.0f} MiB  heap {self._heap() / _MIB:.0f}  broker {self.memory['broker'][-1][1] / _MIB:.0f}  {shown}",
            soft_wrap=True,
        )

    def _heap(self) -> float:
        points = self.memory["heap after a full collection"]
        return points[-1][1] if points else 0.0

    # -- the verdict -------------------------------------------------------------------------------------------------------------

    def planning(self) -> tuple[float, float]:
        """The lower quartile of a batch's planning in ms, in the second quarter of the batches and in the last one."""
        took = [sum(batch["took_ms"].get(name, 0) for name in _PLANNING) for batch in self.batches if batch["rows"]]
        quarter = len(took) // 4
        return _lower_quartile(took[quarter : 2 * quarter]), _lower_quartile(took[-quarter:])

    def broken(self) -> list[str]:
        last = self.last
        found = self.traffic.ledger.verdict(self.retry_messages, last["retried"], last["dead"])
        if self.left or last["behind"]:
            found.append(f"at the end the broker sees {self.left} messages behind, the listener {last['behind']}")
        if self.seconds < _JUDGED_FROM_S:
            return found
        for role, points in self.memory.items():
            series = Series(points)
            if len(points) >= _SAMPLES and not series.is_flat():
                grown, allowed = series.growth() / _MIB, series.allowed_bytes() / _MIB
                found.append(
                    f"the memory of {role} grew by {grown:.1f} MiB after the first quarter, {allowed:.1f} are borne"
                )
        if Series(self.processes).growth() > _MORE_PROCESSES:
            found.append(
                f"the driver has {Series(self.processes).growth():.1f} processes more than after the first quarter"
            )
        early_ms, late_ms = self.planning()
        if late_ms > early_ms * (1 + _SLOWER_SHARE) + _SLOWER_MS:
            found.append(f"planning took {early_ms:.0f} ms in the second quarter and {late_ms:.0f} ms in the last one")
        return found

    def table(self) -> Table:
        ledger, took_s = self.traffic.ledger, time.monotonic() - self._began_s
        title = f"{ledger.sent:,} rows at {self.traffic.rate} a second, {took_s / 60:.1f} minutes"
        table = figures_table(title, ("what",), "number")
        lags = [value for _, value in self.behind]
        early_ms, late_ms = self.planning()
        rows = [
            ("rows acknowledged, once each in the sink", f"{ledger.acked:,}"),
            ("rows dead-lettered, once each", f"{ledger.dead:,}"),
            ("retries", f"{ledger.retries:,}"),
            ("batches with rows", f"{sum(1 for batch in self.batches if batch['rows']):,}"),
            (
                "messages behind: median, most, at the end",
                f"{Series(self.behind).median:,.0f}, {max(lags):,}, {self.left}",
            ),
            ("processes of the driver: median", f"{Series(self.processes).median:.0f}"),
            ("the latest send, behind the clock", f"{self.traffic.latest_send_s:.1f} s"),
            ("planning of a batch: second quarter, last quarter", f"{early_ms:.0f}, {late_ms:.0f} ms"),
        ]
        for role, points in self.memory.items():
            if len(points) < _SAMPLES:  # a short-lived process
                continue
            rest = Series(points).rest()
            growth = Series(points).growth() / _MIB
            rows.append(
                (
                    f"memory of the largest {role}: median, growth after the first quarter",
                    f"{rest.median / _MIB:.1f}, {growth:+.1f} MiB",
                )
            )
        for row in rows:
            table.add_row(*row)
        return table


def _lower_quartile(values: list[float]) -> float:
    return sorted(values)[len(values) // 4] if values else 0.0


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A long stream whose rows fail at random, checked to the row.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=400, help="rows a second; default 400")
    parser.add_argument("--trigger", default="2 seconds")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the rows' fates; default: a new one, which is printed"
    )
    parser.add_argument("--json", type=Path, default=None, help="where all samples go")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    unwind_on_sigterm()
    console = new_console(120)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="spark-soak-"))
    console.print(f"seed {seed}, everything in {folder}")
    with SoakRun(folder, options, seed) as soak:
        try:
            soak.run(console)
        finally:
            figures = {"memory": soak.memory, "behind": soak.behind, "batches": soak.batches}
            write_figures(options.json, figures)
        console.print(soak.table())
        broken = soak.broken()
    if broken:
        raise SystemExit(f"it is not as it has to be (seed {seed}, everything is in {folder}):\n" + "\n".join(broken))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

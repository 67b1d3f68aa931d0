"""Our broker and Apache RocketMQ's under the same load, side by side: `python bench/broker_bench.py [--quick] [--json FILE]`.

Both run on this machine, with their defaults (ASYNC_FLUSH) on the same file system. load.c (compiled by `make -C bench`) plays the
clients; it writes ready-made frames, so its own cost is small and the same for both. Each load is run in rounds in which the two take
turns, and the median round counts: only a ratio taken in one go means anything on a shared machine.

CPU is the broker process's, user and system, from the first request until the process is idle again: a broker that builds its queues
and its index behind the send path pays for them here too. Ours holds the name server in the same process. A ratio above 1 is ours
being better. The JVM gets 200,000 messages before anything counts, because its compiler needs them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from interop.peers import APACHE_5, VERSIONS, ApacheCluster, JavaPeers, SprocketServer, unwind_on_sigterm  # noqa: E402

LOAD: Final = ROOT / "bench/build/load"
QUEUES: Final = 8
SETTLE_TIMEOUT_S: Final = 15.0
ONE_RUN_LIMIT_S: Final = 60.0

Server = ApacheCluster | SprocketServer


class Load(NamedTuple):
    """One line of the table: what load.c is told, and how many messages a round has."""

    name: str
    topic: str
    args: tuple[str, ...]
    messages: int


LOADS: Final = (
    Load("send 1 KB, 64 in flight", "bench-1k", ("--mode", "send", "--inflight", "64"), 100_000),
    Load("send 1 KB, one at a time", "bench-1k", ("--mode", "send", "--inflight", "1"), 15_000),
    Load(
        "batch 100 x 100 B, 16 in flight",
        "bench-100",
        ("--mode", "batch", "--body", "100", "--inflight", "16"),
        1_500_000,
    ),
    Load("pull 32 x 1 KB, 8 queues", "bench-1k", ("--mode", "pull"), 600_000),
    Load("pull 32 x 100 B, 8 queues", "bench-100", ("--mode", "pull"), 1_500_000),
)
# In this order: the pulls read what the sends before them left.
WARM_UP: Final = (
    Load("warm up: send", "bench-1k", ("--mode", "send", "--inflight", "64"), 200_000),
    Load("warm up: batch", "bench-100", ("--mode", "batch", "--body", "100", "--inflight", "16"), 1_000_000),
    Load("warm up: pull", "bench-1k", ("--mode", "pull"), 300_000),
    Load("warm up: pull", "bench-100", ("--mode", "pull"), 500_000),
)


class Run(NamedTuple):
    """What one run of one load showed."""

    messages_per_s: float
    p50_us: float
    p99_us: float
    cpu_us: float  # of the broker, per message
    busy: float  # answers that asked to come again later


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    # The command name may hold spaces and brackets; the numbers begin after the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settled_cpu_seconds(pid: int) -> float:
    """The same, once the process has become idle (below a twentieth of a core) or SETTLE_TIMEOUT_S have passed."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    before = cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(0.4)
        after = cpu_seconds(pid)
        if after - before <= 0.02:
            return after
        before = after
    return before


def run_load(server: Server, load: Load, scale: float) -> Run:
    """Run one load against one server.

    Raises:
        SystemExit: load.c failed; it says why in one sentence.
    """
    host, port = server.broker_addr.rsplit(":", 1)
    command = [str(LOAD), "--host", host, "--port", port, "--topic", load.topic, "--queues", str(QUEUES), *load.args]
    command += ["--messages", str(max(1000, int(load.messages * scale))), "--seconds", str(ONE_RUN_LIMIT_S)]
    before = settled_cpu_seconds(server.broker_pid)
    done = subprocess.run(command, capture_output=True, text=True, timeout=ONE_RUN_LIMIT_S + 60, check=False)
    if done.returncode:
        raise SystemExit(
            f"{name_of(server)}, {load.name}: {done.stderr.strip() or f'load ended with {done.returncode}'}"
        )
    after = settled_cpu_seconds(server.broker_pid)
    seen = json.loads(done.stdout)
    messages = seen["messages"]
    return Run(
        messages / seen["seconds"],
        seen["p50_us"],
        seen["p99_us"],
        (after - before) * 1e6 / messages,
        seen["busy_answers"],
    )


def name_of(server: Server) -> str:
    return f"Apache {server.version}" if isinstance(server, ApacheCluster) else "SprocketMQ"


def median_run(runs: Sequence[Run]) -> Run:
    """Each figure's median by itself."""
    return Run(*(statistics.median(column) for column in zip(*runs, strict=True)))


def measure(servers: Sequence[Server], rounds: int, scale: float, progress: Progress) -> dict[str, dict[str, Run]]:
    """Warm everything up, then every load in rounds in which the servers take turns. Result: load name -> server name -> median run."""
    steps = len(servers) * (len(WARM_UP) + rounds * len(LOADS))
    task = progress.add_task("", total=steps)

    def step(server: Server, load: Load, of_scale: float) -> Run:
        progress.update(task, description=f"{name_of(server)}: {load.name}")
        run = run_load(server, load, of_scale)
        progress.advance(task)
        return run

    for load in WARM_UP:
        for server in servers:
            step(server, load, 1.0 if load is WARM_UP[0] else scale)
    results: dict[str, dict[str, Run]] = {}
    for load in LOADS:
        runs: dict[str, list[Run]] = {name_of(server): [] for server in servers}
        for number in range(rounds):
            # Who goes first changes, so that neither always finds the machine as the other left it.
            for server in servers if number % 2 == 0 else tuple(reversed(servers)):
                runs[name_of(server)].append(step(server, load, scale))
        results[load.name] = {name: median_run(of_server) for name, of_server in runs.items()}
    return results


def print_table(results: dict[str, dict[str, Run]], console: Console) -> None:
    """One line per load and server; behind ours the ratios to each Apache."""
    table = Table("load", "broker", title="median round; ratios are ours against Apache, above 1 is ours being better")
    for heading in ("messages/s", "p50 us", "p99 us", "CPU us/message", "busy", "throughput", "p50", "p99", "CPU"):
        table.add_column(heading, justify="right")
    for load, by_server in results.items():
        ours = by_server.get("SprocketMQ")
        first = True
        for name, run in by_server.items():
            figures = [
                f"{run.messages_per_s:,.0f}",
                f"{run.p50_us:,.0f}",
                f"{run.p99_us:,.0f}",
                f"{run.cpu_us:.2f}",
                f"{run.busy:.0f}",
            ]
            ratios = [""] * 4 if ours is None or run is ours else [f"{ratio:.2f}x" for ratio in compare(ours, run)]
            table.add_row(load if first else "", name, *figures, *ratios)
            first = False
        table.add_section()
    console.print(table)


def compare(ours: Run, theirs: Run) -> tuple[float, float, float, float]:
    """Throughput, p50, p99, CPU, each so that more is better for us."""
    return (
        ours.messages_per_s / theirs.messages_per_s,
        theirs.p50_us / max(1.0, ours.p50_us),
        theirs.p99_us / max(1.0, ours.p99_us),
        theirs.cpu_us / max(0.01, ours.cpu_us),
    )


def chosen_servers(names: Sequence[str], console: Console) -> list[Server]:
    """The servers that can be had here, not yet started; says on the console what is missing and why."""
    servers: list[Server] = []
    versions = [version for version in VERSIONS if version in names]
    if versions and (reason := JavaPeers.available()):
        console.print(f"without Apache: {reason}")
    else:
        servers += [ApacheCluster(version) for version in versions]
    if "ours" in names:
        if SprocketServer.command() is None:
            console.print("without ours: the sprocketmq command is not installed beside this Python")
        else:
            servers.append(SprocketServer())
    return servers


def main() -> None:
    parser = argparse.ArgumentParser(description="Our broker and Apache's under the same load, side by side.")
    parser.add_argument(
        "--quick", action="store_true", help="one round of a fifth of the messages: a look, not a result"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per load, default 3")
    parser.add_argument("--json", type=Path, help="write the medians to this file as well")
    choices = (*VERSIONS, "ours")
    parser.add_argument(
        "--only", nargs="+", choices=choices, default=(APACHE_5, "ours"), help="default: 5.4.0 and ours"
    )
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    if subprocess.run(["make", "-s", "-C", str(ROOT / "bench")], check=False).returncode:
        raise SystemExit("bench: the load generator could not be built, see above")
    servers = chosen_servers(options.only, console)
    if not servers:
        raise SystemExit("nothing to measure")
    unwind_on_sigterm()
    try:
        for server in servers:
            server.start()
            server.create_topic("bench-1k", QUEUES)
            server.create_topic("bench-100", QUEUES)
        with Progress(console=console, transient=True) as progress:
            rounds, scale = (1, 0.2) if options.quick else (options.rounds, 1.0)
            results = measure(servers, rounds, scale, progress)
    finally:
        for server in servers:
            server.stop()
    print_table(results, console)
    if options.json is not None:
        options.json.write_text(json.dumps(results_as_json(results), indent=1) + "\n", "utf-8")


def results_as_json(results: dict[str, dict[str, Run]]) -> dict[str, dict[str, dict[str, float]]]:
    return {load: {name: run._asdict() for name, run in by_server.items()} for load, by_server in results.items()}


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Our broker and Apache RocketMQ's under the same load, side by side: `python bench/broker_bench.py [--quick] [--json FILE]`.

`--beside DIR` adds the broker of another checkout, for before and after a change. `--at-random` draws the messages of each load: sizes,
tags, keys, user properties, and how many there are in a request. The seed is printed.

All run on this machine, with their defaults (ASYNC_FLUSH) on the same file system. load.c (compiled by `make -C bench`) acts as the
clients; it writes prepared frames, so its own cost is small and the same for both. Each load runs in rounds in which the servers take
turns, and the best of each figure counts, because other work on the machine can only make a round worse. Only ratios of one run are
meaningful; on a shared machine look at CPU first.

CPU is the broker process's, user and system, from the first request until the process is idle again: a broker that builds its queues and
its index behind the send path pays for them here too. Ours has the name server in the same process. With a ratio above 1, ours is better;
the goal and whether it is reached are printed after it. The JVM gets 200,000 messages before the measurement, because its compiler needs
them.

After the loads come the rows of `scale.py`: start, memory, restart after a kill, and whether the cost of a message stays the same with
many topics, messages, connections and waiting pulls.
"""

from __future__ import annotations

import argparse
import os
import platform
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.progress import Progress

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

import scale as scale_rows  # noqa: E402
from interop.peers import ALL_VERSIONS, APACHE_5, ApacheCluster, JavaPeers, SprocketServer, unwind_on_sigterm  # noqa: E402
from load_program import build_programs, random_form, run_load_program  # noqa: E402
from report import at_least, figures_table, new_console, write_figures  # noqa: E402

QUEUES: Final = 8
SETTLE_TIMEOUT_S: Final = 15.0
ONE_RUN_LIMIT_S: Final = 60.0

Server = ApacheCluster | SprocketServer


class Goal(NamedTuple):
    """The goal of each ratio; 0 = none."""

    messages_per_s: float = 0
    p50: float = 0
    p99: float = 0
    cpu: float = 0


class Load(NamedTuple):
    """One line of the table: the options of load.c, the number of messages of a round, and the goals against 5.x."""

    name: str
    topic: str
    args: tuple[str, ...]
    messages: int
    goal: Goal = Goal()


_SEND_64: Final = ("--mode", "send", "--inflight", "64")
_BATCH: Final = ("--mode", "batch", "--inflight", "16")
_OF_100_B: Final = (*_BATCH, "--body", "100", "--batch", "100")
_OF_1_KB: Final = (*_BATCH, "--body", "1024", "--batch", "32")
_BATCH_GOAL: Final = Goal(1.0, 0, 0, 1 / 0.9)
LOADS: Final = (
    Load("send 1 KB, 64 in flight", "bench-1k", _SEND_64, 100_000, Goal(1.5, 0, 2.0, 2.0)),
    Load(
        "send 1 KB, 4 connections, 64 in flight each",
        "bench-1k",
        (*_SEND_64, "--connections", "4"),
        100_000,
        Goal(1.5, 0, 2.0, 2.0),
    ),
    Load("send 1 KB, one at a time", "bench-1k", ("--mode", "send", "--inflight", "1"), 15_000, Goal(p50=1 / 0.7)),
    *(
        Load(f"batch {size}, {form_text}", topic, (*args, *form), messages, _BATCH_GOAL)
        for size, topic, args, messages in (
            ("100 x 100 B", "bench-100", _OF_100_B, 1_000_000),
            ("32 x 1 KB", "bench-1k", _OF_1_KB, 250_000),
        )
        for form_text, form in (
            ("no properties", ("--form", "none")),
            ("properties in the header", ("--form", "header")),
            ("Java's properties", ()),  # load.c's default
        )
    ),
    Load("pull 32 x 1 KB, 8 queues", "bench-1k", ("--mode", "pull"), 600_000, Goal(1.5, 0, 0, 2.0)),
    Load("pull 32 x 100 B, 8 queues", "bench-100", ("--mode", "pull"), 1_500_000, Goal(1.5, 0, 0, 2.0)),
)
# Against separate brokers, where each answer waits for the disk.
SYNC_LOADS: Final = (Load("send 1 KB, SYNC_FLUSH, 64 in flight", "bench-1k", _SEND_64, 20_000, Goal(1.0)),)
# On a disk that is nearly full a broker deletes its oldest files, and pulls would find nothing.
KEPT: Final[dict[str, Any]] = {"cleanFileForciblyEnable": False}
# In this order: the pulls read what the sends before them left.
WARM_UP: Final = (
    Load("warm up: send", "bench-1k", ("--mode", "send", "--inflight", "64"), 200_000),
    Load("warm up: batch", "bench-100", _OF_100_B, 1_000_000),
    Load("warm up: pull", "bench-1k", ("--mode", "pull"), 300_000),
    Load("warm up: pull", "bench-100", ("--mode", "pull"), 500_000),
)


def at_random(load: Load, seed: int) -> Load:
    """The same load with messages that are drawn."""
    name = load.name.removesuffix(", Java's properties")
    return load._replace(name=f"{name}, all at random", args=(*load.args, *random_form(seed)))


def chosen_loads(loads: Sequence[Load], seed: int, only: str, *, all_at_random: bool) -> list[Load]:
    """The loads with ``only`` in their name. Batches are also measured at random if not everything is."""
    chosen: list[Load] = []
    for load in loads:
        if not all_at_random:
            chosen.append(load)
        # Of batches that differ in where their properties stand, one of each size: for what is drawn it does not matter.
        if "--form" not in load.args and (all_at_random or "batch" in load.args):
            chosen.append(at_random(load, seed))
    return [load for load in chosen if only in load.name]


class Run(NamedTuple):
    """The result of one run of one load."""

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


class Idle:
    """The CPU that each broker uses while idle, as a share of a core. It is not counted as a cost of a load."""

    def __init__(self) -> None:
        self._shares: dict[int, float] = {}

    def learn(self, pid: int) -> None:
        """Measure the idle share: the smallest of some measurements, after the process had time to finish its work."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        least, looks_without_less = 1.0, 0
        while time.monotonic() < deadline and looks_without_less < 3:
            before = cpu_seconds(pid)
            time.sleep(1.0)
            share = cpu_seconds(pid) - before
            least, looks_without_less = (share, 0) if share < least - 0.02 else (least, looks_without_less + 1)
        self._shares[pid] = least

    def settled_cpu_seconds(self, pid: int) -> float:
        """CPU seconds, when the process is idle or SETTLE_TIMEOUT_S have passed, without its idle share meanwhile."""
        started = time.monotonic()
        share = self._shares.get(pid, 0.0)
        before = cpu_seconds(pid)
        idled = 0.0
        while time.monotonic() < started + SETTLE_TIMEOUT_S:
            look_at = time.monotonic()
            time.sleep(0.4)
            after = cpu_seconds(pid)
            elapsed = time.monotonic() - look_at
            idled += min(share * elapsed, after - before)
            if after - before <= (share + 0.06) * elapsed:
                return after - idled
            before = after
        return before - idled


def run_load(server: Server, load: Load, scale: float, idle: Idle) -> Run:
    """Run one load against one server."""
    idle.settled_cpu_seconds(server.broker_pid)
    before = cpu_seconds(server.broker_pid)
    messages = max(1000, int(load.messages * scale))
    seen = run_load_program(server.broker_addr, load.topic, QUEUES, messages, ONE_RUN_LIMIT_S, *load.args)
    after = idle.settled_cpu_seconds(server.broker_pid)
    messages = seen["messages"]
    return Run(
        messages / seen["seconds"],
        seen["p50_us"],
        seen["p99_us"],
        (after - before) * 1e6 / messages,
        seen["busy_answers"],
    )


def name_of(server: Server) -> str:
    if isinstance(server, ApacheCluster):
        return f"Apache {server.version}"
    return "SprocketMQ" if server.checkout is None else f"SprocketMQ of {server.checkout.name}"


def best_run(runs: Sequence[Run]) -> Run:
    """The best of each figure separately."""
    best = [max(run[0] for run in runs), *(min(run[figure] for run in runs) for figure in range(1, 5))]
    return Run(*best)


def measure(
    servers: Sequence[Server],
    loads: Sequence[Load],
    warm_up: Sequence[Load],
    rounds: int,
    scale: float,
    progress: Progress,
) -> dict[str, dict[str, Run]]:
    """Warm everything up, then every load in rounds in which the servers take turns. Result: load name -> server name -> best run."""
    steps = len(servers) * (len(warm_up) + rounds * len(loads))
    task = progress.add_task("", total=steps)
    idle = Idle()

    def step(server: Server, load: Load, of_scale: float) -> Run:
        progress.update(task, description=f"{name_of(server)}: {load.name}")
        run = run_load(server, load, of_scale, idle)
        progress.advance(task)
        return run

    for load in warm_up:
        for server in servers:
            step(server, load, 1.0 if load is warm_up[0] else scale)
    for server in servers:
        progress.update(task, description=f"{name_of(server)}: idle")
        idle.learn(server.broker_pid)
    results: dict[str, dict[str, Run]] = {}
    for load in loads:
        runs: dict[str, list[Run]] = {name_of(server): [] for server in servers}
        for number in range(rounds):
            # The order changes from round to round, so that no server always follows the same other one.
            for server in servers if number % 2 == 0 else tuple(reversed(servers)):
                runs[name_of(server)].append(step(server, load, scale))
        results[load.name] = {name: best_run(of_server) for name, of_server in runs.items()}
        progress.console.print(f"measured: {load.name}")
    return results


def print_table(results: dict[str, dict[str, Run]], goals: dict[str, Goal], console: Console) -> None:
    """One line per load and server; lines of other servers have the ratios of ours to them, those of Apache also the goals."""
    title = "best of the rounds; ratios are ours against the other, above 1 is ours being better"
    figures = ("messages/s", "p50 us", "p99 us", "CPU us/message", "busy", "throughput", "p50", "p99", "CPU")
    table = figures_table(title, ("load", "broker"), *figures)
    for load, by_server in results.items():
        ours = by_server.get("SprocketMQ")
        first = True
        for name, run in by_server.items():
            shown = [
                f"{run.messages_per_s:,.0f}",
                f"{run.p50_us:,.0f}",
                f"{run.p99_us:,.0f}",
                f"{run.cpu_us:.2f}",
                f"{run.busy:.0f}",
            ]
            ratios = [""] * 4
            if ours is not None and run is not ours:
                goal = goals[load] if name.endswith(APACHE_5) else Goal()
                ratios = [at_least(ratio, least) for ratio, least in zip(compare(ours, run), goal, strict=True)]
            table.add_row(load if first else "", name, *shown, *ratios)
            first = False
        table.add_section()
    console.print(table)


def compare(ours: Run, theirs: Run) -> tuple[float, float, float, float]:
    """Ratios of throughput, p50, p99 and CPU; larger is better for us."""
    return (
        ours.messages_per_s / theirs.messages_per_s,
        theirs.p50_us / max(1.0, ours.p50_us),
        theirs.p99_us / max(1.0, ours.p99_us),
        theirs.cpu_us / max(0.01, ours.cpu_us),
    )


def chosen_servers(names: Sequence[str], beside: Path | None, console: Console, **settings: Any) -> list[Server]:
    """The servers that are available here, not yet started; prints which are missing and why."""
    servers: list[Server] = []
    versions = [name for name in names if name in ALL_VERSIONS]
    if versions and (reason := JavaPeers.available()):
        console.print(f"without Apache: {reason}")
    else:
        servers += [ApacheCluster(version, **settings) for version in versions]
    if "ours" in names:
        if SprocketServer.command() is None:
            console.print("without ours: the sprocketmq command is not installed beside this Python")
        else:
            servers.append(SprocketServer(**settings))
    if beside is not None:
        if SprocketServer.command(beside) is None:
            raise SystemExit(
                f"--beside {beside}: no .venv/bin/sprocketmq there; run `make setup` in that checkout first"
            )
        servers.append(SprocketServer(checkout=beside.absolute(), **settings))
    return servers


def run_side_by_side(
    servers: Sequence[Server],
    loads: Sequence[Load],
    warm_up: Sequence[Load],
    rounds: int,
    scale: float,
    console: Console,
) -> dict[str, dict[str, Run]]:
    """Start the servers, measure, stop them; a table line per load."""
    try:
        for server in servers:
            server.start()
            server.create_topic("bench-1k", QUEUES)
            server.create_topic("bench-100", QUEUES)
        with Progress(console=console, transient=True) as progress:
            results = measure(servers, loads, warm_up, rounds, scale, progress)
    finally:
        for server in servers:
            server.stop()
    print_table(results, {load.name: load.goal for load in loads}, console)
    return results


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our broker and Apache's under the same load, side by side.")
    parser.add_argument(
        "--quick", action="store_true", help="one round of a fifth of the messages: a look, not a result"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per load, default 3")
    parser.add_argument("--json", type=Path, help="write the best rounds to this file as well")
    parser.add_argument(
        "--peers", default=APACHE_5, help=f"versions of Apache, by commas, out of {','.join(ALL_VERSIONS)}; - for none"
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="DIR",
        help="another checkout of ours, set up, as one more server: before and after a change",
    )
    parser.add_argument("--loads", default="", help="only loads with this text in their name")
    parser.add_argument("--at-random", action="store_true", help="draw the messages of each load")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31), help="of what is drawn")
    parser.add_argument("--no-scale", action="store_true", help="without start, memory, restart and the rows of scale")
    parser.add_argument(
        "--stored", type=int, default=1_000_000, help="messages of the large store in the rows of scale"
    )
    parser.add_argument(
        "--restart-messages", type=int, default=100_000, help="1 KB messages in the store that is killed"
    )
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    console = new_console(180)
    # Ours depends on its interpreter: one built without profile-guided optimisation takes half as long again.
    console.print(f"ours runs on {sys.executable}: Python {platform.python_version()}, {platform.python_compiler()}")
    build_programs()
    names = [*options.peers.split(","), "ours"]
    rounds, scale = (1, 0.2) if options.quick else (options.rounds, 1.0)
    console.print(f"what is drawn at random has seed {options.seed}", highlight=False)
    unwind_on_sigterm()
    results: dict[str, dict[str, Run]] = {}
    warm = tuple(at_random(load, options.seed) for load in WARM_UP) if options.at_random else WARM_UP
    for loads, warm_up, settings in ((LOADS, warm, {}), (SYNC_LOADS, warm[:1], {"flushDiskType": "SYNC_FLUSH"})):
        wanted = chosen_loads(loads, options.seed, options.loads, all_at_random=options.at_random)
        if not wanted:
            continue
        servers = chosen_servers(names, options.beside, console, **KEPT, **settings)
        if not servers:
            raise SystemExit("nothing to measure")
        # 200,000 messages would take too long at a broker that syncs for each answer.
        of_warm_up = warm_up if not settings else [warm_up[0]._replace(messages=20_000)]
        results.update(run_side_by_side(servers, wanted, of_warm_up, rounds, scale, console))
    if not options.no_scale:
        peers = [name for name in names if name in ALL_VERSIONS and not JavaPeers.available()]
        form = random_form(options.seed) if options.at_random else ()
        stored, restarted = options.stored, options.restart_messages
        scale_rows.run(console, peers[:1], stored, restarted, quick=options.quick, form=form)
    figures = {load: {name: run._asdict() for name, run in by_server.items()} for load, by_server in results.items()}
    write_figures(options.json, figures)


if __name__ == "__main__":
    main()

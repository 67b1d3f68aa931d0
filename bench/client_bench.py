# SPDX-License-Identifier: Apache-2.0
"""Our client and the others, side by side: `python bench/client_bench.py [--quick] [--brokers ours,5.4.0] [--json FILE]`.

`--beside DIR` adds our client of another checkout, for before and after a change. `--at-random` draws the messages of each load (sizes,
tags, keys, properties); the seed is printed.

Every client runs the same load against the same broker in the same run, in a separate process (clients/*.py, ClientLoad.java), in rounds in
which they take turns; the best of each figure counts, because other work on the machine can only make a round worse. CPU is the client
process's, user and system time of all its threads, per message. With a ratio above 1, ours is better; the goal and whether it is reached
are printed after it. The warm-up, which the JVM's compiler needs, is not counted. The gRPC client needs a proxy: Apache's broker is started
inside its proxy, if that is available. After the loads come rows of our client alone: batching, order, the cost of many queues and of many
held messages, import, memory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench"), str(ROOT / "bench/clients")]

from message_forms import write_forms  # noqa: E402

from client_peers import CLIENTS, GRPC, JAVA, OURS, Client, client, client_beside  # noqa: E402
from interop.child import Child  # noqa: E402
from interop.peers import (  # noqa: E402
    ApacheCluster,
    JavaPeers,
    LocalProxy,
    PeersUnavailable,
    SprocketServer,
    unwind_on_sigterm,
)
from load_program import build_programs, random_form, run_load_program  # noqa: E402
from report import at_least, at_most, figures_table, new_console, write_figures  # noqa: E402

ONE_RUN_LIMIT_S: Final = 90
BLOCKING_GOAL, THREADS_GOAL, SIGNED_GOAL, START_GOAL_S, MANY_TOPICS = 0.8, 3.0, 1.3, 2.0, 999
BATCHED_GOAL_US, ORDERLY_GOAL, SCALE_GOAL, IMPORT_GOAL, MEMORY_GOAL = 3.3, 0.8, 1.2, 2.0, 0.4

Server = ApacheCluster | SprocketServer


class Goal(NamedTuple):
    """The goal of each ratio; 0 = none."""

    messages_per_s: float = 0
    p50: float = 0
    cpu: float = 0


class Load(NamedTuple):
    """One line of the table. ``messages`` and ``warm_up`` are for a fast client, ``slow_share`` of them for a Python peer."""

    name: str
    ours: str
    theirs: str
    topic: str
    messages: int
    warm_up: int
    against_python: Goal
    against_java: Goal
    slow_share: float = 1.0


LOADS: Final = (
    Load("blocking send, one at a time", "send-one", "send-one", "bench-1k", 10_000, 3_000, Goal(p50=1, cpu=1), Goal()),
    Load(
        "async send, 64 in flight",
        "send-64",
        "send-64",
        "bench-1k",
        100_000,
        40_000,
        Goal(messages_per_s=2.5),
        Goal(messages_per_s=1.5, cpu=1),
        slow_share=0.3,
    ),
    Load(
        "push, async listener",
        "push-async",
        "push",
        "bench-waiting",
        500_000,
        100_000,
        Goal(messages_per_s=2.5),
        Goal(messages_per_s=1, cpu=1),
        slow_share=0.2,
    ),
    Load(
        "push, blocking listener",
        "push-blocking",
        "push",
        "bench-waiting",
        500_000,
        100_000,
        Goal(messages_per_s=2.5),
        Goal(messages_per_s=1, cpu=1),
        slow_share=0.2,
    ),
)
WAITING: Final = max(load.messages + load.warm_up for load in LOADS)


class Drawn:
    """What is drawn at random: files of forms for the clients, and the options of load.c.

    Args:
        all_at_random: whether the messages of each load are drawn, not only those of one row.
    """

    def __init__(self, seed: int, folder: Path, *, all_at_random: bool) -> None:
        self.seed, self._folder, self._all_at_random = seed, folder, all_at_random

    def options(self, body_bytes: int) -> tuple[str, ...]:
        """The options of a load whose messages have so large bodies, on average if they are drawn."""
        return self.random_options(body_bytes) if self._all_at_random else ("--body", str(body_bytes))

    def random_options(self, body_bytes: int) -> tuple[str, ...]:
        path = self._folder / f"forms-{body_bytes}"
        if not path.exists():
            write_forms(path, self.seed, body_bytes)
        return "--forms", str(path)

    @property
    def of_load_c(self) -> tuple[str, ...]:
        return random_form(self.seed) if self._all_at_random else ()


class Run(NamedTuple):
    """The result of one run of one load."""

    messages_per_s: float
    p50_us: float
    p99_us: float
    cpu_us: float


_groups = iter(f"bench-{os.getpid()}-{number}" for number in range(1_000_000))


def run_load(who: Client, server: Server, name: str, topic: str, messages: int, warm_up: int, *more: str) -> Run:
    """Run one load with one client against one broker, with a separate group.

    Raises:
        PeersUnavailable: it ended without a result.
    """
    options = ["--load", name, "--topic", topic, "--group", next(_groups), "--namesrv", server.namesrv_addr]
    options += ["--messages", str(messages), "--warm-up", str(warm_up), "--seconds", str(ONE_RUN_LIMIT_S), *more]
    if who.name == GRPC and isinstance(server, LocalProxy):
        options += ["--endpoints", server.endpoints]
    done = subprocess.run(
        [*who.command, *options],
        capture_output=True,
        text=True,
        timeout=ONE_RUN_LIMIT_S + 60,
        check=False,
        cwd=who.home,
        env={**os.environ, "HOME": str(who.home)},
    )
    for line in done.stdout.splitlines():
        if line.startswith('{"event"') and (seen := json.loads(line))["event"] == "load":
            if seen["messages"] > 0:
                return Run(seen["messages"] / seen["seconds"], seen["p50_us"], seen["p99_us"], seen["cpu_us"])
            break
    said = [line for line in done.stderr.splitlines() if "Error" in line or "Exception" in line or "error:" in line]
    raise PeersUnavailable(f"{who.name} did not do {name!r}: {said[-1] if said else 'it got no message'}")


def best_run(runs: Sequence[Run]) -> Run:
    """The best of each figure separately."""
    return Run(max(run[0] for run in runs), *(min(run[figure] for run in runs) for figure in range(1, 4)))


# -- side by side ----------------------------------------------------------------------------------------------------------------


def measure(
    server: Server,
    clients: Sequence[Client],
    loads: Sequence[Load],
    rounds: int,
    scale: float,
    drawn: Drawn,
    console: Console,
) -> dict[str, dict[str, Run]]:
    """Result: load name -> client name -> best run."""
    results: dict[str, dict[str, Run]] = {}
    for load in loads:
        runs: dict[str, list[Run]] = {}
        left_out: set[str] = set()
        for number in range(rounds):
            for who in clients if number % 2 == 0 else reversed(clients):
                if who.name in left_out:
                    continue
                share = scale * (load.slow_share if who.is_python_peer else 1.0)
                warm_up = int(load.warm_up * min(1.0, share))
                kind = load.ours if who.is_ours else load.theirs
                try:
                    count = int(load.messages * share)
                    run = run_load(who, server, kind, load.topic, count, warm_up, *drawn.options(1024))
                except PeersUnavailable as reason:
                    console.print(f"left out: {reason}")
                    left_out.add(who.name)
                else:
                    runs.setdefault(who.name, []).append(run)
        results[load.name] = {name: best_run(of_client) for name, of_client in runs.items()}
        console.print(f"measured: {load.name}")
    return results


def print_table(results: dict[str, dict[str, Run]], broker: str, console: Console) -> None:
    """One line per load and client; lines of peers have the ratios of ours to them, with the goals."""
    title = f"against {broker}: best of the rounds; ratios above 1 are ours being better"
    figures = ("messages/s", "p50 us", "p99 us", "CPU us/message", "throughput", "p50", "CPU")
    table = figures_table(title, ("load", "client"), *figures)
    goals = {load.name: load for load in LOADS}
    for name, by_client in results.items():
        ours = by_client.get(OURS)
        for number, (who, run) in enumerate(by_client.items()):
            timed = [f"{run.p50_us:,.0f}", f"{run.p99_us:,.0f}"] if run.p50_us else ["", ""]
            ratios = ["", "", ""]
            if ours is not None and who != OURS:
                load = goals[name]
                goal = load.against_java if who == JAVA else Goal() if who.startswith(OURS) else load.against_python
                ratios = [
                    at_least(ours.messages_per_s / run.messages_per_s, goal.messages_per_s),
                    at_least(run.p50_us / ours.p50_us, goal.p50) if run.p50_us and ours.p50_us else "",
                    at_least(run.cpu_us / ours.cpu_us, goal.cpu),
                ]
            first = "" if number else name
            table.add_row(first, who, f"{run.messages_per_s:,.0f}", *timed, f"{run.cpu_us:.1f}", *ratios)
        table.add_section()
    console.print(table)


# -- ours alone ------------------------------------------------------------------------------------------------------------------


def own_rows(
    ours: Client, java: Client | None, rounds: int, scale: float, drawn: Drawn, console: Console
) -> dict[str, float]:
    """Batching, order, growth, import, memory, each printed with its goal. Result: row -> ratio."""
    table = Table(
        "what", "less", "more", "ratio", title="ours against ours; import against asyncio, memory against Java's client"
    )
    ratios: dict[str, float] = {}
    small = drawn.options(100)

    def row(name: str, first: float, second: float, ratio: float, verdict: str) -> None:
        ratios[name] = ratio
        table.add_row(name, f"{first:,.1f}", f"{second:,.1f}", verdict)

    tls: dict[str, Any] = {"tls.server.mode": "permissive", "tls.test.mode.enable": True}  # for who speaks it
    with SprocketServer(**tls) as server:
        messages = int(100_000 * scale)
        for topic, queues in (
            ("bench-100", 8),
            ("queues-1", 1),
            ("queues-1000", 1000),
            ("queues-64", 64),
            ("in-hand", 2),
        ):
            server.create_topic(topic, queues)
            if topic != "bench-100":
                fill(server, topic, queues, messages + messages // 10, drawn)

        def best(load: str, topic: str, *more: str) -> Run:
            return best_run(
                [run_load(ours, server, load, topic, messages, messages // 10, *more) for _ in range(rounds)]
            )

        def in_turns(*loads: tuple[str, int]) -> list[Run]:
            """The best run of each load, with so many messages. They take turns: what else the machine does changes within a minute."""
            runs = [
                [run_load(ours, server, load, "bench-100", count, count // 5, *small) for load, count in loads]
                for _ in range(rounds)
            ]
            return [best_run(of_load) for of_load in zip(*runs, strict=True)]

        batches: list[Run] = []
        with contextlib.suppress(PeersUnavailable):
            batches = in_turns(("send-batched", messages), ("send-batched-blocking", messages))
        if batches:
            batched, blocking = batches
            # 300,000 messages/s on a core that does nothing else.
            ratio = batched.cpu_us / BATCHED_GOAL_US
            row("batched, CPU us: goal, measured", BATCHED_GOAL_US, batched.cpu_us, ratio, at_most(ratio, 1.0))
            mixed = best("send-batched", "bench-100", *drawn.random_options(100))
            ratio = mixed.cpu_us / batched.cpu_us
            row("batched, CPU us: one form, random ones", batched.cpu_us, mixed.cpu_us, ratio, f"{ratio:.2f}")
            ratio = batched.cpu_us / blocking.cpu_us
            verdict = at_least(ratio, BLOCKING_GOAL)
            row("batched, CPU us: blocking face, async", blocking.cpu_us, batched.cpu_us, ratio, verdict)
        plain, signed, over_tls = in_turns(
            ("send-64", messages), ("send-64-signed", messages), ("send-64-tls", messages)
        )
        ratio = signed.cpu_us / plain.cpu_us
        row("64 in flight, CPU us: plain, signed", plain.cpu_us, signed.cpu_us, ratio, at_most(ratio, SIGNED_GOAL))
        ratio = over_tls.cpu_us / plain.cpu_us
        row("64 in flight, CPU us: plain, TLS", plain.cpu_us, over_tls.cpu_us, ratio, at_most(ratio, SIGNED_GOAL))
        alone, eight = in_turns(("send-one", messages // 20), ("send-8-threads", messages // 10))
        ratio = eight.messages_per_s / alone.messages_per_s
        verdict = at_least(ratio, THREADS_GOAL)
        row("blocking sends/s: 1 thread, 8", alone.messages_per_s, eight.messages_per_s, ratio, verdict)
        ratio = alone.cpu_us / eight.cpu_us
        row("blocking send, CPU us: 1 thread, 8", alone.cpu_us, eight.cpu_us, ratio, f"{ratio:.2f}")
        for number in range(MANY_TOPICS):
            server.create_topic(f"many-{number}", 4)
        for kind in ("producer", "consumer"):
            started = best_run(
                [run_load(ours, server, f"start-{kind}", "many-0", MANY_TOPICS, 0) for _ in range(rounds)]
            )
            took_s = MANY_TOPICS / started.messages_per_s
            ratio = took_s / START_GOAL_S
            name = f"start of a {kind} with {MANY_TOPICS} topics, s: goal, measured"
            row(name, START_GOAL_S, took_s, ratio, at_most(ratio, 1.0))
        concurrent, orderly = best("push-classic", "queues-64"), best("orderly", "queues-64")
        ratio = orderly.messages_per_s / concurrent.messages_per_s
        verdict = at_least(ratio, ORDERLY_GOAL)
        row(
            "64 queues, messages/s: concurrent, orderly",
            concurrent.messages_per_s,
            orderly.messages_per_s,
            ratio,
            verdict,
        )
        one, many = best("push-blocking", "queues-1"), best("push-blocking", "queues-1000")
        ratio = many.cpu_us / one.cpu_us
        row("CPU us: 1 queue assigned, 1,000", one.cpu_us, many.cpu_us, ratio, at_most(ratio, SCALE_GOAL))
        few, full = (best("push-blocking", "in-hand", "--in-hand", in_hand) for in_hand in ("10", "50000"))
        ratio = full.cpu_us / few.cpu_us
        row("CPU us: 10 in hand of each queue, 50,000", few.cpu_us, full.cpu_us, ratio, at_most(ratio, SCALE_GOAL))
        if java is not None:
            theirs, own = idle_mb(java, server), idle_mb(ours, server)
            row("idle consumer, MB: Java's, ours", theirs, own, own / theirs, at_most(own / theirs, MEMORY_GOAL))
    bare_ms, of_asyncio_ms, own_ms = import_times_ms(
        "pass", "import asyncio", "from sprocketmq import Producer, PushConsumer"
    )
    ratio = (own_ms - bare_ms) / (of_asyncio_ms - bare_ms)
    row(
        "import, ms: asyncio, Producer and PushConsumer",
        of_asyncio_ms - bare_ms,
        own_ms - bare_ms,
        ratio,
        at_most(ratio, IMPORT_GOAL),
    )
    console.print(table)
    return ratios


def import_times_ms(*statements: str) -> list[float]:
    """CPU of a Python process that runs each statement and ends, the smallest of many; with compiled files, as after an installation."""
    least = [1e9] * len(statements)
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(21):
            for index, statement in enumerate(statements):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                if number:  # the first one compiles
                    least[index] = min(least[index], spent_s * 1000)
    return least


def idle_mb(who: Client, server: Server) -> float:
    """Resident memory of an idle consumer."""
    server.create_topic("bench-idle", 8)
    options = ["--load", "idle", "--topic", "bench-idle", "--group", next(_groups), "--namesrv", server.namesrv_addr]
    child = Child([*who.command, *options], who.home / "idle.err", {"HOME": str(who.home)}, who.home)
    try:
        while '"ready"' not in child.read_line():
            pass
        time.sleep(5)
        pages = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1])
    finally:
        child.close_input()
        child.stop(5)
    return pages * resource.getpagesize() / (1 << 20)


# -- servers and clients -------------------------------------------------------------------------------------------------------------------


def fill(server: Server, topic: str, queues: int, messages: int, drawn: Drawn) -> None:
    """Send messages of 1 KB."""
    batches = ("--mode", "batch", "--batch", "100", "--body", "1024", "--inflight", "8", *drawn.of_load_c)
    run_load_program(server.broker_addr, topic, queues, messages, 300, *batches)


def chosen_server(name: str, console: Console) -> Server | None:
    """Our server, or Apache's, inside its proxy."""
    if name == "ours":
        return SprocketServer()
    if reason := JavaPeers.available():
        console.print(f"without Apache: {reason}")
        return None
    return LocalProxy(name)


@contextlib.contextmanager
def chosen_clients(names: Sequence[str], beside: Path | None, console: Console) -> Iterator[list[Client]]:
    """The clients that are available here."""
    found = [who for name in names if (who := _had(name, partial(client, name), console)) is not None]
    if beside is not None and (other := _had(f"ours of {beside}", lambda: client_beside(beside), console)) is not None:
        found.append(other)
    try:
        yield found
    finally:
        for who in found:
            shutil.rmtree(who.home, ignore_errors=True)


def _had(name: str, made: Callable[[], Client], console: Console) -> Client | None:
    try:
        return made()
    except PeersUnavailable as reason:
        console.print(f"without {name}: {reason}")
        return None


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our client and the others under the same load, side by side.")
    parser.add_argument(
        "--quick", action="store_true", help="one round of a tenth of the messages: a look, not a result"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per load, default 3")
    parser.add_argument("--brokers", default="ours,5.4.0", help="by commas, out of ours, 5.4.0, 5.5.0; - for none")
    parser.add_argument(
        "--clients", default="", help="only clients with one of these texts (by commas) in their name, and ours"
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="DIR",
        help="another checkout of ours, set up, as one more client: before and after a change",
    )
    parser.add_argument("--loads", default="", help="only loads with this text in their name")
    parser.add_argument("--at-random", action="store_true", help="draw the messages of each load")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31), help="of what is drawn")
    parser.add_argument("--no-own", action="store_true", help="without the rows of ours alone")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    console = new_console(180)
    console.print(f"ours runs on {sys.executable}: Python {platform.python_version()}, {platform.python_compiler()}")
    build_programs()
    unwind_on_sigterm()
    rounds, scale = (1, 0.1) if options.quick else (options.rounds, 1.0)
    wanted = [text for text in options.clients.split(",") if text]
    names = [name for name in CLIENTS if name == OURS or not wanted or any(text in name for text in wanted)]
    loads = [load for load in LOADS if options.loads in load.name]
    console.print(f"what is drawn at random has seed {options.seed}", highlight=False)
    figures: dict[str, Any] = {"seed": options.seed}
    with contextlib.ExitStack() as around:
        folder = Path(around.enter_context(tempfile.TemporaryDirectory(prefix="bench-forms-")))
        drawn = Drawn(options.seed, folder, all_at_random=options.at_random)
        clients = around.enter_context(chosen_clients(names, options.beside, console))
        for broker in options.brokers.split(","):
            server = chosen_server(broker, console) if broker != "-" and loads else None
            if server is None:
                continue
            try:
                server.start()
            except (TimeoutError, RuntimeError, EOFError) as reason:
                console.print(f"without the broker {broker}: {reason}")
                continue
            with contextlib.ExitStack() as stack:
                stack.callback(server.stop)
                for topic in ("bench-1k", "bench-waiting"):
                    server.create_topic(topic, 8)
                if any(load.topic == "bench-waiting" for load in loads):
                    fill(server, "bench-waiting", 8, int(WAITING * scale) + 10_000, drawn)
                able = [who for who in clients if who.name != GRPC or isinstance(server, LocalProxy)]
                results = measure(server, able, loads, rounds, scale, drawn, console)
            title = "our broker" if broker == "ours" else f"Apache {broker}"
            print_table(results, title, console)
            figures[title] = {load: {who: run._asdict() for who, run in runs.items()} for load, runs in results.items()}
        if not options.no_own:
            by_name = {who.name: who for who in clients}
            figures["ours alone"] = own_rows(by_name[OURS], by_name.get(JAVA), rounds, scale, drawn, console)
    write_figures(options.json, figures)


if __name__ == "__main__":
    main()

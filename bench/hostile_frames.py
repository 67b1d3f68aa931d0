# SPDX-License-Identifier: Apache-2.0
"""Millions of hostile frames against `sprocketmq serve` while honest clients work: `make hostile`.

    python bench/hostile_frames.py [--frames 10000000] [--seconds 3600] [--seed N]

hostile.c writes the frames: requests of every code with invalid values, types and bytes, noise, wrong lengths, resets, and connections that
send a byte now and then. At the same time a producer sends and a consumer consumes. Exit code 0 only if, at the end, the server is running,
every honest request of hostile.c was answered, every acknowledged message was consumed, the server's log has no traceback, and the memory
of the last third is at most 5 % above that of the first.

Memory is the process's own (RssAnon): the pages of the store's files belong to the page cache.

After the frames come floods of well-formed requests (hostile_floods.py): peers that do not read, unfinished frames, heartbeats with 100,000
groups, registrations, keys, many requests in one write, each for --flood-seconds. Memory has to stay below --memory-limit-mib meanwhile:
the limit of all peers together (maxQueuedBytes, 128 MiB here), requests in progress, and the tables at their limits. The longest time
between two answers to honest clients during each flood is printed, with the goal of 0.3 s, which a busy machine may miss. The machine's own
delay is printed next to it (own_lateness.py): that of two processes that only answer each other each 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

import sprocketmq as rmq  # noqa: E402
from broker_bench import cpu_seconds  # noqa: E402
from hostile_floods import KINDS  # noqa: E402
from interop.child import poll_until, unwind_on_sigterm  # noqa: E402
from interop.hostile_requests import CREATES, spoilt_frames  # noqa: E402
from interop.sprocket_server import SprocketServer  # noqa: E402
from load_program import build_programs  # noqa: E402
from own_lateness import OwnLateness  # noqa: E402
from report import figures_table, mark, new_console  # noqa: E402
from sprocketmq.errors import ClosedError, RocketMQError  # noqa: E402
from sprocketmq.wire.frames.command import decode_command  # noqa: E402
from sprocketmq.wire.frames.frame import FrameDecoder  # noqa: E402

HOSTILE: Final = ROOT / "bench/build/hostile"
TOPIC: Final = "honest"
ALLOWED_GROWTH: Final = 1.05
GAP_GOAL_S: Final = 0.3
MEMORY_LIMIT_MIB: Final = 300
_CORPUS_FRAMES: Final = 25_000
# Unknown names do not create topics or groups; all other settings are the defaults.
SETTINGS: Final[dict[str, Any]] = {
    "autoCreateTopicEnable": False,
    "autoCreateSubscriptionGroup": False,
    "enablePropertyFilter": True,
    "mappedFileSizeCommitLog": 64 << 20,
    "maxQueuedBytes": 128 << 20,
}


def write_corpus(path: Path, seed: int, count: int) -> None:
    """The frames for hostile.c, in the form that its head comment describes."""
    with path.open("wb") as file:
        for asked, frame in spoilt_frames(seed, count):
            try:
                whole, spans = FrameDecoder().cut(frame)
                for begin, end, _ in spans:
                    decode_command(memoryview(whole)[begin:end])
                breaks = 0
            except RocketMQError:
                breaks = 1
            file.write(
                bytes((asked.to == "namesrv", breaks, asked.code in CREATES)) + len(frame).to_bytes(4, "big") + frame
            )


class HonestClients:
    """A producer and a consumer with their own loop; ``sent_gap_s`` and ``seen_gap_s`` are the longest times between two sends or two
    deliveries."""

    def __init__(self, namesrv_addr: str) -> None:
        self.sent: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.failed = 0
        self.slowest_s = self.seen_gap_s = self.sent_gap_s = 0.0
        self._last_seen_s = time.monotonic()
        self._stop = threading.Event()
        self.consumer = rmq.PushConsumer(
            "honest-readers",
            namesrv_addr=namesrv_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        self.consumer.subscribe(TOPIC)
        self.consumer.on_message(self._see)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send(namesrv_addr)), daemon=True)

    def start(self) -> None:
        self.consumer.start()
        self._thread.start()

    def finish(self) -> None:
        """Stop sending, wait until everything that was acknowledged is consumed, and close."""
        self._stop.set()
        self._thread.join(60)
        try:
            poll_until(lambda: self.sent <= self.seen, "every acknowledged message is consumed", 60)
        finally:
            self.consumer.shutdown()

    def _see(self, message: rmq.MessageExt) -> None:
        now_s = time.monotonic()
        self.seen_gap_s = max(self.seen_gap_s, now_s - self._last_seen_s)
        self._last_seen_s = now_s
        self.seen.add(message.body)

    async def _send(self, namesrv_addr: str) -> None:
        number, last_s = 0, time.monotonic()
        async with rmq.AsyncProducer(
            "honest-writers", namesrv_addr=namesrv_addr, send_msg_timeout_ms=30_000
        ) as producer:
            while not self._stop.is_set():
                body = b"honest-%d" % number
                number += 1
                began_s = time.monotonic()
                try:
                    await producer.send(rmq.Message(TOPIC, body))
                except ClosedError:
                    return  # after an interrupt atexit has shut the producer down
                except RocketMQError as error:
                    self.failed += 1
                    print(f"an honest send failed: {error}", file=sys.stderr)
                    continue
                self.sent.add(body)
                now_s = time.monotonic()
                self.slowest_s = max(self.slowest_s, now_s - began_s)
                self.sent_gap_s = max(self.sent_gap_s, now_s - last_s)
                last_s = now_s
                await asyncio.sleep(0.02)


def memory_bytes(pid: int) -> tuple[int, int]:
    """(RssAnon, VmRSS) of a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024, int(fields["VmRSS"].split()[0]) * 1024


def attack(server: SprocketServer, corpus: Path, options: argparse.Namespace, seed: int) -> Iterator[dict[str, Any]]:
    """Runs hostile.c; yields its counts about each second. The last ones contain its exit code as ``code``."""
    command = [str(HOSTILE), "--corpus", str(corpus), "--seed", str(seed), "--frames", str(options.frames)]
    command += ["--broker-port", server.broker_addr.rpartition(":")[2], "--seconds", str(options.seconds)]
    command += ["--namesrv-port", server.namesrv_addr.rpartition(":")[2]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        counts: dict[str, Any] = {}
        try:
            for line in process.stdout:
                counts = json.loads(line)
                yield counts
            counts["code"] = process.wait(60)
        finally:
            if process.poll() is None:
                process.terminate()
        yield counts


class FloodSeen(NamedTuple):
    """The result of one flood: its counts, the peak memory of the server, the longest gaps of honest clients, and the machine's own."""

    kind: str
    counts: dict[str, int]
    most_bytes: int
    sent_gap_s: float
    seen_gap_s: float
    own_gap_s: float


def flooded(server: SprocketServer, honest: HonestClients, own: OwnLateness, kind: str, seconds: float) -> FloodSeen:
    command = [sys.executable, str(ROOT / "bench/hostile_floods.py"), "--kind", kind, "--seconds", str(seconds)]
    command += ["--broker-port", server.broker_addr.rpartition(":")[2]]
    command += ["--namesrv-port", server.namesrv_addr.rpartition(":")[2]]
    honest.sent_gap_s = honest.seen_gap_s = 0.0
    own.longest_gap_s()
    most_bytes = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None:
                most_bytes = max(most_bytes, memory_bytes(server.broker_pid)[0])
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                process.terminate()
        assert process.stdout is not None
        text = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"bench: the flood of {kind} ended with {process.returncode}, see above")
    return FloodSeen(kind, json.loads(text), most_bytes, honest.sent_gap_s, honest.seen_gap_s, own.longest_gap_s())


def thirds(samples: list[tuple[int, int]]) -> tuple[float, float]:
    """Mean of the first and of the last third of (frames, bytes), by frames."""
    end = samples[-1][0]
    first = [size for frames, size in samples if frames <= end / 3]
    last = [size for frames, size in samples if frames >= end * 2 / 3]
    return statistics.fmean(first or [samples[0][1]]), statistics.fmean(last)


def flood_table(floods: list[FloodSeen]) -> Table:
    figures = ("requests", "answers", "closed", "most memory", "longest gap, sends / consumed", "the machine's own")
    table = figures_table("floods of well-formed requests", ("flood",), *figures, f"goal {GAP_GOAL_S} s")
    for flood in floods:
        counts = [f"{flood.counts[name]:,}" for name in ("requests", "answers", "closed")]
        verdict = mark(max(flood.sent_gap_s, flood.seen_gap_s) <= GAP_GOAL_S)
        gaps = f"{flood.sent_gap_s:.2f} s / {flood.seen_gap_s:.2f} s"
        table.add_row(flood.kind, *counts, f"{flood.most_bytes >> 20} MiB", gaps, f"{flood.own_gap_s:.2f} s", verdict)
    return table


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Hostile frames beside honest clients.")
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=3600, help="end earlier after so long; default 3600")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--corpus", type=int, default=_CORPUS_FRAMES, help="different frames before bytes are changed")
    parser.add_argument("--no-memory", action="store_true", help="do not judge memory: too few frames for that")
    parser.add_argument("--flood-seconds", type=float, default=20, help="for each flood; 0: none")
    parser.add_argument("--memory-limit-mib", type=int, default=MEMORY_LIMIT_MIB, help="during the floods")
    parser.add_argument("--keep-log", type=Path, help="write the server's log to this file")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    unwind_on_sigterm()
    console = new_console(120)
    build_programs()
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    console.print(f"seed {seed}")
    samples: list[tuple[int, int]] = []
    counts: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="hostile-") as folder,
        OwnLateness() as own,
        SprocketServer(**SETTINGS) as server,
    ):
        corpus = Path(folder) / "corpus"
        write_corpus(corpus, seed, options.corpus)
        server.create_topic(TOPIC, 4)
        server.create_topic("compared", 4)  # the resources named in many of the frames
        server.create_group("honest-readers")
        honest = HonestClients(server.namesrv_addr)
        honest.start()
        poll_until(lambda: honest.seen, "the honest clients are at work", 60)
        rss = 0
        cpu_s = -cpu_seconds(server.broker_pid)
        own.longest_gap_s()
        with console.status("attacking") as status:
            for counts in attack(server, corpus, options, seed):
                anonymous, rss = memory_bytes(server.broker_pid)
                samples.append((counts["frames"], anonymous))
                line = f"{counts['frames']:,} frames in {counts['seconds']:.0f} s, {anonymous >> 20} MiB, honest {len(honest.seen):,}"
                status.update(line)
                if not console.is_terminal and len(samples) % 30 == 0:
                    console.print(line)
        cpu_s += cpu_seconds(server.broker_pid)
        frames_gaps = honest.sent_gap_s, honest.seen_gap_s, own.longest_gap_s()
        floods = [flooded(server, honest, own, kind, options.flood_seconds) for kind in KINDS if options.flood_seconds]
        honest.finish()
        log = server.log_text()
        if options.keep_log:
            options.keep_log.write_text(log, "utf-8")
        alive = server.stop_process() == 0
    first, last = thirds(samples)
    title = f"{counts['frames']:,} hostile frames in {counts['seconds']:.0f} s"
    table = figures_table(title, ("what",), "figure")
    kinds = "bursts connects closed_by_server changed noise lies resets refused honest_answers mute"
    for name in kinds.split():
        table.add_row(name.replace("_", " "), f"{counts[name]:,}")
    table.add_row(
        "honest messages sent, consumed, failed", f"{len(honest.sent):,}, {len(honest.seen):,}, {honest.failed}"
    )
    table.add_row("slowest honest send", f"{honest.slowest_s * 1000:.0f} ms")
    table.add_row(
        "longest gap between honest sends / messages consumed", f"{frames_gaps[0]:.2f} s / {frames_gaps[1]:.2f} s"
    )
    table.add_row("the machine's own longest gap", f"{frames_gaps[2]:.2f} s")
    table.add_row("memory, mean of the first / last third", f"{first / (1 << 20):.1f} / {last / (1 << 20):.1f} MiB")
    table.add_row("resident at the end, files included", f"{rss / (1 << 20):.0f} MiB")
    table.add_row("CPU of the server per frame", f"{cpu_s * 1e6 / counts['frames']:.0f} us")
    table.add_row("lines in the server's log", f"{log.count(chr(10)):,}")
    console.print(table)
    if floods:
        console.print(flood_table(floods))
    wrong = [
        f"{flood.kind}: the server took {flood.most_bytes >> 20} MiB, {options.memory_limit_mib} are allowed"
        for flood in floods
        if flood.most_bytes > options.memory_limit_mib << 20
    ]
    if counts["code"]:
        wrong.append(f"hostile.c ended with {counts['code']}: an honest request was not answered")
    if honest.failed:
        wrong.append(f"{honest.failed} honest sends failed")
    if "Traceback" in log:
        wrong.append("a traceback is in the log:\n" + log[log.index("Traceback") - 500 :][:4000])
    if not alive:
        wrong.append("the server did not stop cleanly")
    if not options.no_memory and last > first * ALLOWED_GROWTH:
        wrong.append(f"memory grew by {last / first - 1:.1%}, {ALLOWED_GROWTH - 1:.0%} is allowed")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()

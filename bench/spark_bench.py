# SPDX-License-Identifier: Apache-2.0
"""Our Spark source and sink compared with Spark's Kafka connector: `python bench/spark_bench.py [--quick] [--rows NAME] [--json FILE]`.

One Spark session (local, two cores), one broker of each kind with eight queues, the same rows in both; the ways (see spark_ways) take
turns, after one round that does not count (it warms up classes, connections, the page cache), and the median of the rounds counts.
`--at-random` draws the rows: sizes, keys, properties; the seed is printed.

Streams have two figures: the time from ``load`` to the end of the query, which for a Python source includes the start of its Python
process, and the median of its full batches, which is the rate of a long-running stream. With a ratio above 1, ours is better; the goal and
whether it is reached are printed after it. CPU is that of the broker and that of Spark with its Python workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
_PATHS: Final = [str(ROOT / "tests"), str(ROOT / "bench")]
sys.path[:0] = _PATHS


from interop.child import unwind_on_sigterm  # noqa: E402
from interop.sprocket_server import SprocketServer  # noqa: E402
from report import at_least, at_most, figures_table, mark, new_console, write_figures  # noqa: E402
from spark_peers import KafkaBroker, PeersUnavailable, kafka_connector_jars  # noqa: E402
from spark_ways import CEILING, DEFAULT, LARGE, OURS, SMALL, TUNED, Run, Topic, Ways, bench_session  # noqa: E402

ROWS_A_BATCH: Final = 200_000
FEW_ROWS: Final = 1_000
FEW: Final = Topic("bench-few", 40 * FEW_ROWS, 100)
FEW_ROWS_LIMIT_MS: Final = 50
ONE_QUEUE: Final = Topic("bench-one-queue", 64, 100, queues=1)
MANY_QUEUES: Final = Topic("bench-many-queues", 64, 100, queues=64)
MANY_QUEUES_GOAL: Final = 1.3
RANGE_SHARE: Final = 8
FLAT_GOAL: Final = 1.2
DECODED_PER_S: Final = {100: 1_500_000, 1024: 1_200_000_000 // 1024}


class Rate(NamedTuple):
    """One line of the first table; ``goals``: the goal against each way."""

    name: str
    topic: Topic
    goals: dict[str, float]
    prepared: Callable[[Ways, str, Topic], Callable[[], object]]


def _reading(ways: Ways, way: str, topic: Topic) -> Callable[[], object]:
    return lambda: ways.read(way, topic)


def _to_parquet(ways: Ways, way: str, topic: Topic) -> Callable[[], object]:
    return lambda: ways.to_parquet(way, topic)


def _streaming(ways: Ways, way: str, topic: Topic) -> Callable[[], object]:
    return lambda: ways.stream(way, topic, ROWS_A_BATCH)


def _writing(ways: Ways, way: str, topic: Topic) -> Callable[[], object]:
    fresh = ways.fresh(topic)
    return lambda: ways.write(way, fresh)


RATES: Final = (
    Rate("read -> noop, 100 B", SMALL, {DEFAULT: 3.0, TUNED: 1.5, CEILING: 0.6}, _reading),
    Rate("read -> noop, 1 KB", LARGE, {DEFAULT: 2.5, TUNED: 1.1, CEILING: 0.7}, _reading),
    Rate("read -> Parquet, 100 B", SMALL, {DEFAULT: 1.5, TUNED: 1.1}, _to_parquet),
    Rate("read -> Parquet, 1 KB", LARGE, {DEFAULT: 1.5, TUNED: 1.1}, _to_parquet),
    Rate("AvailableNow, 200,000 rows a batch, 100 B", SMALL, {DEFAULT: 1.5, TUNED: 1.0}, _streaming),
    Rate("AvailableNow, 200,000 rows a batch, 1 KB", LARGE, {DEFAULT: 1.5, TUNED: 1.0}, _streaming),
    Rate("write, 1 KB", LARGE, {DEFAULT: 0.8}, _writing),
)


# -- rows per second -----------------------------------------------------------------------------------------------------------------


def measured(ways: Ways, rate: Rate, rounds: int, console: Console) -> dict[str, Run]:
    """The medians of each way; a peer that failed is reported, and left out."""
    if rate.prepared is not _writing:
        ways.fill(rate.topic)
    names = [*ways.names, *([CEILING] if CEILING in rate.goals else [])]
    seen: dict[str, list[Run]] = {way: [] for way in names}
    for number in range(rounds + 1):
        if number == 1:
            ways.batches_ms.clear()
        for way in names if number % 2 == 0 else reversed(names):
            try:
                run = ways.timed(way, rate.topic.rows, rate.prepared(ways, way, rate.topic))
            except Py4JError as error:
                if way == OURS:
                    raise
                console.print(f"{rate.name}: {way} failed: {_first_line(error)}")
                continue
            if number:
                seen[way].append(run)
            console.print(
                f"[dim]{rate.name}, {number or 'warm-up'}: {way} {run.rows_per_s:,.0f} rows/s[/dim]", highlight=False
            )
    return {way: Run(*map(statistics.median, zip(*runs, strict=True))) for way, runs in seen.items() if runs}


def _first_line(error: Exception) -> str:
    causes = [line for line in str(error).splitlines() if "Caused by" in line or "Exception" in line]
    return (causes or [str(error)])[-1][:160]


def rates(ways: Ways, chosen: list[Rate], rounds: int, console: Console) -> dict[str, dict[str, Run]]:
    title = "medians; ratios above 1 are ours being better"
    table = figures_table(title, ("work", "way"), "rows/s", "ratio of rows/s", "CPU us a row: broker", "Spark")
    results: dict[str, dict[str, Run]] = {}
    for rate in chosen:
        with console.status(rate.name):
            results[rate.name] = runs = measured(ways, rate, rounds, console)
        for way, run in runs.items():
            ratio = runs[OURS].rows_per_s / run.rows_per_s
            verdict = "" if way == OURS else at_least(ratio, rate.goals.get(way, 0))
            cpu = f"{run.broker_us:.2f}", f"{run.spark_us:.2f}"
            table.add_row(rate.name if way == OURS else "", way, f"{run.rows_per_s:,.0f}", verdict, *cpu)
        table.add_section()
        if rate.prepared is _streaming and rate.topic.rows >= ROWS_A_BATCH:  # with fewer rows no batch is full
            batches = {
                way: ROWS_A_BATCH / statistics.median(ways.batches_ms[way, rate.topic.name]) * 1000 for way in runs
            }
            for way, rows_per_s in batches.items():
                verdict = "" if way == OURS else at_least(batches[OURS] / rows_per_s, rate.goals.get(way, 0))
                table.add_row("the same, median batch" if way == OURS else "", way, f"{rows_per_s:,.0f}", verdict)
            table.add_section()
    if results:
        console.print(table)
    return results


# -- the rest ------------------------------------------------------------------------------------------------------------------------


class Finding(NamedTuple):
    """A line of the second table."""

    figures: dict[str, float]
    verdict: str


def small_batches(ways: Ways, rounds: int) -> Finding:
    """Median time of micro-batches, ours and Kafka's with its defaults; the first five of each stream are left out."""
    ways.fill(FEW)
    names = ways.names[:2]
    seen: dict[str, list[float]] = {way: [] for way in names}
    for _ in range(rounds):
        for way in names:
            seen[way].append(statistics.median(ways.stream(way, FEW, FEW_ROWS)[5:]))
    medians = {f"ms, {way}": statistics.median(found) for way, found in seen.items()}
    if not ways.kafka:
        return Finding(medians, "no peer")
    more_ms = medians[f"ms, {OURS}"] - medians[f"ms, {DEFAULT}"]
    return Finding(medians, f"{more_ms:+.0f} ms of at most +{FEW_ROWS_LIMIT_MS} {mark(more_ms <= FEW_ROWS_LIMIT_MS)}")


def many_queues(ways: Ways, rounds: int) -> Finding:
    """The time to read 64 rows from 64 queues, and from one."""
    topics = {"one queue": ONE_QUEUE, "64 queues": MANY_QUEUES}
    seen: dict[str, list[float]] = {name: [] for name in topics}
    for topic in topics.values():
        ways.fill(topic)
        ways.read(OURS, topic)
    for _ in range(3 * rounds):
        for name, topic in topics.items():
            took = ways.timed(OURS, topic.rows, lambda topic=topic: ways.read(OURS, topic))  # type: ignore[misc]
            seen[name].append(1000 * topic.rows / took.rows_per_s)
    medians = {f"ms, {name}": statistics.median(found) for name, found in seen.items()}
    ratio = medians["ms, 64 queues"] / medians["ms, one queue"]
    return Finding(medians, at_most(ratio, MANY_QUEUES_GOAL))


def memory(ways: Ways, _: int) -> Finding:
    """The peak memory of a Python worker while one task reads an eighth of a topic, and all of it."""
    ways.fill(LARGE)
    share = LARGE.rows // LARGE.queues // RANGE_SHARE
    part = json.dumps({LARGE.name: {"broker-a": {str(queue): share for queue in range(LARGE.queues)}}})
    peaks = {}
    for name, options in (("MB, an eighth", {"endingOffsets": part}), ("MB, all", {})):
        ways.read(OURS, LARGE, maxPartitions="1", **options)  # the first read is not measured
        ways.forget_peaks()
        ways.read(OURS, LARGE, maxPartitions="1", **options)
        peaks[name] = max(ways.worker_peaks_mb())
    return Finding(peaks, at_most(peaks["MB, all"] / peaks["MB, an eighth"], FLAT_GOAL))


def decoding(body_bytes: int) -> Callable[[Ways, int], Finding]:
    """Pull bodies to Arrow on one core, all columns (see spark_decode.py, which has more of it)."""

    def finding(_: Ways, rounds: int) -> Finding:
        import spark_decode

        case = next(case for case in spark_decode.CASES if case.body_bytes == body_bytes)
        speed = spark_decode.measure(case, rounds, 0.5)
        figures = {"rows/s": speed.decode, "MB/s": speed.decode * speed.record_bytes / 1e6}
        return Finding(figures, at_least(speed.decode / DECODED_PER_S[body_bytes], 1.0))

    return finding


OTHERS: Final[dict[str, Callable[[Ways, int], Finding]]] = {
    "micro-batch of 1,000 rows": small_batches,
    "64 queues with one row each": many_queues,
    "decode alone, 100 B": decoding(100),
    "decode alone, 1 KB": decoding(1024),
    "memory of a reading task": memory,
}


def others(ways: Ways, chosen: list[str], rounds: int, console: Console) -> dict[str, dict[str, float]]:
    table = Table("work", "figures", "ratio")
    found = {}
    for name in chosen:
        with console.status(name):
            finding = OTHERS[name](ways, rounds)
        found[name] = finding.figures
        console.print(f"{name}: {finding.verdict}", highlight=False)
        table.add_row(name, "; ".join(f"{key} {value:,.0f}" for key, value in finding.figures.items()), finding.verdict)
    if found:
        console.print(table)
    return found


# -- around it -----------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kafka_or_none(console: Console, wanted: bool) -> Iterator[tuple[KafkaBroker | None, str]]:
    """A running Kafka and the connector's jars; None and an empty text if they are not available."""
    with contextlib.ExitStack() as stack:
        try:
            if not wanted:
                raise PeersUnavailable("not asked for")
            jars = kafka_connector_jars()
            broker = stack.enter_context(KafkaBroker())
        except (PeersUnavailable, TimeoutError) as reason:
            console.print(f"without Kafka: {reason}")
            yield None, ""
        else:
            yield broker, jars


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our Spark source and sink beside Spark's Kafka connector.")
    parser.add_argument("--quick", action="store_true", help="one round of a tenth of the rows: a look, not a result")
    parser.add_argument(
        "--rows", default="", metavar="NAME", help="only lines with this text in their name; '|' for or"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds per line, default 3, after one that does not count"
    )
    parser.add_argument("--scale", type=float, help="of all numbers of rows, default 1, or a tenth with --quick")
    parser.add_argument("--at-random", action="store_true", help="draw the rows")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 30), help="of what is drawn")
    parser.add_argument("--no-kafka", action="store_true", help="ours and the ceiling alone")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    unwind_on_sigterm()
    console = new_console(140)
    rounds, scale = (1, 0.1) if options.quick else (options.rounds, 1.0)
    scale = options.scale or scale

    def is_chosen(name: str) -> bool:
        return any(text.strip() in name for text in options.rows.split("|"))

    seed = options.seed if options.at_random else None
    if seed is not None:
        console.print(f"all rows are drawn at random, seed {seed}", highlight=False)
    chosen = [
        rate._replace(topic=rate.topic._replace(rows=int(rate.topic.rows * scale), seed=seed))
        for rate in RATES
        if is_chosen(rate.name)
    ]
    figures: dict[str, Any] = {"seed": seed}
    scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    with kafka_or_none(console, not options.no_kafka) as (kafka, jars), SprocketServer() as server:
        spark = bench_session(jars, scratch, _PATHS)
        ways = Ways(spark, server, kafka)
        try:
            found = rates(ways, chosen, rounds, console)
            figures["rates"] = {name: {way: run._asdict() for way, run in runs.items()} for name, runs in found.items()}
            figures["others"] = others(ways, list(filter(is_chosen, OTHERS)), rounds, console)
        finally:
            spark.stop()
            shutil.rmtree(ways.scratch, ignore_errors=True)
            shutil.rmtree(scratch, ignore_errors=True)
    write_figures(options.json, figures)


if __name__ == "__main__":
    main()

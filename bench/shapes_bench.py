# SPDX-License-Identifier: Apache-2.0
"""How fast messages of each kind of producer become rows, compared with our own uniform ones: `make bench-shapes`, or `python
bench/shapes_bench.py [--quick] [--no-spark] [--rounds N] [--rows N] [--seed N] [--only TEXT] [--json FILE]`.

The messages are those of `tests/producer_shapes.py`: properties of Java's producers are what Apache 5.4.0 and 4.9.7 stored.

The first table decodes batches of a Spark task (8 MiB) with all columns, without broker and Spark, measured in CPU time of this process.
The second one (shape_reads.py) reads the same messages with Spark from a broker of ours, without writing them. Each shape is measured in
turns with the uniform one; the result is the median ratio. Rows of some shapes are longer, so the ratio of bytes is given as well as that
of rows; either may reach the goal, unless the ratio of rows is below the minimum. The seed of what is drawn at random is printed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from rich.console import Console

ROOT: Final = Path(__file__).resolve().parents[1]
_PATHS: Final = [str(ROOT / "tests"), str(ROOT / "bench")]
sys.path[:0] = _PATHS

from interop.child import unwind_on_sigterm  # noqa: E402
from producer_shapes import Shape, pull_bodies, shapes  # noqa: E402
from report import at_least, figures_table, new_console, write_figures  # noqa: E402
from shape_reads import ReadSpeed, ShapeReads  # noqa: E402
from sprocketmq.client.consume.queue_reader import PulledChunk  # noqa: E402
from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds  # noqa: E402
from sprocketmq.spark.columns.decode import BatchDecoder  # noqa: E402
from sprocketmq.spark.source import message_schema  # noqa: E402

BATCH_BYTES: Final = 8 * 1024 * 1024  # where spark.read.reader closes a batch
GOAL: Final = 0.7
LEAST: Final = 0.5
READ_ROWS: Final = 800_000


class Speed(NamedTuple):
    rows_per_s: float
    of_rows: float
    of_bytes: float


def seconds_of(work: Callable[[], object], at_least_s: float) -> float:
    """The CPU time of one run in this process."""
    runs, begin_s = 0, time.process_time()
    while (spent_s := time.process_time() - begin_s) < at_least_s or not runs:
        work()
        runs += 1
    return spent_s / runs


def measure(
    decoder: BatchDecoder, uniform_pulls: list[PulledChunk], pulls: list[PulledChunk], rounds: int, each_s: float
) -> Speed:
    """Measure ``pulls`` and the uniform ones in turns."""

    def rows_of(batch: list[PulledChunk]) -> int:
        return sum(one.num_rows for one in decoder.decode(batch))

    def bytes_of(batch: list[PulledChunk]) -> int:
        return sum(len(pull.body) for pull in batch)

    rows, uniform_rows = rows_of(pulls), rows_of(uniform_pulls)
    by_rows, speeds = [], []
    for _ in range(rounds):
        uniform_s = seconds_of(lambda: list(decoder.decode(uniform_pulls)), each_s)
        own_s = seconds_of(lambda: list(decoder.decode(pulls)), each_s)
        speeds.append(rows / own_s)
        by_rows.append(rows / own_s * uniform_s / uniform_rows)
    of_rows = statistics.median(by_rows)
    longer = bytes_of(pulls) / rows * uniform_rows / bytes_of(uniform_pulls)
    return Speed(statistics.median(speeds), of_rows, of_rows * longer)


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of the Spark source by the shape of the messages.")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a result")
    parser.add_argument("--no-spark", action="store_true", help="decoding alone")
    parser.add_argument("--no-decode", action="store_true", help="reads by Spark alone")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per line, default 3")
    parser.add_argument(
        "--rows", type=int, default=READ_ROWS, help=f"messages of each read by Spark, default {READ_ROWS:,}"
    )
    parser.add_argument("--seed", type=int, help="of what is drawn at random")
    parser.add_argument("--only", default="", help="shapes with this in their name; '|' for or")
    parser.add_argument("--json", type=Path, help="write the medians to this file as well")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    unwind_on_sigterm()
    pa.set_cpu_count(1)
    raise_malloc_thresholds()  # as a task does
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    rounds = 1 if options.quick else options.rounds
    uniform, *_ = made = shapes()
    chosen = [shape for shape in made if any(text in shape.name for text in options.only.split("|"))]
    console = new_console(140)
    figures: dict[str, object] = {"seed": seed}
    if not options.no_decode:
        decoded = decoding(uniform, chosen, seed, rounds, 0.1 if options.quick else 0.25, console)
        print_decoding(decoded, seed, console)
        figures["decoding"] = {name: speed._asdict() for name, speed in decoded.items()}
    if not options.no_spark:
        rows = options.rows // 4 if options.quick else options.rows
        with ShapeReads(uniform, rows, seed, rounds, _PATHS) as reads:
            read = reading(reads, chosen, console)
        print_reading(read, seed, rows, console)
        figures["reading"] = {name: speed._asdict() for name, speed in read.items()}
    write_figures(options.json, figures)


def decoding(
    uniform: Shape, chosen: list[Shape], seed: int, rounds: int, each_s: float, console: Console
) -> dict[str, Speed]:
    decoder = BatchDecoder(to_arrow_schema(message_schema(), timezone="UTC"))
    uniform_pulls = pull_bodies(uniform, random.Random(seed), BATCH_BYTES)
    found: dict[str, Speed] = {}
    for shape in chosen:
        with console.status(shape.name):
            pulls = pull_bodies(shape, random.Random(seed), BATCH_BYTES)
            found[shape.name] = measure(decoder, uniform_pulls, pulls, rounds, each_s)
    return found


def reading(reads: ShapeReads, chosen: list[Shape], console: Console) -> dict[str, ReadSpeed]:
    found: dict[str, ReadSpeed] = {}
    for shape in chosen:
        if reason := reads.why_not(shape):
            console.print(f"{shape.name}: not read by Spark, {reason}")
            continue
        with console.status(shape.name):
            found[shape.name] = speed = reads.measure(shape)
        of_uniform = (
            f"{speed.of_rows:.2f} of the uniform rows, {speed.of_cpu:.2f} by CPU, ceiling {speed.of_ceiling:.2f}"
        )
        console.print(f"[dim]{shape.name}: {speed.rows_per_s:,.0f} rows/s, {of_uniform}[/dim]", highlight=False)
    return found


def verdict(of_rows: float, of_bytes: float) -> str:
    """The verdict; ``of_bytes`` counts if the records are longer."""
    if of_rows < LEAST:
        return at_least(of_rows, LEAST)
    return at_least(max(of_rows, of_bytes), GOAL)


def print_decoding(found: dict[str, Speed], seed: int, console: Console) -> None:
    title = f"pull bodies to Arrow on one core, seed {seed}, medians"
    table = figures_table(title, ("messages",), "rows/s", "rows, of uniform", "bytes, of uniform", "goal")
    for name, speed in found.items():
        ratios = f"{speed.of_rows:.2f}", f"{speed.of_bytes:.2f}", verdict(speed.of_rows, speed.of_bytes)
        table.add_row(name, f"{speed.rows_per_s:,.0f}", *ratios)
    console.print(table)


def print_reading(found: dict[str, ReadSpeed], seed: int, rows: int, console: Console) -> None:
    title = f"broker -> Spark -> nothing, two tasks, {rows:,} messages, seed {seed}, medians"
    figures = (
        "rows/s",
        "rows, of uniform",
        "bytes, of uniform",
        "goal",
        "CPU, of uniform",
        "ceiling's CPU, of uniform",
    )
    table = figures_table(title, ("messages",), *figures)
    for name, speed in found.items():
        ratios = f"{speed.of_rows:.2f}", f"{speed.of_bytes:.2f}", verdict(speed.of_rows, speed.of_bytes)
        table.add_row(name, f"{speed.rows_per_s:,.0f}", *ratios, f"{speed.of_cpu:.2f}", f"{speed.of_ceiling:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()

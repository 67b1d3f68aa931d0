"""How fast messages of each kind of producer become Arrow batches, beside our own uniform ones: `make bench-shapes`, or
`python bench/shapes_bench.py [--quick] [--rounds N] [--seed N] [--only TEXT] [--json FILE]`.

The messages are those of `tests/producer_shapes.py`: properties of Java's producers are what Apache 5.4.0 and 4.9.7 stored. The batches are
a Spark task's (8 MiB), with all columns; no broker and no Spark take part. Each shape is measured by turns with the uniform one, in this
process's own time; the median ratio counts. Rows of some shapes are longer, so the ratio of their bytes stands beside that of the rows.
The seed of what is drawn at random is printed.
"""

from __future__ import annotations

import argparse
import json
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
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from producer_shapes import pull_bodies, shapes  # noqa: E402
from sprocketmq.net.process.malloc_settings import raise_malloc_thresholds  # noqa: E402
from sprocketmq.spark.columns.decode import BatchDecoder  # noqa: E402
from sprocketmq.spark.columns.pull_body import PullBody  # noqa: E402
from sprocketmq.spark.source import message_schema  # noqa: E402

BATCH_BYTES: Final = 8 * 1024 * 1024  # where spark.read.reader closes a batch


class Speed(NamedTuple):
    rows_per_s: float
    of_rows: float
    of_bytes: float


def seconds_of(work: Callable[[], object], at_least_s: float) -> float:
    """Of one run, in this process's time."""
    runs, begin_s = 0, time.process_time()
    while (spent_s := time.process_time() - begin_s) < at_least_s or not runs:
        work()
        runs += 1
    return spent_s / runs


def measure(
    decoder: BatchDecoder, uniform_pulls: list[PullBody], pulls: list[PullBody], rounds: int, each_s: float
) -> Speed:
    """``pulls`` and the uniform ones by turns."""

    def rows_of(batch: list[PullBody]) -> int:
        return sum(one.num_rows for one in decoder.decode(batch))

    def bytes_of(batch: list[PullBody]) -> int:
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding speed of the Spark source by the shape of the messages.")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a result")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per line, default 5")
    parser.add_argument("--seed", type=int, help="of what is drawn at random")
    parser.add_argument("--only", default="", help="shapes with this in their name")
    parser.add_argument("--json", type=Path, help="write the medians to this file as well")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    raise_malloc_thresholds()  # as a task does
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    rounds, each_s = (1, 0.1) if options.quick else (options.rounds, 0.25)
    decoder = BatchDecoder(to_arrow_schema(message_schema(), timezone="UTC"))
    first, *others = shapes()
    uniform_pulls = pull_bodies(first, random.Random(seed), BATCH_BYTES)
    results: dict[str, Speed] = {}
    console = Console(width=None if sys.stdout.isatty() else 120)
    for shape in (first, *others):
        if options.only in shape.name:
            with console.status(shape.name):
                pulls = pull_bodies(shape, random.Random(seed), BATCH_BYTES)
                results[shape.name] = measure(decoder, uniform_pulls, pulls, rounds, each_s)
    print_table(results, seed, console)
    if options.json is not None:
        medians = {"seed": seed, **{name: speed._asdict() for name, speed in results.items()}}
        options.json.write_text(json.dumps(medians, indent=1) + "\n", "utf-8")


def print_table(results: dict[str, Speed], seed: int, console: Console) -> None:
    table = Table("messages", title=f"pull bodies to Arrow on one core, seed {seed}, medians")
    for heading in ("rows/s", "rows, of uniform", "bytes, of uniform"):
        table.add_column(heading, justify="right")
    for name, speed in results.items():
        table.add_row(name, f"{speed.rows_per_s:,.0f}", f"{speed.of_rows:.2f}", f"{speed.of_bytes:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()

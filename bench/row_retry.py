# SPDX-License-Identifier: Apache-2.0
"""What row retry costs: `python bench/row_retry.py [--only TEXT] [--rounds N] [--warm-up N] [--first] [--json FILE]`.

One query for each line of the table; its batches take turns: one by a plain ``foreachBatch``, the next by ours. Both judge the same way
and write the good rows, all columns, to Parquet. A batch's time is that of its trigger; the ratio is that of the medians, and in brackets
that of the fastest; CPU is that of the function in Spark and its Python processes, without the broker's. "sent back" is the part of ours
that sends the bad rows to the broker, for which a plain function does nothing.

Before the first line its batches run for a while, because HotSpot's compilers use 0.8 s of each of the first twenty, and ours is more code
to compile. The first batch is timed in a new process of its own for each way, from the start of the query.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console

ROOT: Final = Path(__file__).resolve().parents[1]
_PATHS: Final = [str(ROOT / "tests"), str(ROOT / "bench")]
sys.path[:0] = _PATHS


from interop.child import unwind_on_sigterm  # noqa: E402
from interop.sprocket_server import SprocketServer  # noqa: E402
from report import at_most, figures_table, new_console, write_figures  # noqa: E402
from spark_cpu import cpu_s, spark_pids  # noqa: E402
from spark_ways import bench_session  # noqa: E402
from sprocketmq.spark import foreach_batch  # noqa: E402
from sprocketmq.spark.retry.row_retry import RowRetry, Write  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

GOAL: Final = 1.3
FIRST_BATCH_GOAL_S: Final = 1.0
ROWS_A_BATCH: Final = {100: 60_000, 1024: 60_000, 10_240: 6_000}
BAD_SHARES: Final = {"0 %": 0, "2.5 %": 25, "50 %": 500}  # of 1,000 rows
# Where the number stands in a body, from 1, and its digits.
PLACE, DIGITS = 6, 8
QUEUES: Final = 8
WAIT_2_HOURS: Final = 18  # so that what is sent back does not come again while others are timed


def cast_judge(body: Column) -> Column:
    from pyspark.sql import functions as f

    return f.substring(body.cast("string"), PLACE, DIGITS).try_cast("int")


def json_judge(body: Column) -> Column:
    from pyspark.sql import functions as f

    return f.from_json(body.cast("string"), "n INT, text STRING").n


def python_judge(body: Column) -> Column:
    import json

    from pyspark.sql import functions as f

    return f.udf(lambda text: json.loads(text)["n"], "int")(body)


JUDGES: Final[dict[str, Callable[[Column], Column]]] = {
    "cast": cast_judge,
    "from_json": json_judge,
    "Python UDF": python_judge,
}


class Line(NamedTuple):
    """One line of the table."""

    body_bytes: int
    judge: str
    bad: str

    @property
    def name(self) -> str:
        return f"{self.body_bytes}/{self.judge}/{self.bad}"

    def judged(self, rows: DataFrame, batch_id: int) -> DataFrame:
        from pyspark.sql import functions as f

        rows = rows.withColumn("number", JUDGES[self.judge](rows.body))
        return rows.withColumn("failed", f.col("number") % 1000 < BAD_SHARES[self.bad])


class Batch(NamedTuple):
    seconds: float
    cpu_s: float
    sent_back_s: float
    jobs: int


class Bench:
    def __init__(self, spark: SparkSession, namesrv_addr: str, scratch: Path) -> None:
        self._spark, self._namesrv_addr, self._scratch = spark, namesrv_addr, scratch
        self._numbers = iter(range(1_000_000))

    def fill(self, body_bytes: int, rows: int) -> None:
        from pyspark.sql import functions as f

        head = f.concat(f.lit('{"n":'), f.col("id").cast("string"), f.lit(',"text":"'))
        words = f.concat_ws(
            " ", *(f.hex(f.xxhash64("id", f.lit(at))) for at in range(4))
        )  # nothing that compresses to nothing
        room = body_bytes - PLACE - DIGITS - 12
        body = f.concat(head, f.substring(f.repeat(words, room // 64 + 1), 1, room), f.lit('"}'))
        first = 10 ** (DIGITS - 1)
        made = self._spark.range(first, first + rows).select(
            body.cast("binary").alias("body"), f.lit("A").alias("tags")
        )
        sink = made.write.format("rocketmq").option("namesrvAddr", self._namesrv_addr)
        sink.option("topic", topic_of(body_bytes)).mode("append").save()

    def run(self, line: Line, ways: list[str]) -> dict[str, list[Batch]]:
        """Stream the topic; the batches take turns among ``ways``."""
        number = next(self._numbers)
        target = self._scratch / f"good-{number}"

        def write(good: DataFrame, batch_id: int) -> None:
            good.write.parquet(str(target / str(batch_id)))

        def plain(rows: DataFrame, batch_id: int) -> None:
            judged = line.judged(rows, batch_id)
            write(judged.where(~judged.failed).drop("failed"), batch_id)

        ours = foreach_batch(
            line.judged,
            write=write,
            group=f"bench-{number}",
            delay_level=WAIT_2_HOURS,
            check_source=False,
            namesrv_addr=self._namesrv_addr,
        )
        functions: dict[str, Write] = {"plain": plain, "ours": ours}
        sent_back_s: dict[int, float] = {}
        jobs: dict[int, int] = {}
        cpu: dict[int, float] = {}

        def batch(rows: DataFrame, batch_id: int) -> None:
            with timed_send_back(batch_id, sent_back_s):
                before, cpu_before_s = self._jobs(query), cpu_s(spark_pids(self._spark))
                functions[ways[batch_id % len(ways)]](rows, batch_id)
                jobs[batch_id] = self._jobs(query) - before
                cpu[batch_id] = cpu_s(spark_pids(self._spark)) - cpu_before_s

        source = self._spark.readStream.format("rocketmq").option("namesrvAddr", self._namesrv_addr)
        source = source.option("topic", topic_of(line.body_bytes)).option("startingOffsets", "earliest")
        rows = source.option("maxOffsetsPerTrigger", str(ROWS_A_BATCH[line.body_bytes])).load()
        sink = rows.writeStream.foreachBatch(batch).trigger(availableNow=True)
        query = sink.option("checkpointLocation", str(self._scratch / f"checkpoint-{number}")).start()
        query.awaitTermination()
        seen: dict[str, list[Batch]] = {way: [] for way in ways}
        for event in query.recentProgress:
            if event["numInputRows"]:
                at = event["batchId"]
                took_s = event["durationMs"]["triggerExecution"] / 1000
                seen[ways[at % len(ways)]].append(Batch(took_s, cpu[at], sent_back_s.get(at, 0.0), jobs[at]))
        return seen

    def _jobs(self, query: Any) -> int:
        return len(self._spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))


@contextmanager
def timed_send_back(batch_id: int, seconds: dict[int, float]) -> Iterator[None]:
    real = RowRetry._send_back

    def timed(*args: Any) -> None:
        began_s = time.perf_counter()
        real(*args)
        seconds[batch_id] = time.perf_counter() - began_s

    RowRetry._send_back = timed  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        RowRetry._send_back = real  # type: ignore[method-assign]


def topic_of(body_bytes: int) -> str:
    return f"rows-{body_bytes}"


def warm(bench: Bench, lines: list[Line], times_before: int, console: Console) -> dict[str, Any]:
    table = figures_table(
        "a warm batch",
        ("body", "judge", "bad rows"),
        "plain s",
        "rows/s",
        "ours s",
        "rows/s",
        "ratio",
        "of CPU",
        "sent back s",
        "jobs",
    )
    figures: dict[str, Any] = {}
    with console.status("warm-up"):
        for _ in range(times_before):
            bench.run(lines[0], ["plain", "ours"])
    for line in lines:
        with console.status(line.name):
            seen = bench.run(line, ["plain", "ours"])
        kept = {way: batches[1:] for way, batches in seen.items()}
        plain, ours = ([batch.seconds for batch in kept[way]] for way in ("plain", "ours"))
        medians = statistics.median(plain), statistics.median(ours)
        rows = ROWS_A_BATCH[line.body_bytes]
        back = statistics.median(batch.sent_back_s for batch in kept["ours"])
        jobs = max(batch.jobs for batch in kept["ours"])
        used = [statistics.median(batch.cpu_s for batch in kept[way]) for way in ("plain", "ours")]
        verdict = f"{at_most(medians[1] / medians[0], GOAL)} ({min(ours) / min(plain):.2f})"
        rates = [f"{rows / median:,.0f}" for median in medians]
        shown = (
            f"{medians[0]:.2f}",
            rates[0],
            f"{medians[1]:.2f}",
            rates[1],
            verdict,
            f"{used[1] / used[0]:.2f}",
            f"{back:.2f}",
            str(jobs),
        )
        table.add_row(f"{line.body_bytes:,}", line.judge, line.bad, *shown)
        console.print(f"[dim]{line.name}: {', '.join(shown)}[/dim]", highlight=False)
        figures[line.name] = {
            "plain_s": plain,
            "ours_s": ours,
            "cpu_s": used,
            "sent_back_s": back,
            "jobs": jobs,
        }
    console.print(table)
    return figures


def first_batches(namesrv_addr: str, rounds: int, console: Console) -> dict[str, list[float]]:
    """Each in a process of its own."""
    took_s: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(rounds):
        for way, seen in took_s.items():
            command = [sys.executable, __file__, "--first-batch", way, namesrv_addr]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seen.append(float(done.stdout.split()[-1]))
    plain, ours = (statistics.median(seen) for seen in took_s.values())
    verdict = at_most(ours - plain, FIRST_BATCH_GOAL_S).replace("x", " s")
    console.print(f"first batch: plain {plain:.2f} s, ours {ours:.2f} s, longer by {verdict}", highlight=False)
    return took_s


def first_batch(way: str, namesrv_addr: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-retry-") as scratch:
        bench = Bench(bench_session("", Path(scratch), _PATHS), namesrv_addr, Path(scratch))
        bench._spark.range(10).count()
        print(bench.run(Line(100, "cast", "2.5 %"), [way])[way][0].seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", metavar="TEXT", help="lines with this in their name, such as '100/cast/0 %%'; no first batch"
    )
    parser.add_argument("--rounds", type=int, default=5, help="batches of each way that count")
    parser.add_argument(
        "--warm-up", type=int, default=2, metavar="N", help="how often the first line runs before it counts"
    )
    parser.add_argument("--first", action="store_true", help="the first batch alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--first-batch", nargs=2, metavar=("WAY", "NAMESRV"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.first_batch:
        first_batch(*args.first_batch)
        return
    unwind_on_sigterm()
    lines = [Line(size, judge, bad) for size in ROWS_A_BATCH for judge in JUDGES for bad in BAD_SHARES]
    if args.only:
        lines = [line for line in lines if args.only in line.name]
    if args.first:
        lines = [Line(100, "cast", "2.5 %")]
    console = new_console(150)
    with SprocketServer() as server, tempfile.TemporaryDirectory(prefix="bench-retry-") as scratch:
        bench = Bench(bench_session("", Path(scratch), _PATHS), server.namesrv_addr, Path(scratch))
        for size in sorted({line.body_bytes for line in lines}):
            server.create_topic(topic_of(size), QUEUES)
            bench.fill(size, (args.rounds + 1) * 2 * ROWS_A_BATCH[size])
        figures = {} if args.first else {"warm": warm(bench, lines, args.warm_up, console)}
        if args.first or not args.only:
            figures["first"] = first_batches(server.namesrv_addr, 3, console)
        bench._spark.stop()
    write_figures(args.json, figures)


if __name__ == "__main__":
    main()

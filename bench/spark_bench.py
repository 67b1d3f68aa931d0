"""Our Spark source and sink beside Spark's Kafka connector: `python bench/spark_bench.py [--quick] [--rounds N] [--json FILE]`.

One Spark session (local, two cores), one broker of each kind with eight queues, the same rows in both; the ways take turns, the median of
the rounds counts. What is read is the same information on both sides: body, key, topic, queue, offset, time, and four properties (Kafka:
headers). The ceiling is a Python source that gives out Arrow batches which are there already: nothing that Spark reads by Python is faster.

    default   Spark's Kafka connector as it comes
    tuned     larger fetches and polls for reading; linger.ms=20 and batches of 128 KB for writing

A ratio above 1 is ours being better; behind it stands what we promise ourselves, and whether it is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
_PATHS: Final = [str(ROOT / "tests"), str(ROOT / "bench")]
sys.path[:0] = _PATHS

from interop.sprocket_server import SprocketServer  # noqa: E402
from ratios import at_least, at_most  # noqa: E402
from spark_peers import CeilingSource, KafkaBroker, PeersUnavailable, kafka_connector_jars  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, DEFAULT, TUNED, CEILING = "SprocketMQ", "Kafka default", "Kafka tuned", "ceiling"
QUEUES: Final = 8
SMALL, LARGE = "bench-100", "bench-1k"
# What Kafka's rows hold, by our names.
COLUMNS: Final = "topic,queueId,queueOffset,keys,body,properties,storeTimestamp"
TUNED_READ: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.fetch.min.bytes": str(1 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
}
TUNED_WRITE: Final = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
FEW_ROWS: Final = 1_000
FEW_ROWS_LIMIT_MS: Final = 50
MANY_QUEUES, MANY_QUEUES_GOAL = 64, 1.3
FLAT_GOAL: Final = 1.2


class Work(NamedTuple):
    """One line of the table: what is done, with how many rows of how many bytes, and what is promised against each way."""

    name: str
    kind: str  # read, parquet, stream or write
    topic: str
    goals: dict[str, float]


WORKS: Final = (
    Work("batch read -> noop, 100 B", "read", SMALL, {DEFAULT: 3.0, TUNED: 1.5, CEILING: 0.6}),
    Work("batch read -> noop, 1 KB", "read", LARGE, {DEFAULT: 2.5, TUNED: 1.1, CEILING: 0.7}),
    Work("batch read -> Parquet, 100 B", "parquet", SMALL, {DEFAULT: 1.5, TUNED: 1.1}),
    Work("batch read -> Parquet, 1 KB", "parquet", LARGE, {DEFAULT: 1.5, TUNED: 1.1}),
    Work("AvailableNow, 200,000 rows a batch, 100 B", "stream", SMALL, {DEFAULT: 1.5, TUNED: 1.0}),
    Work("AvailableNow, 200,000 rows a batch, 1 KB", "stream", LARGE, {DEFAULT: 1.5, TUNED: 1.0}),
    Work("batch write, 1 KB", "write", LARGE, {DEFAULT: 0.8}),
)
BODY_BYTES: Final = {SMALL: 100, LARGE: 1024}
ROWS: Final = {SMALL: 2_000_000, LARGE: 500_000}


class Bench:
    """The session, both brokers, and one way of each kind to do each work.

    Args:
        kafka: its address, None where it cannot be had.
        scale: of all row counts.
    """

    def __init__(self, spark: SparkSession, server: SprocketServer, kafka: str | None, scale: float) -> None:
        self.spark, self.server, self.kafka, self.scale = spark, server, kafka, scale
        self.scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
        self._numbers = iter(range(1_000_000))

    @property
    def ways(self) -> list[str]:
        return [OURS, DEFAULT, TUNED] if self.kafka else [OURS]

    def rows(self, topic: str) -> int:
        return int(ROWS[topic] * self.scale)

    # -- rows ----------------------------------------------------------------------------------------------------------------------

    def made_rows(self, topic: str, rows: int) -> DataFrame:
        """Rows that both sinks can be given: id, body, properties as a map."""
        from pyspark.sql import functions as f

        number = f.col("id").cast("string")
        return self.spark.range(0, rows, 1, QUEUES).select(
            f.rpad(number, BODY_BYTES[topic], "x").cast("binary").alias("body"),
            f.concat(f.lit("N"), number).alias("key"),
            *(f.lit(text).alias(name) for name, text in (("carrier", "UA"), ("origin", "EWR"), ("year", "2013"))),
        )

    def fill(self, topic: str, rows: int) -> None:
        """The same rows to both brokers."""
        self.server.create_topic(topic, QUEUES)
        self.write(OURS, topic, rows)
        if self.kafka:
            self.write(TUNED, topic, rows)

    def write(self, way: str, topic: str, rows: int) -> None:
        from pyspark.sql import functions as f

        made = self.made_rows(topic, rows)
        names = ("carrier", "origin", "year")
        if way == OURS:
            pairs = [part for name in names for part in (f.lit(name), f.col(name))]
            ready = made.select("body", f.col("key").alias("keys"), f.create_map(*pairs).alias("properties"))
            writer = ready.write.format("rocketmq").option("namesrvAddr", self.server.namesrv_addr)
        else:
            headers = [f.struct(f.lit(name).alias("key"), f.col(name).cast("binary").alias("value")) for name in names]
            ready = made.select(
                f.col("body").alias("value"), f.col("key").cast("binary"), f.array(*headers).alias("headers")
            )
            writer = ready.write.format("kafka").option("kafka.bootstrap.servers", str(self.kafka))
            writer = writer.option("includeHeaders", "true")
            if way == TUNED:
                writer = writer.options(**TUNED_WRITE)
        writer.option("topic", topic).mode("append").save()

    def source(self, reader: Any, way: str, topic: str, rows: int) -> Any:
        """``spark.read`` or ``spark.readStream`` of one way."""
        if way == OURS:
            options = {"namesrvAddr": self.server.namesrv_addr, "topic": topic, "columns": COLUMNS}
            return reader.format("rocketmq").options(**options)
        if way == CEILING:
            options = {"rows": str(rows), "bodyBytes": str(BODY_BYTES[topic]), "tasks": str(QUEUES), "columns": COLUMNS}
            return reader.format(CeilingSource.name()).options(**options)
        options = {"kafka.bootstrap.servers": str(self.kafka), "subscribe": topic, "includeHeaders": "true"}
        return reader.format("kafka").options(**options, **(TUNED_READ if way == TUNED else {}))

    # -- works ---------------------------------------------------------------------------------------------------------------------

    def do(self, work: Work, way: str) -> float:
        """Rows per second of one run."""
        rows = self.rows(work.topic)
        if work.kind == "write":
            topic = f"write-{next(self._numbers)}"
            if way == OURS:
                self.server.create_topic(topic, QUEUES)
            run: Callable[[], object] = lambda: self._write_to(way, work.topic, topic, rows)  # noqa: E731
        elif work.kind == "stream":
            run = lambda: self.stream(way, work.topic, 200_000)  # noqa: E731
        else:
            frame = self.source(self.spark.read, way, work.topic, rows).load()
            if work.kind == "read":
                run = lambda: frame.write.format("noop").mode("overwrite").save()  # noqa: E731
            else:
                target = self.scratch / f"parquet-{next(self._numbers)}"
                run = lambda: frame.write.parquet(str(target))  # noqa: E731
        begin_s = time.perf_counter()
        run()
        return rows / (time.perf_counter() - begin_s)

    def _write_to(self, way: str, like: str, topic: str, rows: int) -> None:
        BODY_BYTES.setdefault(topic, BODY_BYTES[like])
        self.write(way, topic, rows)

    def stream(self, way: str, topic: str, rows_a_batch: int) -> list[int]:
        """All of a topic by AvailableNow into nothing; milliseconds of each batch."""
        reader = self.source(self.spark.readStream, way, topic, 0).option("startingOffsets", "earliest")
        query = (
            reader.option("maxOffsetsPerTrigger", str(rows_a_batch))
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.scratch / f"checkpoint-{next(self._numbers)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [
            progress["durationMs"]["triggerExecution"] for progress in query.recentProgress if progress["numInputRows"]
        ]

    def small_batch_ms(self, way: str, topic: str) -> float:
        """Median of the micro-batches of FEW_ROWS, the first five left out."""
        return statistics.median(self.stream(way, topic, FEW_ROWS)[5:])

    def read_s(self, topic: str) -> float:
        frame = self.source(self.spark.read, OURS, topic, 0).load()
        begin_s = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin_s


# -- the tables ------------------------------------------------------------------------------------------------------------------


def side_by_side(bench: Bench, works: list[Work], rounds: int, console: Console) -> dict[str, dict[str, float]]:
    """Result: work -> way -> rows/s, median of the rounds; each printed when it is known."""
    table = Table("work", "way", title="median of the rounds; ratios above 1 are ours being better")
    table.add_column("rows/s", justify="right")
    table.add_column("ratio", justify="right")
    results: dict[str, dict[str, float]] = {}
    for work in works:
        ways = [*bench.ways, *([CEILING] if CEILING in work.goals else [])]
        seen: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds + 1):
            for way in ways if number % 2 == 0 else reversed(ways):
                speed = bench.do(work, way)
                if number:  # the first round warms both up: classes, connections, page cache
                    seen[way].append(speed)
        results[work.name] = medians = {way: statistics.median(speeds) for way, speeds in seen.items()}
        for way, speed in medians.items():
            verdict = "" if way == OURS else at_least(medians[OURS] / speed, work.goals.get(way, 0))
            table.add_row(work.name if way == OURS else "", way, f"{speed:,.0f}", verdict)
        table.add_section()
        console.print(f"measured: {work.name}")
    console.print(table)
    return results


def own_rows(bench: Bench, rounds: int, console: Console) -> dict[str, float]:
    """Small batches beside Kafka's, many queues, memory: each printed beside its goal."""
    table = Table("what", "less", "more", "verdict", title="small batches, many queues, memory")
    found: dict[str, float] = {}
    few = "bench-few"
    BODY_BYTES[few] = 100
    bench.fill(few, 40 * FEW_ROWS)
    medians = {way: min(bench.small_batch_ms(way, few) for _ in range(rounds)) for way in bench.ways}
    if bench.kafka:
        more_ms = medians[OURS] - medians[DEFAULT]
        found["micro-batch of 1,000 rows, ms more than Kafka"] = more_ms
        kept = "[green]ok[/green]" if more_ms <= FEW_ROWS_LIMIT_MS else "[red]missed[/red]"
        verdict = f"{more_ms:+.0f} ms of at most +{FEW_ROWS_LIMIT_MS} {kept}"
        table.add_row(
            "micro-batch of 1,000 rows, ms: Kafka's, ours", f"{medians[DEFAULT]:.0f}", f"{medians[OURS]:.0f}", verdict
        )
    for topic, queues in (("bench-one-queue", 1), ("bench-many-queues", MANY_QUEUES)):
        BODY_BYTES[topic] = 100
        bench.server.create_topic(topic, queues)
        bench.write(OURS, topic, MANY_QUEUES)
        bench.read_s(topic)
    one_s, many_s = (
        statistics.median(bench.read_s(topic) for _ in range(2 * rounds + 1))
        for topic in ("bench-one-queue", "bench-many-queues")
    )
    ratio = found["64 queues against one"] = many_s / one_s
    table.add_row(
        "64 rows, ms: in one queue, in 64",
        f"{one_s * 1000:.0f}",
        f"{many_s * 1000:.0f}",
        at_most(ratio, MANY_QUEUES_GOAL),
    )
    quarter, whole = memory_of_tasks(bench)
    ratio = found["memory of a reading task, whole range against a quarter"] = whole / quarter
    table.add_row(
        "largest Python worker, MB: a quarter of the range, all of it",
        f"{quarter:.0f}",
        f"{whole:.0f}",
        at_most(ratio, FLAT_GOAL),
    )
    console.print(table)
    return found


def memory_of_tasks(bench: Bench) -> tuple[float, float]:
    """Peak memory in MB of the largest Python worker: after a read of a quarter of the large topic by one task, and after all of it."""
    seen = []
    for share in (4, 1):
        topic = f"bench-memory-{share}"
        BODY_BYTES[topic] = BODY_BYTES[LARGE]
        bench.server.create_topic(topic, 1)
        bench.write(OURS, topic, bench.rows(LARGE) // share)
        bench.read_s(topic)
        seen.append(max(worker_peaks_mb(), default=0.0))
    return seen[0], seen[1]


def worker_peaks_mb() -> Iterator[float]:
    """VmHWM of Spark's Python workers; Linux."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" in status.with_name("cmdline").read_bytes():
                for line in status.read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        yield int(line.split()[1]) / 1024


# -- around it -------------------------------------------------------------------------------------------------------------------


def spark_session(jars: str, scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([*_PATHS, os.environ.get("PYTHONPATH", "")])
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark_bench")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.local.dir", str(scratch))
        .config("spark.log.level", "ERROR")
    )
    session = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
    session.dataSource.register(CeilingSource)
    return session


@contextlib.contextmanager
def kafka_or_none(console: Console) -> Iterator[tuple[str | None, str]]:
    """A running Kafka's address and the connector's jars; None and nothing where they cannot be had."""
    with contextlib.ExitStack() as stack:
        try:
            jars = kafka_connector_jars()
            broker = stack.enter_context(KafkaBroker())
        except (PeersUnavailable, TimeoutError) as reason:
            console.print(f"without Kafka: {reason}")
            yield None, ""
        else:
            yield broker.bootstrap_servers, jars


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our Spark source and sink beside Spark's Kafka connector.")
    parser.add_argument(
        "--quick", action="store_true", help="one round of a twentieth of the rows: a look, not a result"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds per line, default 3, after one that does not count"
    )
    parser.add_argument("--works", default="", help="only lines with this text in their name")
    parser.add_argument("--no-own", action="store_true", help="without small batches, many queues and memory")
    parser.add_argument("--no-kafka", action="store_true", help="ours and the ceiling alone")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    console = Console(width=None if sys.stdout.isatty() else 160)
    rounds, scale = (1, 0.05) if options.quick else (options.rounds, 1.0)
    works = [work for work in WORKS if options.works in work.name]
    figures: dict[str, Any] = {}
    scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    no_kafka = contextlib.nullcontext((None, ""))
    with no_kafka if options.no_kafka else kafka_or_none(console) as (kafka, jars), SprocketServer() as server:
        spark = spark_session(jars, scratch)
        bench = Bench(spark, server, kafka, scale)
        try:
            for topic in {work.topic: None for work in works if work.kind != "write"}:
                bench.fill(topic, bench.rows(topic))
            figures["rows per second"] = side_by_side(bench, works, rounds, console)
            if not options.no_own:
                figures["own"] = own_rows(bench, rounds, console)
        finally:
            spark.stop()
            shutil.rmtree(bench.scratch, ignore_errors=True)
            shutil.rmtree(scratch, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

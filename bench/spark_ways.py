# SPDX-License-Identifier: Apache-2.0
"""The tasks of spark_bench.py and the ways to do them: our source and sink, Spark's Kafka connector with its defaults and tuned, the
ceiling.

    default   Spark's Kafka connector with its defaults
    tuned     larger fetches and polls for reading; linger.ms=20 and batches of 128 KB for writing
    ceiling   a Python source that returns finished Arrow batches: the fastest possible Python source

All ways see the same rows: a body, a key, and three properties of the user's (Kafka: headers). RocketMQ keeps the key and its own unique
key among the properties, so our map, and the ceiling's, has five. The ceiling returns the first rows of our topic again and again.

Rows that are drawn at random have bodies of up to twice the size, keys on two of three, and up to four properties out of 20.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ready_source import ReadySource
from spark_cpu import cpu_s, proc_lines, spark_pids
from spark_peers import KafkaBroker
from spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from interop.sprocket_server import SprocketServer

OURS, DEFAULT, TUNED, CEILING = "SprocketMQ", "Kafka default", "Kafka tuned", "ceiling"
QUEUES: Final = 8
# The columns of Kafka's rows, by our names.
COLUMNS: Final = "topic,queueId,queueOffset,keys,body,properties,storeTimestamp"
TUNED_READ: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.fetch.min.bytes": str(1 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
}
TUNED_WRITE: Final = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}
# Filling it may take longer than the 120 s of Kafka's default on a disk that is busy: then there would be no figures at all.
PATIENT_WRITE: Final = {"kafka.delivery.timeout.ms": "600000"}
PROPERTIES: Final = {"carrier": "UA", "origin": "EWR", "year": "2013"}
READY_BYTES: Final = 8 << 20  # where spark.read.reader closes a batch


class Topic(NamedTuple):
    """A topic and its contents. ``seed``: its rows are drawn at random; None: all have the same form."""

    name: str
    rows: int
    body_bytes: int
    queues: int = QUEUES
    seed: int | None = None


SMALL: Final = Topic("bench-100", 2_000_000, 100)
LARGE: Final = Topic("bench-1k", 500_000, 1024)


class Run(NamedTuple):
    """The result of one run: rows per second, and CPU in us per row of the broker and of Spark with its Python workers."""

    rows_per_s: float
    broker_us: float
    spark_us: float


class Ways:
    """The session and both brokers.

    Args: kafka: None if it is not available.
    """

    def __init__(self, spark: SparkSession, server: SprocketServer, kafka: KafkaBroker | None) -> None:
        self.spark, self._server, self.kafka = spark, server, kafka
        self.scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
        self._numbers = iter(range(1_000_000))
        self._filled: set[str] = set()
        # (way, topic) -> milliseconds of each full batch of its streams.
        self.batches_ms: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    @property
    def names(self) -> list[str]:
        return [OURS, DEFAULT, TUNED] if self.kafka else [OURS]

    # -- rows in -------------------------------------------------------------------------------------------------------------------

    def fill(self, topic: Topic) -> None:
        """Send the same rows to both brokers, once."""
        if topic.name in self._filled:
            return
        self._filled.add(topic.name)
        self.create(topic)
        self.write(OURS, topic)
        if self.kafka:
            self.write(TUNED, topic)

    def create(self, topic: Topic) -> None:
        """Create the topic at both brokers, with the same number of queues; Kafka alone would give each topic the same."""
        self._server.create_topic(topic.name, topic.queues)
        if self.kafka and self.spark._jvm is not None:
            java, of_kafka = self.spark._jvm.java.util, self.spark._jvm.org.apache.kafka.clients.admin
            settings = java.Properties()
            settings.setProperty("bootstrap.servers", self._bootstrap_servers)
            admin = of_kafka.Admin.create(settings)
            try:
                new = of_kafka.NewTopic(topic.name, java.Optional.of(topic.queues), java.Optional.empty())
                admin.createTopics(java.List.of(new)).all().get()
            finally:
                admin.close()

    def write(self, way: str, topic: Topic) -> None:
        """Write generated rows, with every send acknowledged."""
        from pyspark.sql import functions as f

        made = self._made_rows(topic)
        if way == OURS:
            ready = made.select(
                "body", f.col("key").alias("keys"), f.map_from_entries("properties").alias("properties")
            )
            writer = ready.write.format("rocketmq").option("namesrvAddr", self._server.namesrv_addr)
        else:
            headers = f.transform(
                "properties", lambda pair: f.struct(pair.key.alias("key"), pair.value.cast("binary").alias("value"))
            )
            ready = made.select(f.col("body").alias("value"), f.col("key").cast("binary"), headers.alias("headers"))
            writer = ready.write.format("kafka").option("kafka.bootstrap.servers", self._bootstrap_servers)
            tuned = TUNED_WRITE if way == TUNED else {}
            writer = writer.option("includeHeaders", "true").options(**PATIENT_WRITE, **tuned)
        writer.option("topic", topic.name).mode("append").save()

    def _made_rows(self, topic: Topic) -> DataFrame:
        """Rows for both sinks: a body, a key, and properties as an array of pairs."""
        from pyspark.sql import functions as f

        number = f.col("id").cast("string")
        size, key = f.lit(topic.body_bytes), f.concat(f.lit("N"), number)
        pairs = [(f.lit(name), f.lit(text)) for name, text in PROPERTIES.items()]
        if topic.seed is not None:
            seeds = map(f.lit, range(topic.seed, topic.seed + 100))

            def draw(sides: int) -> Any:
                """A number below ``sides``, by the row's number."""
                return f.pmod(f.xxhash64(next(seeds), "id"), f.lit(sides)).cast("int")

            size, key = draw(2 * topic.body_bytes - 1) + 1, f.when(draw(3) > 0, key)
            pairs = [
                (f.concat(f.lit(f"property-{column}-"), draw(5)), f.when(draw(2) > 0, f.hex(draw(1 << 31))))
                for column in range(4)
            ]
        properties = f.array(*(f.struct(name.alias("key"), value.alias("value")) for name, value in pairs))
        return self.spark.range(0, topic.rows, 1, os.cpu_count()).select(
            f.rpad(number, size, f.lit("x")).cast("binary").alias("body"),
            key.alias("key"),
            f.filter(properties, lambda pair: pair.value.isNotNull()).alias("properties"),
        )

    # -- rows out ------------------------------------------------------------------------------------------------------------------

    def source(self, reader: Any, way: str, topic: Topic) -> Any:
        """``spark.read`` or ``spark.readStream`` of one way."""
        if way == OURS:
            options = {"namesrvAddr": self._server.namesrv_addr, "topic": topic.name, "columns": COLUMNS}
            return reader.format("rocketmq").options(**options)
        if way == CEILING:
            options = {"path": str(self._ready(topic)), "rows": str(topic.rows), "columns": COLUMNS}
            return reader.format(ReadySource.name()).options(**options, tasks=str(os.cpu_count()))
        options = {"kafka.bootstrap.servers": self._bootstrap_servers, "subscribe": topic.name}
        reader = reader.format("kafka").options(**options).option("includeHeaders", "true")
        return reader.options(**TUNED_READ) if way == TUNED else reader

    def _ready(self, topic: Topic) -> Path:
        """A file with the first rows of a topic, as one batch."""
        path = self.scratch / f"{topic.name}.arrow"
        if not path.exists():
            rows = self.source(self.spark.read, OURS, topic).load().limit(READY_BYTES // (topic.body_bytes + 200))
            (batch,) = rows.toArrow().combine_chunks().to_batches()
            with pa.ipc.new_file(path, batch.schema) as writer:
                writer.write(batch)
        return path

    def read(self, way: str, topic: Topic, **options: str) -> None:
        """Read all rows of a topic without writing them."""
        frame = self.source(self.spark.read, way, topic).options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    def to_parquet(self, way: str, topic: Topic) -> None:
        target = self.scratch / f"parquet-{next(self._numbers)}"
        self.source(self.spark.read, way, topic).load().write.parquet(str(target))

    def stream(self, way: str, topic: Topic, rows_a_batch: int) -> list[int]:
        """Stream a whole topic with AvailableNow without writing it; returns milliseconds of each batch."""
        reader = self.source(self.spark.readStream, way, topic).option("startingOffsets", "earliest")
        query = (
            reader.option("maxOffsetsPerTrigger", str(rows_a_batch))
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.scratch / f"checkpoint-{next(self._numbers)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        events = [event for event in query.recentProgress if event["numInputRows"]]
        took_ms = [event["durationMs"]["triggerExecution"] for event in events]
        # Limits are divided among queues and rounded, so a full batch may lack some rows.
        full = [ms for event, ms in zip(events, took_ms, strict=True) if event["numInputRows"] > 0.9 * rows_a_batch]
        self.batches_ms[way, topic.name] += full
        return took_ms

    def fresh(self, topic: Topic) -> Topic:
        """A new, empty topic of the same kind."""
        fresh = topic._replace(name=f"{topic.name}-{next(self._numbers)}")
        self.create(fresh)
        return fresh

    # -- figures -------------------------------------------------------------------------------------------------------------------

    def timed(self, way: str, rows: int, work: Callable[[], object]) -> Run:
        """Run it once."""
        broker = [self._server.broker_pid] if way == OURS else [self.kafka.pid] if self.kafka and way != CEILING else []
        before = cpu_s(broker), cpu_s(spark_pids(self.spark))
        begin_s = time.perf_counter()
        work()
        took_s = time.perf_counter() - begin_s
        broker_s, spark_s = cpu_s(broker) - before[0], cpu_s(spark_pids(self.spark)) - before[1]
        return Run(rows / took_s, broker_s / rows * 1e6, spark_s / rows * 1e6)

    def worker_peaks_mb(self) -> list[float]:
        """The peak memory of each Python worker since ``forget_peaks``; Linux."""
        return [
            int(line.split()[1]) / 1024
            for pid in spark_pids(self.spark)[1:]
            for line in proc_lines(pid, "status")
            if line.startswith("VmHWM:")
        ]

    def forget_peaks(self) -> None:
        for pid in spark_pids(self.spark)[1:]:
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    @property
    def _bootstrap_servers(self) -> str:
        assert self.kafka is not None
        return self.kafka.bootstrap_servers


def bench_session(jars: str, scratch: Path, paths: list[str]) -> SparkSession:
    """Local, two cores."""
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    settings = {
        "spark.driver.memory": "2g",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.local.dir": str(scratch),
        **({"spark.jars": jars} if jars else {}),
    }
    session = spark_session("spark_bench", str(scratch / "warehouse"), settings=settings)
    session.dataSource.register(ReadySource)
    return session

# SPDX-License-Identifier: Apache-2.0
"""The second table of shapes_bench.py: the same messages, stored at a broker of ours and read completely by two Spark tasks, without
writing them.

Each shape has its own server, which is filled before it starts, and is read in turns with the uniform shape in the same session. The
*ceiling* of a shape is a Python source that returns the same finished columns. Its ratio to the uniform shape's ceiling is Spark's own
part, which takes longer to convert rows with more properties.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from interop.sprocket_server import SprocketServer
from producer_shapes import QUEUES, RETRY_GROUP, Shape, pull_bodies, stored_messages
from ready_source import ReadySource
from spark_cpu import cpu_s, spark_pids
from spark_session import spark_session
from sprocketmq.spark.columns.decode import BatchDecoder
from sprocketmq.store import DiskMessageStore, StoreConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS: Final = 2
# The number of different messages; the topic repeats them.
DRAWN: Final = 20_000
CEILING_BYTES: Final = 8 * 1024 * 1024
MOST_TOPIC_CHARACTERS: Final = 127
LARGE_STORE: Final = StoreConfig(max_message_size=1 << 22)


class ReadSpeed(NamedTuple):
    """The speed of one shape, relative to the uniform one.

    Attributes:
        of_cpu: rows for the same processor time of broker, JVM and Python, which other work on the machine disturbs less.
        of_ceiling: the same for the ceiling, relative to the uniform shape's ceiling.
    """

    rows_per_s: float
    of_rows: float
    of_bytes: float
    of_cpu: float
    of_ceiling: float


class _Took(NamedTuple):
    wall_s: float
    cpu_s: float


class _Topic(NamedTuple):
    server: SprocketServer
    options: dict[str, str]
    rows: int
    record_bytes: float
    ready: Path  # its columns, for the ceiling


class ShapeReads:
    """The session, the server of the uniform shape, and one at a time for each other shape.

    Args:
        rows: messages of each topic.
        paths: folders that Spark's Python processes import from.
    """

    def __init__(self, uniform: Shape, rows: int, seed: int, rounds: int, paths: Sequence[str]) -> None:
        self._rows, self._seed, self._rounds = rows, seed, rounds
        self._stack = contextlib.ExitStack()
        self._scratch = Path(tempfile.mkdtemp(prefix="bench-shapes-"))
        self._stack.callback(shutil.rmtree, self._scratch, ignore_errors=True)
        self._spark = self._session(paths)
        self._uniform = self._stack.enter_context(self._stored(uniform))
        for _ in range(2):  # warms up classes, connections, the page cache
            self._read(self._uniform)
            self._read_ready(self._uniform)

    def __enter__(self) -> ShapeReads:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @staticmethod
    def why_not(shape: Shape) -> str:
        """Why a broker of ours cannot store these messages; empty if it can."""
        return "no topic has so long a name" if len(shape.topic) > MOST_TOPIC_CHARACTERS else ""

    def measure(self, shape: Shape) -> ReadSpeed:
        """Measure ``shape`` and the uniform one in turns; the result is the median of the rounds' ratios."""
        uniform = self._uniform
        with self._stored(shape) as topic:
            self._read(topic)
            rounds = [(self._read(uniform), self._read(topic)) for _ in range(self._rounds)]
            ceilings = [(self._read_ready(uniform), self._read_ready(topic)) for _ in range(self._rounds)]
        more = topic.rows / uniform.rows
        of_rows = more * statistics.median(other.wall_s / own.wall_s for other, own in rounds)
        return ReadSpeed(
            rows_per_s=statistics.median(topic.rows / own.wall_s for _, own in rounds),
            of_rows=of_rows,
            of_bytes=of_rows * topic.record_bytes / uniform.record_bytes,
            of_cpu=more * statistics.median(other.cpu_s / own.cpu_s for other, own in rounds),
            of_ceiling=more * statistics.median(other.cpu_s / own.cpu_s for other, own in ceilings),
        )

    # -- topics --------------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _stored(self, shape: Shape) -> Iterator[_Topic]:
        folder = Path(tempfile.mkdtemp(prefix="store-", dir=self._scratch))
        size_bytes = _fill(folder, shape, self._rows, self._seed)
        with SprocketServer(folder) as server:
            options = {"namesrvAddr": server.namesrv_addr, "topic": shape.topic}
            if shape.topic.startswith("%RETRY%"):
                server.create_topic("no-others", 1)
                options |= {"topic": "no-others", "group": RETRY_GROUP, "includeRetry": "true"}
                server.create_group(RETRY_GROUP)
            else:
                server.create_topic(shape.topic, QUEUES)
            ready = folder / "ready.arrow"
            self._write_ready(shape, ready)
            rows = self._frame(options).count()
            yield _Topic(server, options, rows, size_bytes / rows, ready)
        shutil.rmtree(folder)

    def _write_ready(self, shape: Shape, path: Path) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        from sprocketmq.spark.source import message_schema

        decoder = BatchDecoder(to_arrow_schema(message_schema(), timezone="UTC"))
        batches = list(decoder.decode(pull_bodies(shape, random.Random(self._seed), CEILING_BYTES)))
        with pa.ipc.new_file(path, batches[0].schema) as writer:
            for batch in batches:
                writer.write(batch)

    # -- reads ---------------------------------------------------------------------------------------------------------------------

    def _frame(self, options: dict[str, str]) -> Any:
        return self._spark.read.format("rocketmq").options(**options, maxPartitions=str(TASKS)).load()

    def _read(self, topic: _Topic) -> _Took:
        return self._into_nothing(self._frame(topic.options), topic.server.broker_pid)

    def _read_ready(self, topic: _Topic) -> _Took:
        source = self._spark.read.format(ReadySource.name())
        return self._into_nothing(source.options(path=str(topic.ready), rows=str(topic.rows), tasks=str(TASKS)).load())

    def _into_nothing(self, frame: Any, *others: int) -> _Took:
        """The time, and the CPU time of Spark's processes and of ``others``."""
        before_s, begin_s = cpu_s([*spark_pids(self._spark), *others]), time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        wall_s = time.perf_counter() - begin_s
        return _Took(wall_s, cpu_s([*spark_pids(self._spark), *others]) - before_s)

    def _session(self, paths: Sequence[str]) -> SparkSession:
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
        settings = {"spark.driver.memory": "2g", "spark.local.dir": str(self._scratch)}
        session = spark_session("shapes_bench", str(self._scratch / "warehouse"), settings=settings)
        self._stack.callback(session.stop)
        session.dataSource.register(ReadySource)
        return session


def _fill(folder: Path, shape: Shape, rows: int, seed: int) -> int:
    """Store messages of ``shape`` as a broker stores them; returns the bytes of their records."""
    drawn = list(islice(stored_messages(shape, random.Random(seed)), min(rows, DRAWN)))
    store = DiskMessageStore(str(folder), LARGE_STORE)
    store.load()
    size_bytes, now_ms = 0, int(time.time() * 1000)
    try:
        for message in islice(cycle(drawn), rows):
            size_bytes += store.append(message, now_ms).size
        while store.dispatch(10_000):
            pass
    finally:
        store.close()
    return size_bytes

# SPDX-License-Identifier: Apache-2.0
"""How long a message takes from its send to the driver's hands: `python bench/spark_latency.py [--sources 1,2,6] [--messages N]
[--unix-sockets]`.

One query with `processingTime` 0 reads one, two, six sources, each a topic of its own, and `foreachBatch` collects the rows; between two
messages the query is idle for a random time of up to a second. Printed: median and 95 % of the latency, and what the idle query costs in
processor time and in requests. Run it in two checkouts in turns to compare them (`--checkout`: whose source Spark's processes import).
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

import sprocketmq as rmq  # noqa: E402
from report import figures_table, new_console, write_figures  # noqa: E402
from spark_cpu import cpu_s, spark_pids  # noqa: E402
from spark_session import spark_session  # noqa: E402
from sprocketmq.testing import EmbeddedRocketMQ  # noqa: E402
from sprocketmq.wire.codes import RequestCode  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM_UP: Final = 8
IDLE_S: Final = 10.0
PATIENCE_S: Final = 60.0
ASKED: Final = (RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_CONSUME_STATS, RequestCode.PULL_MESSAGE)


class Arrivals:
    """When each body came."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._came_s: dict[bytes, float] = {}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        found = [bytes(row.body) for row in rows.select("body").collect()]
        now_s = time.perf_counter()
        with self._news:
            self._came_s.update(dict.fromkeys(found, now_s))
            self._news.notify_all()

    def wait(self, body: bytes) -> float:
        with self._news:
            if not self._news.wait_for(lambda: body in self._came_s, PATIENCE_S):
                raise TimeoutError(f"{body!r} did not come in {PATIENCE_S:.0f} s")
            return self._came_s[body]


def measured(
    spark: SparkSession, mq: EmbeddedRocketMQ, asked: Counter[int], sources: int, messages: int, scratch: Path
) -> dict[str, float]:
    topics = [f"latency-{sources}-{number}" for number in range(sources)]
    for topic in topics:
        mq.create_topic(topic, queues=4)
    frames = [
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=mq.namesrv_addr, topic=topic, group=topic)
        .option("startingOffsets", "earliest")
        .load()
        for topic in topics
    ]
    arrivals, took_ms = Arrivals(), []
    rows = reduce(lambda one, other: one.union(other), frames)
    query = (
        rows.writeStream.foreachBatch(arrivals)
        .trigger(processingTime="0 seconds")
        .option("checkpointLocation", str(scratch / f"checkpoint-{sources}"))
        .start()
    )
    draw = random.Random(1)
    try:
        with mq.producer() as producer:
            for number in range(WARM_UP + messages):
                body = b"%d" % number
                sent_s = time.perf_counter()
                producer.send(rmq.Message(draw.choice(topics), body))
                took_ms.append(1000 * (arrivals.wait(body) - sent_s))
                time.sleep(draw.random())
        pids, before = spark_pids(spark), dict(asked)
        cpu_before_s = cpu_s(pids)
        time.sleep(IDLE_S)
        idle_cpu_s = cpu_s(pids) - cpu_before_s
        requests = sum(asked.values()) - sum(before.values())
        parts = durations(query.recentProgress)
    finally:
        query.stop()
    took_ms = sorted(took_ms[WARM_UP:])
    return {
        "median ms": statistics.median(took_ms),
        "95 % ms": took_ms[int(0.95 * len(took_ms))],
        "idle CPU %": 100 * idle_cpu_s / IDLE_S,
        "idle requests/s": requests / IDLE_S,
        **parts,
    }


def durations(progress: list[Any]) -> dict[str, float]:
    """The medians of Spark's own parts of a batch with rows, in ms."""
    batches = [event["durationMs"] for event in progress if event["numInputRows"]][WARM_UP:]
    names = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets", "triggerExecution")
    return {name: statistics.median(batch.get(name, 0) for batch in batches) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description="The latency of messages through a Spark query.")
    parser.add_argument("--sources", default="1,2,6", help="numbers of sources, default 1,2,6")
    parser.add_argument("--messages", type=int, default=40, help="for each number of sources, default 40")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose source is measured, default this one's")
    parser.add_argument("--unix-sockets", action="store_true", help="between Spark's JVM and its Python processes")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(options.checkout / "src"), os.environ.get("PYTHONPATH", "")])
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-latency-") as scratch, EmbeddedRocketMQ(clock="system") as mq:
        asked: Counter[int] = Counter()

        def note(command: Any) -> bool:
            asked[command.code] += 1
            return False

        mq.faults.drop(ASKED, times=None, when=note)
        settings = {"spark.python.unix.domain.socket.enabled": str(options.unix_sockets).lower()}
        spark = spark_session("spark_latency", str(Path(scratch) / "warehouse"), settings=settings)
        try:
            for sources in map(int, options.sources.split(",")):
                figures[f"{sources}"] = measured(spark, mq, asked, sources, options.messages, Path(scratch))
        finally:
            spark.stop()
    columns = list(next(iter(figures.values())))
    table = figures_table("end to end; Spark's parts of a batch are medians in ms", ("sources",), *columns)
    for name, row in figures.items():
        table.add_row(name, *(f"{row[column]:,.1f}" for column in columns))
    new_console(160).print(table)
    write_figures(options.json, figures)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A stream from topic ``raw`` into topic ``flights``, exactly once, that is killed at a chosen point; run by test_exactly_once as a process
of its own, and imported by Spark's workers, which do the killing.

Points: ``halves`` (half messages are on their way), ``before-decision``, ``after-decision``, ``ends`` (some were told), ``after-ends``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import half_ends, half_messages, responder, transactional_write
from sprocketmq.spark.write.writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POINTS = ("halves", "before-decision", "after-decision", "ends", "after-ends")
_BATCH = 1
_AFTER = 7  # halves or ends that come through before


def stream(spark: SparkSession, namesrv_addr: str, directory: str, sink: str = "rocketmq") -> StreamingQuery:
    """All that is in ``raw`` now, 60 rows a batch."""
    return (
        spark.readStream.format("rocketmq")
        .options(namesrvAddr=namesrv_addr, topic="raw", startingOffsets="earliest", maxOffsetsPerTrigger="60")
        .load()
        .selectExpr("body", "'flights' AS topic", "keys")
        .writeStream.format(sink)
        .options(namesrvAddr=namesrv_addr, group="exact", delivery="transactional")
        .option("checkpointLocation", directory + "/checkpoint")
        .trigger(availableNow=True)
        .start()
    )


class KilledWriter(StreamWriter):
    """In a task: another process than the one that commits."""

    def write(self, iterator: Any) -> Any:
        arm(os.environ["KILL_AT"], lambda: kill(os.environ["KILL_IN"]))
        return super().write(iterator)


class KilledSink(RocketMQDataSource):
    """As ``rocketmq``; the process that reaches the point takes the driver with it."""

    @classmethod
    def name(cls) -> str:
        return "killed_sink"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        point, directory = os.environ["KILL_AT"], os.environ["KILL_IN"]
        arm(point, lambda: kill(directory))
        return KilledWriter(sink_options(self.options), schema)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)


def kill(directory: str) -> None:
    Path(directory, "killed").touch()
    for pid in Path(directory, "pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, die: Callable[[], None]) -> None:
    """Change this process (a worker) so that it dies at ``point`` of the second batch; harmless when it is armed already."""
    once, flight = transactional_write.TransactionalWrite, half_messages._RowsInFlight
    if getattr(once, "is_armed", False):
        return
    once.is_armed = True  # type: ignore[attr-defined]
    append, commit, told, first = once._append, once.commit, half_ends._is_acknowledged, flight._first
    seen = {"batch": -1, "halves": 0, "ends": 0}

    async def killed_append(self: Any, responder: Any, ledger: Any, step: Any) -> int:
        is_due = step.decision.batch == _BATCH
        if is_due and point == "before-decision":
            die()
        at = await append(self, responder, ledger, step)
        if is_due and point == "after-decision":
            die()
        return at

    def killed_commit(self: Any, messages: Any, what: str) -> None:
        seen["batch"] = next(message.batch for message in messages)
        commit(self, messages, what)
        if seen["batch"] == _BATCH and point == "after-ends":
            die()

    async def killed_told(*args: Any) -> bool:
        done = await told(*args)
        if seen["batch"] == _BATCH and point == "ends":
            seen["ends"] += 1
            if seen["ends"] == _AFTER:
                die()
        return done

    async def killed_first(self: Any) -> None:
        batch = int(self._begun[0][1].message.properties[responder.BATCH])
        await first(self)
        if batch == _BATCH and point == "halves":
            seen["halves"] += 1
            if seen["halves"] == _AFTER:
                die()

    once._append = killed_append  # type: ignore[method-assign]
    once.commit = killed_commit  # type: ignore[method-assign]
    half_ends._is_acknowledged = killed_told  # type: ignore[assignment]
    flight._first = killed_first  # type: ignore[method-assign]


def main(namesrv_addr: str, directory: str, point: str) -> None:
    from spark_session import spark_session

    os.environ.update(KILL_AT=point, KILL_IN=directory)
    spark = spark_session("killed", directory + "/warehouse")
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    Path(directory, "pids").write_text(f"{jvm} {os.getpid()}")
    from system.spark import killed_sink  # workers find its classes under this name

    spark.dataSource.register(killed_sink.KilledSink)
    stream(spark, namesrv_addr, directory, "killed_sink").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

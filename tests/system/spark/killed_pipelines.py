# SPDX-License-Identifier: Apache-2.0
"""Three streams that live through kills; kill_moments and test_exactly_once run it as a process of its own, Spark's workers import it.

    raw  --copied--> topic copied       at least once; each message says which row of which batch it is (delivery=idempotent)
    raw  --exact---> topic exact        exactly once (delivery=transactional)
    work --tries---> each_try_once --> foreach_batch --+-- good rows: noted; or a batch write with a name (txnAppId) --> topic good
                                                       `-- bad ones --> %RETRY%judges (read again by this stream), %DLQ%judges

An order in the file ``kill-at`` (number, point, victim, how often the point is passed first) kills: whichever process reaches the point
takes the order, and then takes itself away (victim ``self``), or JVM and driver first (victim ``driver``). Points are in ``POINTS``.
A query that failed because a process was killed under it is started again from its checkpoint, as an operator's watchdog would.

What becomes of a row's try is thrown by dice when it is judged (``_verdict``), so who looks twice sees something else.

``KILL_CLUSTER``: the master of a cluster of two workers, each executor a process; a life's executors have one, two or three cores, never as
many as those of the life before.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_session import SHORT_LIVED, spark_session
from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.spark import each_try_once, foreach_batch
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.read.stream_reader import StreamReader
from sprocketmq.spark.retry.bad_row_sender import BadRowSender
from sprocketmq.spark.retry.verdict_store import VerdictStore
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions import half_ends, half_messages, transactional_write
from sprocketmq.spark.write.message_sender import MessageSender
from sprocketmq.spark.write.writer import StreamWriter
from sprocketmq.wire.requests.messages import CONSUMER_SEND_MSG_BACK
from system.spark.standalone_cluster import EXECUTOR_MEMORY, MOST_CORES, WORKERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAMES: Final = ("copied", "exact", "tries")
GROUP: Final = "judges"
MAX_RECONSUME: Final = 3
# Of a hundred tries of rows so many are sent back, so many of these with a reason, and so many given up at once.
RETRIED, EXPLAINED, GIVEN_UP = 45, 15, 3

SOURCE_POINTS: Final = (
    "next-trigger",
    "before-offset-journal",
    "after-offset-journal",
    "before-progress",
    "after-progress",
)
TASK_POINTS: Final = ("before-read", "after-read", "before-write", "mid-send", "mid-halves", "after-write")
SINK_POINTS: Final = (
    "before-sink-commit", "before-decision", "after-decision", "mid-ends", "after-sink-commit"
)  # fmt: skip
DRIVER_POINTS: Final = ("judged", "verdicts-kept", "good-written", "mid-send-back", "sent-back", "batch-done")
POINTS: Final = SOURCE_POINTS + TASK_POINTS + SINK_POINTS + DRIVER_POINTS
_SHORT_LIVED: Final = {
    **SHORT_LIVED,
    "spark.sql.shuffle.partitions": "1",
    "spark.task.maxFailures": "8",  # on a cluster; a local master says it itself
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.extraJavaOptions": SHORT_LIVED["spark.driver.extraJavaOptions"],
}


def writes_good(seed: int) -> bool:
    """Whether good rows go to their topic, exactly once, which takes Spark six processes for each batch; else they are noted."""
    return seed % 2 == 1


# -- the points ----------------------------------------------------------------------------------------------------------------------


_passed: Counter[str] = Counter()


def reached(point: str) -> None:
    """Die, if that was ordered."""
    order = Path(os.environ["KILL_IN"], "kill-at")
    try:
        said = order.read_text("ascii")
    except FileNotFoundError:
        return
    number, wanted, victim, passes = said.split()
    if wanted != point:
        return
    _passed[number] += 1
    if _passed[number] <= int(passes):
        return
    try:
        order.rename(order.with_name(f"killed-{number}"))
    except FileNotFoundError:
        return  # another process was first
    if victim == "driver":
        for pid in Path(os.environ["KILL_IN"], "pids").read_text("ascii").split():
            if int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class KilledReader(StreamReader):
    """In the source's process, and in tasks."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        reached("next-trigger")
        end = super().latestOffset(start, limit)
        if end is not start:
            reached("before-offset-journal")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        reached("after-offset-journal")
        return super().partitions(start, end)

    def read(self, partition: Any) -> Iterator[Any]:
        reached("before-read")
        for batch in super().read(partition):
            yield batch
            reached("after-read")

    def _eager_commit(self, position: Any) -> None:
        reached("before-progress")
        super()._eager_commit(position)
        reached("after-progress")


class KilledWriter(StreamWriter):
    """In tasks, and in the process that commits."""

    def write(self, iterator: Any) -> Any:
        reached("before-write")
        done = super().write(iterator)
        reached("after-write")
        return done

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        reached("before-sink-commit")
        super().commit(messages, batchId)
        reached("after-sink-commit")


class KilledSource(RocketMQDataSource):
    """As ``rocketmq``, in every process that Spark unpickles it, or its reader or writer, in."""

    @classmethod
    def name(cls) -> str:
        return "killed_rocketmq"

    def streamReader(self, schema: Any) -> StreamReader:
        return KilledReader(self._read_options(schema, streaming=True), schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        return KilledWriter(sink_options(self.options), schema)


def _around(owner: Any, name: str, before: str = "", after: str = "") -> None:
    """Points around the coroutine function ``name`` of ``owner``."""
    was: Callable[..., Any] = getattr(owner, name)

    async def armed(*args: Any, **kwargs: Any) -> Any:
        if before:
            reached(before)
        done = await was(*args, **kwargs)
        if after:
            reached(after)
        return done

    setattr(owner, name, armed)


def _arm() -> None:
    """Points inside the product, in this process."""
    _around(transactional_write.TransactionalWrite, "_append", "before-decision", "after-decision")
    _around(half_ends, "_is_acknowledged", after="mid-ends")
    _around(half_messages._RowsInFlight, "_first", after="mid-halves")
    _around(MessageSender, "_send_as", after="mid-send")  # rows that go one by one
    _around(Sender, "send_batch", after="mid-send")  # rows that go by columns
    ask = Cluster.ask

    async def armed_ask(self: Cluster, asked: Any, *args: Any, **how: Any) -> Any:
        answer = await ask(self, asked, *args, **how)
        if asked is CONSUMER_SEND_MSG_BACK:
            reached("mid-send-back")
        return answer

    Cluster.ask = armed_ask  # type: ignore[method-assign]
    hand_back = BadRowSender.send_back

    def armed_hand_back(self: BadRowSender, rows: Any) -> Any:
        reached("good-written")
        left = hand_back(self, rows)
        reached("sent-back")
        return left

    BadRowSender.send_back = armed_hand_back  # type: ignore[method-assign]
    keep = VerdictStore.save

    def armed_keep(self: VerdictStore, verdicts: Any, is_bad: Any) -> Any:
        kept = keep(self, verdicts, is_bad)
        reached("verdicts-kept")
        return kept

    VerdictStore.save = armed_keep  # type: ignore[method-assign]


if "KILL_IN" in os.environ:
    _arm()


# -- the streams -----------------------------------------------------------------------------------------------------------------------


class Pipelines:
    """The three streams of one driver.

    Args:
        directory: checkpoints, orders, and what is noted for the judge.
        seed: odd ones write the good rows to a topic.
        data_source: ``rocketmq`` passes no points.
    """

    def __init__(
        self, spark: SparkSession, namesrv_addr: str, directory: Path, seed: int, data_source: str = "killed_rocketmq"
    ) -> None:
        self._spark, self._namesrv_addr, self._directory, self._seed = spark, namesrv_addr, directory, seed
        self._data_source = data_source

    def start(self, name: str) -> StreamingQuery:
        """One of ``copied``, ``exact``, ``tries``, from its checkpoint."""
        writer = getattr(self, f"_{name}")()
        return (  # type: ignore[no-any-return]
            writer.option("checkpointLocation", str(self._directory / "checkpoints" / name))
            .trigger(processingTime="3 seconds")
            .start()
        )

    def started(self, name: str) -> StreamingQuery | None:
        """As ``start``; None when a process was killed that helped Spark to begin."""
        try:
            return self.start(name)
        except Exception as error:  # noqa: BLE001 - the judge looks at it
            self.note("failures", {"query": name, "error": f"not started: {error}"})
            return None

    def _rows(self, topic: str, **more: str | bool) -> DataFrame:
        reader = self._spark.readStream.format(self._data_source).options(namesrvAddr=self._namesrv_addr, topic=topic)
        return (
            reader.options(**more).options(startingOffsets="earliest", maxOffsetsPerTrigger=500, minPartitions=2).load()
        )

    def _copied(self) -> Any:
        rows = self._rows("raw", group="copiers").select("body", "keys")
        writer = rows.writeStream.format(self._data_source).options(namesrvAddr=self._namesrv_addr, topic="copied")
        return writer.options(delivery="idempotent")

    def _exact(self) -> Any:
        rows = self._rows("raw").select("body", "keys")
        writer = rows.writeStream.format(self._data_source).options(namesrvAddr=self._namesrv_addr, topic="exact")
        return writer.options(delivery="transactional", group="exact-writers")

    def _tries(self) -> Any:
        rows = each_try_once(self._rows("work", group=GROUP, includeRetry=True), within="2 hours")
        retry = foreach_batch(
            self._judge, write=self._write_good, group=GROUP, namesrv_addr=self._namesrv_addr,
            max_reconsume=MAX_RECONSUME, delay_level=1,
        )  # fmt: skip

        def batch(rows: DataFrame, batch_id: int) -> None:
            retry(rows, batch_id)
            reached("batch-done")

        return rows.writeStream.foreachBatch(batch)

    def _judge(self, rows: DataFrame, batch_id: int) -> DataFrame:
        """The user's function; what it sees is noted."""
        judged = self._verdict(rows).persist()
        seen = judged.selectExpr("cast(cast(body AS string) AS int)", "reconsumeTimes", "topic").collect()
        assert {row[2] for row in seen} <= {"work"}, "a retried row is not under its own topic"
        self.note("tries", {"batch": batch_id, "rows": sorted((row[0], row[1]) for row in seen)})
        reached("judged")
        return judged

    def _verdict(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        dice = f.udf(lambda body: random.randrange(100), "int").asNondeterministic()
        rolled = rows.withColumn("rolled", dice("body"))
        verdict = f"CASE WHEN rolled < {RETRIED} THEN 'retry' WHEN rolled < {RETRIED + GIVEN_UP} THEN 'dlq' END"
        reason = f"IF(rolled < {EXPLAINED}, concat('rolled ', rolled), NULL)"
        return rolled.withColumn("action", _expr(verdict)).withColumn("reason", _expr(reason))

    def _write_good(self, good: DataFrame, batch_id: int) -> None:
        if not writes_good(self._seed):
            self.note(
                "good", {"batch": batch_id, "rows": [int(bytes(row.body)) for row in good.select("body").collect()]}
            )
            return
        writer = good.select("body", "keys").write.format("rocketmq").mode("append")
        writer.options(
            namesrvAddr=self._namesrv_addr, topic="good", group="good-writers", delivery="transactional"
        ).options(txnAppId="good", txnVersion=str(batch_id)).save()

    def note(self, name: str, what: dict[str, Any]) -> None:
        """One line; a line that a kill cut short is ended by the next one."""
        with open(self._directory / f"{name}.jsonl", "ab", buffering=0) as file:
            file.write(b"\n" + json.dumps({"time": time.time(), **what}).encode())


def _expr(text: str) -> Any:
    from pyspark.sql import functions as f

    return f.expr(text)


def _other_cores(directory: Path) -> str:
    """How many each executor of this life has."""
    lives = directory / "lives.jsonl"
    said = lives.read_text("ascii").splitlines() if lives.exists() else []
    last = json.loads(said[-1])["cores"] if said else None
    return random.choice([cores for cores in map(str, range(1, MOST_CORES + 1)) if cores != last])


def main(namesrv_addr: str, folder: str, seed: str, *names: str) -> None:
    directory = Path(folder)
    # A task is tried eight times, so that a killed worker is a task that runs again.
    master = os.environ.get("KILL_CLUSTER") or "local[2,8]"
    life, settings = {"master": master}, _SHORT_LIVED
    if master.startswith("spark:"):
        life["cores"] = cores = _other_cores(directory)
        settings = {**settings, "spark.executor.cores": cores, "spark.cores.max": str(WORKERS * int(cores))}
    spark = spark_session("killed", str(directory / "warehouse"), master=master, settings=settings)
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    (directory / "pids").write_text(f"{jvm} {os.getpid()}")
    spark.dataSource.register(KilledSource)
    pipelines = Pipelines(spark, namesrv_addr, directory, int(seed))
    pipelines.note("lives", life)
    queries: dict[str, StreamingQuery | None] = {}
    waiting: list[str] = []  # for their first batch since they were started
    while not (directory / "stop").exists():
        waiting = [name for name in waiting if (one := queries[name]) is not None and one.lastProgress is None]
        for name in names:
            query = queries.get(name)
            if query is not None and not query.isActive:
                pipelines.note("failures", {"query": name, "error": str(query.exception())})
                (directory / "running").unlink(missing_ok=True)
                queries[name] = query = None
            if (
                query is None and not waiting
            ):  # one after the other: Spark gives each of its processes ten seconds to say hello
                queries[name] = query = pipelines.started(name)
                waiting += [name] if query is not None else []
        if len(queries) == len(names):
            (directory / "started").touch()
            if not waiting and None not in queries.values():
                (directory / "running").touch()
        time.sleep(0.1)
    for query in queries.values():
        if query is not None:
            query.stop()
    spark.stop()


if __name__ == "__main__":
    from system.spark import killed_pipelines  # workers find its classes under this name

    killed_pipelines.main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""What the tests of Spark at Apache's brokers share: topics of numbered messages, batch reads, and streams that keep what they saw.

A message's body is its number, padded with blanks where its size matters.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import sprocketmq as rmq
from interop.child import poll_until
from interop.mqadmin_session import MqadminSession
from interop.peers import ApacheCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# A busy machine starts Spark's Python processes in a minute.
_names = itertools.count(1)


class Kept:
    """A foreachBatch function that keeps the rows of each batch; `before` is called with the number of a batch that has not been read."""

    def __init__(self, before: Callable[[int], object] | None = None) -> None:
        self.rows: list[list[Row]] = []
        self._before = before

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        if self._before is not None:
            self._before(batch_id)
        self.rows.append(rows.select("topic", "queueId", "queueOffset", "body").collect())

    @property
    def batches(self) -> list[list[int]]:
        """The numbers of each batch."""
        return [sorted(int(row.body) for row in batch) for batch in self.rows]

    @property
    def numbers(self) -> list[int]:
        """All numbers, each as often as it came."""
        return sorted(itertools.chain.from_iterable(self.batches))


class Running:
    """A stream under way; `with` stops it.

    Spark gives the Python process of a source 10 s to start, and no setting. A busy machine takes longer: the query is begun again then.
    """

    def __init__(self, begin: Callable[[], StreamingQuery], kept: Kept) -> None:
        self.query, self.kept = begin(), kept
        self._begin = begin

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait; a stream that fails meanwhile fails the test with its reason."""

        def looked() -> Any:
            if (failure := self._problem()) is not None:
                raise failure
            return condition()

        return poll_until(looked, what)

    def until_over(self) -> None:
        """A bounded stream has ended well."""
        self.until(lambda: not self.query.isActive and self.query.exception() is None, "the end of the run")

    def _problem(self) -> Exception | None:
        failure = self.query.exception()
        if failure is not None and "failed to connect back" in str(failure):
            self.query = self._begin()
            return None
        return failure

    def until_begun(self) -> Running:
        """Its first batch is done, empty or not: nothing that is sent from now on may be missed."""
        self.until(lambda: self.kept.rows, "the first batch")
        return self

    def until_read(self, numbers: Iterable[int]) -> None:
        """It has read `numbers`, each once."""
        wanted = sorted(numbers)
        self.until(lambda: len(self.kept.numbers) >= len(wanted), f"{len(wanted)} messages")
        assert self.kept.numbers == wanted

    def failure(self) -> str:
        """What it fails with, once it has."""
        return str(poll_until(self._problem, "its failure"))

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.query.stop()


class Flow:
    """Spark and one Apache cluster, as one test uses them. Use with `with`.

    Args:
        scratch: for checkpoints.
    """

    def __init__(self, spark: SparkSession, apache: ApacheCluster, scratch: Path) -> None:
        self.spark, self.apache, self.scratch = spark, apache, scratch
        self.namesrv_addr = apache.namesrv_addr
        # Late is not wrong on a busy machine, and a send that was given up and made again would be there twice.
        self.admin = rmq.Admin(namesrv_addr=self.namesrv_addr, mq_client_api_timeout_ms=60_000)
        self.producer = rmq.Producer("ours", namesrv_addr=self.namesrv_addr, send_msg_timeout_ms=60_000)

    def __enter__(self) -> Flow:
        self.admin.start()
        self.producer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.producer.shutdown()
        self.admin.shutdown()

    # -- messages --------------------------------------------------------------------------------------------------------------

    @staticmethod
    def name() -> str:
        """A name that no topic or group has yet."""
        return f"spark-{time.time_ns()}-{next(_names)}"

    def topic(self, queues: int = 1, name: str | None = None) -> str:
        """A fresh topic."""
        topic = name or self.name()
        self.admin.create_topic(topic, queues=queues)
        return topic

    def send(
        self,
        topic: str,
        numbers: Iterable[int],
        queue: int = 0,
        *,
        size: int = 0,
        tag: Callable[[int], str] | None = None,
    ) -> None:
        """Into one queue, in order, with the number as the property `n`; returns when a reader can see all."""
        end = self.stored(topic, queue)
        messages = [
            rmq.Message(
                topic, (b"%d" % number).ljust(size), tags=tag(number) if tag else None, properties={"n": str(number)}
            )
            for number in numbers
        ]
        where = rmq.MessageQueue(topic, "broker-a", queue)
        # A batch must fit into one file of the log: Apache acknowledges one that does not, and stores nothing.
        step = max(1, 40_000 // (size + 250))
        for first in range(0, len(messages), step):
            self.producer.send_batch(messages[first : first + step], queue=where)
        poll_until(lambda: self.stored(topic, queue) == end + len(messages), "the messages are in their queue")

    def stored(self, topic: str, queue: int = 0) -> int:
        """The next offset of a queue."""
        return self.admin.max_offset(rmq.MessageQueue(topic, "broker-a", queue))

    @staticmethod
    def moment_ms() -> int:
        """Now, after all messages before and before all messages after."""
        time.sleep(0.03)
        now_ms = time.time_ns() // 1_000_000
        time.sleep(0.03)
        return now_ms

    # -- reads -----------------------------------------------------------------------------------------------------------------

    def read(self, topic: str | None = None, **options: Any) -> DataFrame:
        rows: DataFrame = self._with(self.spark.read, topic, options).load()
        return rows

    def numbers(self, topic: str | None = None, **options: Any) -> list[int]:
        """What one batch read gives."""
        return self.several({"": {"topic": topic, **options}})[""]

    def several(self, reads: Mapping[str, Mapping[str, Any]]) -> dict[str, list[int]]:
        """What several batch reads give, by their names: one job of Spark's."""
        from pyspark.sql.functions import lit

        parts = [self.read(**how).select(lit(name).alias("read"), "body") for name, how in reads.items()]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.union(part)
        found: dict[str, list[int]] = {name: [] for name in reads}
        for row in whole.collect():
            found[row["read"]].append(int(row.body))
        return {name: sorted(numbers) for name, numbers in found.items()}

    def stream(
        self, topic: str | None = None, *, checkpoint: str = "checkpoint", kept: Kept | None = None, **options: Any
    ) -> Running:
        """A stream that runs until it is stopped."""
        return self._start(topic, checkpoint, kept or Kept(), options)

    def bounded(
        self, topic: str | None = None, *, checkpoint: str = "checkpoint", kept: Kept | None = None, **options: Any
    ) -> Running:
        """A stream that ends by itself: trigger AvailableNow."""
        return self._start(topic, checkpoint, kept or Kept(), options, availableNow=True)

    def _start(
        self, topic: str | None, checkpoint: str, kept: Kept, options: dict[str, Any], **trigger: Any
    ) -> Running:
        writer = self._with(self.spark.readStream, topic, options).load().writeStream.foreachBatch(kept)
        writer = writer.option("checkpointLocation", str(self.scratch / checkpoint))
        return Running((writer.trigger(**trigger) if trigger else writer).start, kept)

    def _with(self, reader: Any, topic: str | None, options: Mapping[str, Any]) -> Any:
        reader = reader.format(options.get("format", "rocketmq")).options(namesrvAddr=self.namesrv_addr)
        if topic is not None:
            reader = reader.option("topic", topic)
        return reader.options(**{name: value for name, value in options.items() if name != "format"})


def offsets(topic: str, by_queue: Sequence[int | None] | Mapping[int, int]) -> str:
    """The JSON of an option that says something of each queue."""
    pairs = by_queue.items() if isinstance(by_queue, Mapping) else enumerate(by_queue)
    return json.dumps({topic: {"broker-a": {str(queue): value for queue, value in pairs if value is not None}}})


def progress_by_mqadmin(mqadmin: MqadminSession, flow: Flow, group: str) -> dict[tuple[str, int], tuple[int, int, int]]:
    """(topic, queue) -> next offset, the group's offset, the difference, as `consumerProgress` prints them; empty while it cannot tell."""
    printed = mqadmin.run("consumerProgress", "-n", flow.namesrv_addr, "-g", group)
    rows = [line.split() for line in printed.splitlines() if " broker-a " in line]
    # Columns: topic, broker, queue, broker offset, consumer offset, (4.9: client), diff, ...
    return {(row[0], int(row[2])): (int(row[3]), int(row[4]), int(row[5])) for row in rows if row[5].isdigit()}

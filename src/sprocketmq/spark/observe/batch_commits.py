# SPDX-License-Identifier: Apache-2.0
"""Commits the end of a query's last batch to the brokers while the query waits for its next trigger, and when it has ended.

The source itself hears of a finished batch when Spark plans the next one (``spark.read.stream_reader``): with a trigger of an hour, an
hour later. The driver of a classic session hears at once, by a listener, and its JVM knows the options of the query's sources.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.read.group_progress import GroupProgress
from sprocketmq.spark.read.lag import offset_of_event
from sprocketmq.spark.read.source_queues import is_read
from sprocketmq.spark.retry.query_sources import options_of_plan

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

# A query whose next batch begins before that commits by itself.
_QUIET_S: Final = 1.0


class _Waiting:
    """A query of this driver, and the timer that commits the end of its last batch."""

    def __init__(self, query: Any) -> None:
        self.query = query
        self.timer: threading.Timer | None = None
        self.progress: dict[str, GroupProgress] = {}  # by group

    def cancel(self) -> bool:
        """Whether the last batch is not committed yet."""
        timer, self.timer = self.timer, None
        if timer is None or timer.finished.is_set():
            return False
        timer.cancel()
        return True


class BatchCommits:
    """Called with the events of Spark's listener, one after the other. A session of Spark Connect has no queries here."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}  # by run

    def started(self, query_id: str, run_id: str) -> None:
        query = _running_query(query_id)
        if query is not None:
            self._waiting[run_id] = _Waiting(query)

    def finished(self, progress: StreamingQueryProgress) -> None:
        run_id = str(progress.runId)
        if run_id not in self._waiting:  # the listener is younger than the query
            self.started(str(progress.id), run_id)
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.cancel()
            ends = [source.endOffset for source in progress.sources]
            waiting.timer = threading.Timer(_QUIET_S, _commit_if_idle, (waiting, ends))
            waiting.timer.daemon = True
            waiting.timer.start()

    def terminated(self, run_id: str) -> None:
        waiting = self._waiting.pop(run_id, None)
        if waiting is not None and (timer := waiting.timer) is not None and waiting.cancel():
            timer.function(*timer.args)


def _running_query(query_id: str) -> Any:
    """The JVM's ``MicroBatchExecution``; None if it is not of this driver."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    session: Any = SparkSession._instantiatedSession
    if session is None or session._sc._jsc is None:
        return None
    try:
        uuid = session._jvm.java.util.UUID.fromString(query_id)
        return session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)
    except (Py4JError, PySparkException):
        return None


def _commit_if_idle(waiting: _Waiting, ends: Iterable[str]) -> None:
    """Not while a batch runs: then its planner has committed, and may commit the next end at any moment."""
    from py4j.protocol import Py4JError

    try:
        if waiting.query.status().isTriggerActive():
            return
        sources = options_of_plan(waiting.query)
    except (Py4JError, PySparkException):  # the session has ended
        return
    positions = [position for position in map(offset_of_event, ends) if position is not None]
    for options in sources:
        if options.commit_offsets == "eager" and options.group_given:
            offsets = {
                queue: at
                for position in positions
                if position.group == options.group
                for queue, at in position.queues.items()
                if is_read(options, queue.topic)
            }
            cluster = Cluster.at(options.namesrv_addr, options.retry_timeout_ms, options.access)
            progress = waiting.progress.setdefault(options.group, GroupProgress(options.group))
            progress.commit(cluster, offsets, time.monotonic())

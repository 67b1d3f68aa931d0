# SPDX-License-Identifier: Apache-2.0
"""Keeps the verdicts of a micro-batch in the checkpoint of its query (docs/decisions/0025-verdicts-in-the-checkpoint.md), in the folder
``sprocketmq/verdicts-<name>``: ``rows`` (Parquet, one batch, overwritten by the next) and ``checked`` (which batch and which files).

Another driver that repeats a batch finds the verdicts of the first. They belong to one batch as in the offset log, its number and its
offsets, and count once they are complete and all of them can be carried out: ``checked`` is written last. Spark gives the files of each
write new names, so ``checked`` never applies to files of another write, and if one is missing, new verdicts are computed. Only the first
call for a batch in a run can be a repetition, and a call after one that failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.retry.checkpoint_text import escaped_path, hadoop_path, is_classic, read_text, write_text
from sprocketmq.spark.retry.kept_columns import as_judged, as_kept, check_fields
from sprocketmq.spark.retry.query_sources import QuerySource, sources_of_log, sources_of_plan
from sprocketmq.spark.retry.verdict_columns import known_types, verdict_checks
from sprocketmq.spark.troubles import troubles

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


_FOLDER: Final = "sprocketmq/verdicts-"
_ROWS_OF_A_TASK: Final = 1 << 33  # of monotonically_increasing_id
# StreamExecution.QUERY_ID_KEY, a local property of the thread that runs the batch
_QUERY_ID: Final = "sql.streaming.queryId"
# Settings of the session would change rows on their way through the files: TIMESTAMP_MILLIS cuts microseconds, other codecs may be missing.
_EXACT: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
# Written to be read once, soon: dictionaries, statistics and snappy cost half of the write. The row groups are as small as the parts that
# Spark divides a file into (spark.sql.files.openCostInBytes), so that several tasks can read what one has written.
_WRITE: Final = {
    "compression": "lz4_raw",
    "parquet.enable.dictionary": "false",
    "parquet.column.statistics.enabled": "false",
    "parquet.page.write-checksum.enabled": "false",
    "parquet.block.size": str(4 << 20),
    "maxRecordsPerFile": "0",
}
# Files that are missing or broken are counted, not skipped while the rows are written.
_READ: Final = {"datetimeRebaseMode": "CORRECTED", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class _Call(NamedTuple):
    """Which batch of which run of a query this process judged."""

    run: str
    batch_id: int
    sources: list[QuerySource]


class VerdictStore:
    """The verdicts of batch ``batch_id``, to which ``rows`` belong; ``name`` is unique in the query. ``checkpoint_location``: None asks
    Spark, which knows it in classic sessions only. Raises ConfigurationError (the checkpoint is unknown or another query's, or two
    functions have the same name)."""

    _last: ClassVar[dict[str, _Call]] = {}  # by path

    def __init__(self, rows: DataFrame, batch_id: int, name: str, checkpoint_location: str | None) -> None:
        self._spark: SparkSession = rows.sparkSession
        self._batch_id = batch_id
        query = _query_of(self._spark, checkpoint_location)
        location, run = checkpoint_location, None
        if not is_classic(self._spark):
            run = str(os.getpid())  # Spark Connect: a process for each run
        elif query is not None:
            location, run = location or query.resolvedCheckpointRoot(), query.runId().toString()
        if location is None:
            raise ConfigurationError(
                "foreach_batch keeps the verdicts of a batch in the checkpoint of its query, and Spark does not say here where that is; "
                "give checkpoint_location, the same as the query's checkpointLocation"
            )
        self._location = location.rstrip("/")
        named = re.sub("[^A-Za-z0-9_-]", lambda found: f".{ord(found[0]):02x}", name)
        self.path = f"{self._location}/{_FOLDER}{named}"
        self._rows_path, self._checked_path = f"{self.path}/rows", f"{self.path}/checked"
        before = self._last.get(self.path)
        if before is not None and (before.run, before.batch_id) == (run, batch_id):
            raise ConfigurationError(
                f"batch {batch_id} of one query is judged twice under the name {name!r}; call foreach_batch's function once for a batch, "
                "or make one for each judge, each with a name of its own"
            )
        same_run = before is not None and before.run == run
        self._can_be_a_repeat = not same_run
        journal = self._journal_of_batch()
        self._offsets = hashlib.sha256(journal.encode()).hexdigest()[:32]
        self.sources: list[QuerySource] = []  # empty if they are not known
        if query is not None:
            self.sources = before.sources if before is not None and same_run else sources_of_plan(query)
        elif run is not None:
            self.sources = sources_of_log(journal)
        if run is not None:
            self._last[self.path] = _Call(run, batch_id, self.sources)

    def call_failed(self) -> None:
        self._last.pop(self.path, None)

    def load(self) -> DataFrame | None:
        """The rows with the verdicts of an earlier call for this batch; None if there was none."""
        from pyspark.errors import AnalysisException
        from pyspark.sql.types import StructType

        checked = self._checked() if self._can_be_a_repeat else None
        if checked is None or (checked["batch"], checked["offsets"]) != (self._batch_id, self._offsets):
            return None
        if "files" not in checked:  # of an older version
            return None
        try:
            stored = self._stored(*(StructType.fromJson(checked[name]) for name in ("schema", "judged")))
            if checked["files"] == _digest_of(_file_names(stored)):
                return stored
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
        troubles.failed(
            "judged again",
            "batch %d was judged before, and not all files of its %d judged rows are at %s; it is judged again",
            *(self._batch_id, checked["rows"], self._rows_path),
        )
        return None

    def save(self, verdicts: DataFrame, is_bad: Column) -> tuple[DataFrame, int]:
        """Compute the verdicts once, write them, and return the rows that were written, and how many of them are bad. Raises
        ConfigurationError (a column or a value that is not allowed, or the checkpoint is not on storage that all processes share). A
        corrected function is asked again."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        check_fields(verdicts)
        kept = as_kept(verdicts)
        checks = verdict_checks(known_types(kept))
        number = "monotonically_increasing_id()"
        seen = [
            "count(1) AS `rows`",
            f"count_if({number} % {_ROWS_OF_A_TASK} = 0) AS `tasks`",  # those that have rows
            f"count_if({number} = 0) AS `first`",
            *(f"{wrong} AS wrong{at}" for at, (wrong, _) in enumerate(checks)),
        ]
        observed = Observation()
        with _settings(self._spark, _EXACT):
            observing = kept.observe(observed, f.count_if(is_bad).alias("bad"), *map(f.expr, seen))
            observing.write.mode("overwrite").options(**_WRITE).parquet(self._rows_path)
        found = observed.get
        for at, (_, sentence) in enumerate(checks):
            if (value := found.get(f"wrong{at}")) is not None:
                raise ConfigurationError(sentence(value))
        rows = found.get("rows", 0)
        stored = self._stored(kept.schema, verdicts.schema)
        files = _file_names(stored)
        # A task with rows writes one file, and the first task one in any case (FileFormatWriter).
        if len(files) != found.get("tasks", 0) + (not found.get("first")):
            self._check(stored, rows)
        self._note = {
            "batch": self._batch_id,
            "offsets": self._offsets,
            "files": _digest_of(files),
            "rows": rows,
            "schema": kept.schema.jsonValue(),
            "judged": verdicts.schema.jsonValue(),
        }
        return stored, found.get("bad", 0)

    def _stored(self, schema: StructType, judged: StructType) -> DataFrame:
        # With a given schema, because without a single file Spark cannot infer one.
        stored = self._spark.read.schema(schema).options(**_READ).parquet(escaped_path(self._rows_path))
        return as_judged(stored, judged)

    def _check(self, stored: DataFrame, written: int) -> None:
        there = stored.count()
        if there != written:
            raise ConfigurationError(
                f"{written} judged rows were written to {self._rows_path} and {there} can be read; the checkpoint location "
                "must be on storage that the driver and all executors share"
            )

    def complete(self) -> None:
        """Note that the verdicts of ``save`` are complete and can be carried out: a repeated batch finds them."""
        write_text(self._spark, self._checked_path, json.dumps(self._note))

    def _checked(self) -> dict[str, Any] | None:
        note = read_text(self._spark, self._checked_path)
        return json.loads(note) if note else None  # empty after a power cut

    def _journal_of_batch(self) -> str:
        journal = read_text(self._spark, f"{self._location}/offsets/{self._batch_id}")
        if journal is None:
            raise ConfigurationError(
                f"the checkpoint at {self._location} knows no batch {self._batch_id}; give foreach_batch the checkpointLocation of the "
                "query that calls it"
            )
        return journal


@contextlib.contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Other settings for a write, which no option of the write can set. The session is the batch's own, a clone of the user's."""
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is not None:
                spark.conf.set(name, old)


def _file_names(rows: DataFrame) -> list[str]:
    return sorted(file.rpartition("/")[2] for file in rows.inputFiles())


def _digest_of(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


def _query_of(spark: SparkSession, checkpoint_location: str | None) -> Any:
    """The query whose batch this is, as an object of the JVM; None with Spark Connect, and if it is not found. On a thread that the
    user started Spark does not know the query; then the given checkpoint identifies it."""
    if not is_classic(spark):
        return None
    jvm: Any = spark._jvm
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is not None:
        return queries.get(jvm.java.util.UUID.fromString(query_id))
    if checkpoint_location is None:
        return None
    path, system = hadoop_path(spark, checkpoint_location)
    root = system.makeQualified(path).toString()
    return next((query for query in queries.values() if query and query.resolvedCheckpointRoot() == root), None)

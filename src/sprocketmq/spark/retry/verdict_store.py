# SPDX-License-Identifier: Apache-2.0
"""Keeps the verdicts of a micro-batch in the checkpoint of its query (docs/decisions/0025-verdicts-in-the-checkpoint.md), in the folder
``sprocketmq/verdicts-<name>``: ``rows`` (Parquet, one batch, overwritten by the next) and ``checked`` (batch, id of the verdicts, number
of rows).

Another driver that repeats a batch finds the verdicts of the first. They belong to one batch as in the offset log, its number and its
offsets, and count once they are complete and all of them can be carried out: ``checked`` is written last. Whoever finds it counts their
rows again; if rows are missing, new verdicts are computed. Only the first call for a batch in a run can be a repetition, and a call after
one that failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.retry.kept_columns import as_judged, as_kept, check_fields
from sprocketmq.spark.retry.query_sources import QuerySource, sources_of_log, sources_of_plan
from sprocketmq.spark.retry.verdict_columns import known_types, verdict_checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger("sprocketmq.spark")

_FOLDER: Final = "sprocketmq/verdicts-"
# The column with the id of the verdicts; a new id each time that they are computed.
_VERDICTS_ID: Final = "__sprocketmq_judgement"
_ROWS: Final = "__sprocketmq_rows"
# StreamExecution.QUERY_ID_KEY, a local property of the thread that runs the batch
_QUERY_ID: Final = "sql.streaming.queryId"
# Settings of the session would change rows on their way through the files: TIMESTAMP_MILLIS cuts microseconds, other codecs may be missing.
_EXACT: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_CODEC: Final = "snappy"  # Spark's default
# Files that are missing or broken are counted, not skipped while the rows are written.
_READ: Final = {"datetimeRebaseMode": "CORRECTED", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class VerdictStore:
    """The verdicts of batch ``batch_id``, to which ``rows`` belong; ``name`` is unique in the query. ``checkpoint_location``: None asks
    Spark, which knows it in classic sessions only. Raises ConfigurationError (the checkpoint is unknown or another query's, or two
    functions have the same name)."""

    # Path -> the query run and batch whose verdicts this process stored there last.
    _last: ClassVar[dict[str, tuple[str, int]]] = {}

    def __init__(self, rows: DataFrame, batch_id: int, name: str, checkpoint_location: str | None) -> None:
        self._spark: SparkSession = rows.sparkSession
        self._batch_id = batch_id
        query = _query_of(self._spark, checkpoint_location)
        location, run = checkpoint_location, None
        if not _is_classic(self._spark):
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
        if run is not None and before == (run, batch_id):
            raise ConfigurationError(
                f"batch {batch_id} of one query is judged twice under the name {name!r}; call foreach_batch's function once for a batch, "
                "or make one for each judge, each with a name of its own"
            )
        self._can_be_a_repeat = run is None or before is None or before[0] != run
        journal = self._journal_of_batch()
        self._offsets = hashlib.sha256(journal.encode()).hexdigest()[:32]
        self.sources: list[QuerySource] = []  # empty if they are not known
        if query is not None:
            self.sources = sources_of_plan(query)
        elif run is not None:
            self.sources = sources_of_log(journal)
        if run is not None:
            self._last[self.path] = run, batch_id

    def call_failed(self) -> None:
        self._last.pop(self.path, None)

    def load(self) -> DataFrame | None:
        """The rows with the verdicts of an earlier call for this batch; None if there was none."""
        from pyspark.errors import AnalysisException
        from pyspark.sql.types import StructType

        checked = self._checked() if self._can_be_a_repeat else None
        if checked is None or (checked["batch"], checked["offsets"]) != (self._batch_id, self._offsets):
            return None
        there = 0
        try:
            judged = StructType.fromJson(checked["judged"]) if "judged" in checked else None  # of an older version
            stored = self._stored(checked["judgement"], StructType.fromJson(checked["schema"]), judged)
            there = stored.count()
            if there == checked["rows"]:
                return stored
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
        log.warning(
            "batch %d was judged before, and of its %d judged rows at %s only %d can be read; it is judged again",
            *(self._batch_id, checked["rows"], self._rows_path, there),
        )
        return None

    def save(self, verdicts: DataFrame) -> DataFrame:
        """Compute the verdicts once, write them, and return the rows that were written. Raises ConfigurationError (a column or a
        value that is not allowed, or the checkpoint is not on storage that all processes share). A corrected function is asked again."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        check_fields(verdicts)
        verdicts_id = uuid.uuid4().hex
        marked = as_kept(verdicts).withColumn(_VERDICTS_ID, f.lit(verdicts_id))
        observed = Observation()
        with _settings(self._spark, _EXACT):
            observing = marked.observe(observed, f.count(f.lit(1)).alias(_ROWS))
            observing.write.mode("overwrite").option("compression", _CODEC).parquet(self._rows_path)
        written = observed.get.get(_ROWS, 0)
        stored = self._stored(verdicts_id, marked.schema, verdicts.schema)
        self._check(stored, written)
        self._note = {
            "batch": self._batch_id,
            "offsets": self._offsets,
            "judgement": verdicts_id,
            "rows": written,
            "schema": marked.schema.jsonValue(),
            "judged": verdicts.schema.jsonValue(),
        }
        return stored

    def _stored(self, verdicts_id: str, schema: StructType, judged: StructType | None) -> DataFrame:
        from pyspark.sql import functions as f

        # With a given schema, because without a single file Spark cannot infer one.
        stored = self._spark.read.schema(schema).options(**_READ).parquet(_escaped_path(self._rows_path))
        stored = stored.where(f.col(_VERDICTS_ID) == verdicts_id).drop(_VERDICTS_ID)
        return stored if judged is None else as_judged(stored, judged)

    def _check(self, stored: DataFrame, written: int) -> None:
        from pyspark.sql import functions as f

        checks = verdict_checks(known_types(stored))
        seen = stored.agg(f.count(f.lit(1)), *(wrong for wrong, _ in checks)).head()
        assert seen is not None
        if seen[0] != written:
            raise ConfigurationError(
                f"{written} judged rows were written to {self._rows_path} and {seen[0]} can be read; the checkpoint location "
                "must be on storage that the driver and all executors share"
            )
        for value, (_, sentence) in zip(seen[1:], checks, strict=True):
            if value is not None:
                raise ConfigurationError(sentence(value))

    def complete(self) -> None:
        """Note that the verdicts of ``save`` are complete and can be carried out: a repeated batch finds them."""
        from pyspark.sql import functions as f

        line = self._spark.range(0, 1, 1, 1).select(f.lit(json.dumps(self._note)).alias("value"))
        line.write.mode("overwrite").text(self._checked_path)

    def _checked(self) -> dict[str, Any] | None:
        note = self._text(self._checked_path)
        return json.loads(note) if note else None  # empty after a power cut

    def _journal_of_batch(self) -> str:
        journal = self._text(f"{self._location}/offsets/{self._batch_id}")
        if journal is None:
            raise ConfigurationError(
                f"the checkpoint at {self._location} knows no batch {self._batch_id}; give foreach_batch the checkpointLocation of the "
                "query that calls it"
            )
        return journal

    def _text(self, path: str) -> str | None:
        """The text of the file at ``path``, or of the one file in the folder there; None if there is nothing."""
        from pyspark.errors import AnalysisException

        try:
            # Twice, because of a single path that does not exist Spark logs a stack of Java (FileStreamSink.hasMetadata).
            found = self._spark.read.text([_escaped_path(path)] * 2, wholetext=True).head()
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise
        return found[0] if found else None


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


def _escaped_path(path: str) -> str:
    """``path`` for a read of Spark, which takes it as a glob pattern (``SparkHadoopUtil.isGlobPath``); a write does not."""
    return re.sub(r"[\[\]{}*?\\]", r"\\\g<0>", path)


def _is_classic(spark: SparkSession) -> bool:
    return hasattr(spark, "_jsparkSession")


def _query_of(spark: SparkSession, checkpoint_location: str | None) -> Any:
    """The query whose batch this is, as an object of the JVM; None with Spark Connect, and if it is not found. On a thread that the
    user started Spark does not know the query; then the given checkpoint identifies it."""
    if not _is_classic(spark):
        return None
    jvm: Any = spark._jvm
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is not None:
        return queries.get(jvm.java.util.UUID.fromString(query_id))
    if checkpoint_location is None:
        return None
    path = jvm.org.apache.hadoop.fs.Path(checkpoint_location)
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    root = system.makeQualified(path).toString()
    return next((query for query in queries.values() if query and query.resolvedCheckpointRoot() == root), None)

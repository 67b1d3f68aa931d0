"""The verdicts of a micro-batch, kept in the checkpoint of its query: what is written and what goes back are two looks at one judgement.

    judge --judged rows--> <checkpointLocation>/sprocketmq/verdicts-<name>/rows     --> good rows: ``write``
          (Parquet, one batch, overwritten by the next)      |                      `-> bad rows: back to the brokers
                                                             `--> /checked: which batch, which judgement, how many rows

``persist`` keeps rows in executors: those that die take them along, and Spark judges them again. A reliable checkpoint of Spark lives as
long as its driver. A file in the query's own checkpoint, which driver and executors share anyhow, survives both, so a batch that is
repeated by another driver finds what the first one decided (docs/decisions/0025-verdicts-in-the-checkpoint.md).

Laws (tests/system/spark/test_kept_verdicts.py)
1. A row is judged by one attempt of one task: Spark's output committer takes one, and what is read later is what it took.
2. Kept verdicts are of one batch as Spark journaled it: its number and its offsets. Where an operator took the offsets away, they count
   for nothing.
3. They count once they are checked: ``checked`` is written last, and names the one judgement that it is about. Whoever finds it counts
   the rows of that judgement again. Fewer or none: the batch is judged anew.
4. Only the first call for a batch in a run can be a repeat, and one after a call that failed: the batches before it are done.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.retry.verdict_columns import VERDICT_TYPES, wrong_verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["KeptVerdicts"]

log = logging.getLogger("sprocketmq.spark")

_FOLDER: Final = "sprocketmq/verdicts-"
# Which judgement a row is of; one for each time that a batch is judged.
_JUDGEMENT: Final = "__sprocketmq_judgement"
_ROWS: Final = "__sprocketmq_rows"
# StreamExecution.QUERY_ID_KEY, a local property of the thread that runs the batch
_QUERY_ID: Final = "sql.streaming.queryId"


class KeptVerdicts:
    """The place for the verdicts of batch ``batch_id``, of which ``rows`` are.

    Args:
        name: of the judge among those of the query.
        checkpoint_location: of the query; None asks Spark, which says it in classic sessions only.

    Raises:
        ConfigurationError: the checkpoint is not known or is another query's, or two judges have one name.
    """

    # Where -> the run of a query and its batch that was kept there last, by this process.
    _last: ClassVar[dict[str, tuple[str, int]]] = {}

    def __init__(self, rows: DataFrame, batch_id: int, name: str, checkpoint_location: str | None) -> None:
        self._spark: SparkSession = rows.sparkSession
        self._batch_id = batch_id
        location, run = _query_of(self._spark, checkpoint_location)
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
        self._offsets = self._offsets_of_batch()
        if run is not None:
            self._last[self.path] = run, batch_id

    def call_failed(self) -> None:
        """Another call for this batch repeats this one: it is not judged twice, and finds what this one decided."""
        self._last.pop(self.path, None)

    def found(self) -> DataFrame | None:
        """What an earlier call decided about this batch; None when nobody did."""
        from pyspark.errors import AnalysisException
        from pyspark.sql.types import StructType

        checked = self._checked() if self._can_be_a_repeat else None
        if checked is None or (checked["batch"], checked["offsets"]) != (self._batch_id, self._offsets):
            return None
        there = 0
        try:
            kept = self._kept(checked["judgement"], StructType.fromJson(checked["schema"]))
            there = kept.count()
            if there == checked["rows"]:
                return kept
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
        log.warning(
            "batch %d was judged before, and of its %d judged rows at %s only %d are there to be read; it is judged anew",
            *(self._batch_id, checked["rows"], self._rows_path, there),
        )
        return None

    def keep(self, judged: DataFrame) -> DataFrame:
        """Judge, once: the rows as they are kept.

        Raises:
            ConfigurationError: a verdict that does not exist, or the checkpoint is on no storage that all processes share; a mended judge
                is asked again.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        empty = {name: VERDICT_TYPES.get(name, ("string",))[0] for name, kind in judged.dtypes if kind == "void"}
        for name, kind in empty.items():
            judged = judged.withColumn(name, f.col(name).cast(kind))
        judgement = uuid.uuid4().hex
        marked = judged.withColumn(_JUDGEMENT, f.lit(judgement))
        observed = Observation()
        marked.observe(observed, f.count(f.lit(1)).alias(_ROWS)).write.mode("overwrite").parquet(self._rows_path)
        written = observed.get.get(_ROWS, 0)
        kept = self._kept(judgement, marked.schema)
        self._check(kept, written)
        self._note(judgement, written, marked.schema)
        return kept

    def _kept(self, judgement: str, schema: StructType) -> DataFrame:
        from pyspark.sql import functions as f

        # Of a given schema: without a single file Spark knows none, and there is nothing to be found then.
        kept = self._spark.read.schema(schema).parquet(_literally(self._rows_path))
        return kept.where(f.col(_JUDGEMENT) == judgement).drop(_JUDGEMENT)

    def _check(self, kept: DataFrame, written: int) -> None:
        from pyspark.sql import functions as f

        checks = wrong_verdicts(kept.columns)
        seen = kept.agg(f.count(f.lit(1)), *(wrong for wrong, _ in checks)).head()
        assert seen is not None
        if seen[0] != written:
            raise ConfigurationError(
                f"{written} judged rows were written to {self._rows_path} and {seen[0]} are there to be read; the checkpoint location "
                "must be on storage that the driver and all executors share"
            )
        for value, (_, sentence) in zip(seen[1:], checks, strict=True):
            if value is not None:
                raise ConfigurationError(sentence(value))

    def _note(self, judgement: str, rows: int, schema: StructType) -> None:
        """Say that this judgement is whole and checked."""
        from pyspark.sql import functions as f

        said = json.dumps(
            {
                "batch": self._batch_id,
                "offsets": self._offsets,
                "judgement": judgement,
                "rows": rows,
                "schema": schema.jsonValue(),
            }
        )
        line = self._spark.range(0, 1, 1, 1).select(f.lit(said).alias("value"))
        line.write.mode("overwrite").text(self._checked_path)

    def _checked(self) -> dict[str, Any] | None:
        """What ``_note`` said last."""
        said = self._text(self._checked_path)
        return json.loads(said) if said else None  # empty: a machine lost its power

    def _offsets_of_batch(self) -> str:
        """What Spark journaled for this batch before it ran, as a short hash."""
        journal = self._text(f"{self._location}/offsets/{self._batch_id}")
        if journal is None:
            raise ConfigurationError(
                f"the checkpoint at {self._location} knows no batch {self._batch_id}; give foreach_batch the checkpointLocation of the "
                "query that calls it"
            )
        return hashlib.sha256(journal.encode()).hexdigest()[:32]

    def _text(self, path: str) -> str | None:
        """What is in the file at ``path``, or in the one file of the folder there; None when there is nothing."""
        from pyspark.errors import AnalysisException

        try:
            found = self._spark.read.text(_literally(path), wholetext=True).head()
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return None
            raise
        return found[0] if found else None


def _literally(path: str) -> str:
    """``path`` for a read of Spark, which takes a path for a pattern (``SparkHadoopUtil.isGlobPath``); a write does not."""
    return re.sub(r"[\[\]{}*?\\]", r"\\\g<0>", path)


def _query_of(spark: SparkSession, given: str | None) -> tuple[str | None, str | None]:
    """The checkpoint of the query whose batch is judged, and which run of it this is; None for what cannot be told.

    A thread that the user started does not know its query; the checkpoint that was given does, as it has one run at a time.
    """
    if not hasattr(spark, "_jsparkSession"):
        return given, str(os.getpid())  # Connect: a process of its own for each run
    jvm: Any = spark._jvm
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is not None:
        query = queries.get(jvm.java.util.UUID.fromString(query_id))
    elif given is not None:
        path = jvm.org.apache.hadoop.fs.Path(given)
        system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        root = system.makeQualified(path).toString()
        query = next((query for query in queries.values() if query and query.resolvedCheckpointRoot() == root), None)
    else:
        query = None
    if query is None:
        return given, None
    return given or query.resolvedCheckpointRoot(), query.runId().toString()

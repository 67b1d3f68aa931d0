"""The verdicts of a micro-batch, kept in the checkpoint of its query: what is written and what goes back are two looks at one judgement.

    judge --judged rows--> <checkpointLocation>/sprocketmq/verdicts-<name>  --> good rows: ``write``
          (Parquet, one batch, overwritten by the next)                     `-> bad rows: back to the brokers

``persist`` keeps rows in executors: those that die take them along, and Spark judges them again. A reliable checkpoint of Spark lives as
long as its driver. A file in the query's own checkpoint, which driver and executors share anyhow, survives both, so a batch that is
repeated by another driver finds what the first one decided (docs/decisions/0025-verdicts-in-the-checkpoint.md).

Laws (tests/system/spark/test_kept_verdicts.py)
1. A row is judged by one attempt of one task: Spark's output committer takes one, and what is read later is what it took.
2. Kept verdicts are of one batch as Spark journaled it: its number and its offsets. Where an operator took the offsets away, they count
   for nothing.
3. They are whole or they are not there: ``_SUCCESS`` is written last, and as many rows are read as were written.
4. Only the first batch of a run can be a repeat: those before the second one of the same run are done.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.verdict_columns import VERDICT_TYPES, wrong_verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KeptVerdicts"]

_FOLDER: Final = "sprocketmq/verdicts-"
_BATCH: Final = "__sprocketmq_batch"
_OFFSETS: Final = "__sprocketmq_offsets"
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
        own_location, run = _query_of(self._spark)
        location = checkpoint_location or own_location
        if location is None:
            raise ConfigurationError(
                "foreach_batch keeps the verdicts of a batch in the checkpoint of its query, and Spark does not say here where that is; "
                "give checkpoint_location, the same as the query's checkpointLocation"
            )
        self._location = location.rstrip("/")
        named = re.sub("[^A-Za-z0-9_-]", lambda found: f".{ord(found[0]):02x}", name)
        self.path = f"{self._location}/{_FOLDER}{named}"
        before = self._last.get(self.path)
        if before == (run, batch_id):
            raise ConfigurationError(
                f"batch {batch_id} of one query is judged twice under the name {name!r}; call foreach_batch's function once for a batch, "
                "or make one for each judge, each with a name of its own"
            )
        self._can_be_a_repeat = before is None or before[0] != run
        self._last[self.path] = run, batch_id
        self._offsets = self._offsets_of_batch()

    def found(self) -> DataFrame | None:
        """What an earlier run decided about this batch; None when nobody did."""
        if not self._can_be_a_repeat or not self._is_there(f"{self.path}/_SUCCESS"):
            return None
        kept = self._spark.read.parquet(self.path)
        of_batch = kept.select(_BATCH, _OFFSETS).head()
        if of_batch is None or (of_batch[0], of_batch[1]) != (self._batch_id, self._offsets):
            return None
        return kept.drop(_BATCH, _OFFSETS)

    def keep(self, judged: DataFrame) -> DataFrame:
        """Judge, once: the rows as they are kept.

        Raises:
            ConfigurationError: a verdict that does not exist, or the checkpoint is on no storage that all processes share; nothing is kept.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        empty = {name: VERDICT_TYPES.get(name, ("string",))[0] for name, kind in judged.dtypes if kind == "void"}
        for name, kind in empty.items():
            judged = judged.withColumn(name, f.col(name).cast(kind))
        marked = judged.withColumn(_BATCH, f.lit(self._batch_id)).withColumn(_OFFSETS, f.lit(self._offsets))
        written = Observation()
        marked.observe(written, f.count(f.lit(1)).alias(_ROWS)).write.mode("overwrite").parquet(self.path)
        kept = self._spark.read.schema(marked.schema).parquet(self.path)
        self._check(kept, written.get.get(_ROWS, 0))
        return kept.drop(_BATCH, _OFFSETS)

    def _check(self, kept: DataFrame, written: int) -> None:
        from pyspark.sql import functions as f

        if not self._is_there(f"{self.path}/_SUCCESS"):
            raise ConfigurationError(
                "Spark writes no _SUCCESS files (mapreduce.fileoutputcommitter.marksuccessfuljobs is false), by which foreach_batch "
                "tells whole batches; set it to true"
            )
        checks = wrong_verdicts(kept.columns)
        seen = kept.agg(f.count(f.lit(1)), *(wrong for wrong, _ in checks)).head()
        assert seen is not None
        if seen[0] != written:
            self._forget()
            raise ConfigurationError(
                f"{written} judged rows were written to {self.path} and {seen[0]} are there to be read; the checkpoint location must "
                "be on storage that the driver and all executors share"
            )
        for value, (_, sentence) in zip(seen[1:], checks, strict=True):
            if value is not None:
                self._forget()  # a judge that was mended is to be asked
                raise ConfigurationError(sentence(value))

    def _forget(self) -> None:
        from pyspark.sql import functions as f

        nobody = self._spark.range(0).select(f.lit(-1).alias(_BATCH), f.lit("").alias(_OFFSETS))
        nobody.write.mode("overwrite").parquet(self.path)

    def _offsets_of_batch(self) -> str:
        """What Spark journaled for this batch before it ran, as a short hash."""
        path = f"{self._location}/offsets/{self._batch_id}"
        if not self._is_there(path):
            raise ConfigurationError(
                f"the checkpoint at {self._location} knows no batch {self._batch_id}; give foreach_batch the checkpointLocation of the "
                "query that calls it"
            )
        journal = self._spark.read.text(path, wholetext=True).head()
        return hashlib.sha256((journal[0] if journal else "").encode()).hexdigest()[:32]

    def _is_there(self, path: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(self._spark.read.text(path).schema)  # with Connect only asked for now
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return False
            raise


def _query_of(spark: SparkSession) -> tuple[str | None, str]:
    """The checkpoint of the query whose batch this thread runs, None where it cannot be told; and which run of it this is."""
    if not hasattr(spark, "_jsparkSession"):
        return None, str(os.getpid())  # Connect: a process of its own for each run
    query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is None:
        return None, ""
    jvm: Any = spark._jvm
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    query = queries.get(jvm.java.util.UUID.fromString(query_id))
    if query is None:
        return None, ""
    return query.resolvedCheckpointRoot(), query.runId().toString()
